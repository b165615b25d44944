"""Writers of one process: served in the order in which they came, and told if their turn does not come."""

import threading
from pathlib import Path

import pytest

from app.db import Database, engine
from app.db.write_queue import Turns
from app.errors import DatabaseUnavailable
from app.jobs import repository
from tests.support.builders import job_row, migrated_database
from tests.support.serving import wait_until


def test_the_turn_goes_to_who_has_waited_longest() -> None:
    turns, order = Turns(), []
    assert turns.take(0.0)

    def write(number: int) -> None:
        assert turns.take(60.0)
        order.append(number)
        turns.give()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(20)]
    for number, thread in enumerate(threads):
        thread.start()
        wait_until(lambda number=number: len(turns._waiting) > number, 10, "it to wait")  # type: ignore[misc]
    turns.give()
    for thread in threads:
        thread.join()
    assert order == list(range(20))
    assert turns.take(0.0), "it is free again"


def test_who_gives_up_is_passed_over() -> None:
    turns = Turns()
    assert turns.take(0.0)
    assert not turns.take(0.01)
    turns.give()
    assert turns.take(0.0)


def test_a_turn_that_does_not_come_is_a_database_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LOCK_WAIT_MS", 10)
    with migrated_database(f"sqlite:///{tmp_path / 'test.sqlite3'}") as database:
        with database.write(), pytest.raises(DatabaseUnavailable, match="locked"):
            _insert(database)
        _insert(database)
        with pytest.raises(ZeroDivisionError), database.write():
            raise ZeroDivisionError
        _insert(database)


def _insert(database: Database) -> None:
    with database.write() as session:
        repository.insert(session, job_row())
