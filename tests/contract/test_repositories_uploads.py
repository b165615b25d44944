"""What resumable uploads rely on in every database."""

from datetime import UTC, datetime, timedelta
from typing import Any

from app.datasets.uploads import repository
from app.db import Database
from app.db.tables import UploadRow
from app.ids import new_id
from tests.support.builders import NOBODY, count_rows


def upload_row(**values: Any) -> UploadRow:
    now = datetime.now(UTC)
    defaults: dict[str, Any] = {
        "id": new_id("up"),
        "format": "csv",
        "options": {"target": "y", "ignore": ["a"]},
        "name": None,
        "labels": {"k": "v"},
        "length": None,
        "received": 0,
        "created_at": now,
        "updated_at": now,
    }
    return UploadRow(**{**defaults, **values})


def store(database: Database, *rows: UploadRow) -> list[str]:
    with database.write() as session:
        for row in rows:
            repository.insert(session, row)
    return [row.id for row in rows]


def test_an_upload_comes_back_as_it_was_stored(database: Database) -> None:
    (upload_id,) = store(database, upload_row(length=2**40, received=2**35))
    with database.read() as session:
        found = repository.get(session, upload_id)
        assert found is not None
        assert (found.length, found.received, found.options["ignore"]) == (2**40, 2**35, ["a"])
        assert repository.get(session, f"up_{NOBODY}") is None


def test_a_change_counts_as_life(database: Database) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=2)
    first, second = store(database, upload_row(updated_at=long_ago), upload_row(updated_at=long_ago))
    with database.write() as session:
        assert sorted(repository.idle(session, 86_400)) == [first, second]
        assert repository.change(session, first, received=7)
        assert not repository.change(session, f"up_{NOBODY}", received=7)
    with database.read() as session:
        assert repository.idle(session, 86_400) == [second]
        found = repository.get(session, first)
        assert found is not None
        assert found.received == 7


def test_a_deleted_upload_is_gone(database: Database) -> None:
    first, second = store(database, upload_row(), upload_row())
    with database.write() as session:
        assert repository.delete(session, first)
        assert not repository.delete(session, first)
        assert repository.known_among(session, [first, second, f"up_{NOBODY}"]) == {second}
    assert count_rows(database, UploadRow) == 1
