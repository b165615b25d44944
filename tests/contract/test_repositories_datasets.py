"""What the service relies on when it stores and finds datasets, on every database."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from app.datasets import repository
from app.datasets.repository import Claim, Filters
from app.db import Database
from app.db.tables import DatasetRow
from tests.support.builders import NOBODY, count_rows, dataset_row, interrupted_write


def store(database: Database, *rows: DatasetRow) -> list[str]:
    with database.write() as session:
        for row in rows:
            repository.insert(session, row)
    return [row.id for row in rows]


def listed(
    database: Database,
    limit: int = 100,
    before_id: str | None = None,
    **filters: Any,
) -> list[str]:
    with database.read() as session:
        return [row.id for row in repository.list_newest(session, limit, before_id, Filters(**filters))]


def test_a_row_comes_back_as_it_was_stored(database: Database) -> None:
    values = {
        "name": "härte",
        "bytes": 2**40,
        "n_rows": 2**33,
        "label_names": ["ja", "nein", "🙂"],
        "classes": [{"label": 0.5, "count": 1}, {"label": "x", "count": 2}],
        "labels": {"team": "search", "a.b": "c"},
        "warnings": [{"code": "w", "detail": "d"}],
    }
    row = dataset_row(**values)
    store(database, row)
    with database.read() as session:
        found = repository.get(session, row.id)
    assert found is not None
    assert found is not row
    assert {name: getattr(found, name) for name in values} == values
    assert found.created_at == row.created_at
    assert found.created_at.utcoffset() is not None


def test_an_unknown_id_is_none(database: Database) -> None:
    with database.read() as session:
        assert repository.get(session, f"ds_{NOBODY}") is None


def test_absent_label_names_stay_absent(database: Database) -> None:
    (dataset_id,) = store(database, dataset_row(label_names=None))
    with database.read() as session:
        found = repository.get(session, dataset_id)
        assert found is not None
        assert found.label_names is None


def test_the_fingerprint_finds_its_dataset(database: Database) -> None:
    first, second = dataset_row(fingerprint="a" * 64), dataset_row(fingerprint="b" * 64)
    store(database, first, second)
    with database.read() as session:
        found = repository.get_by_fingerprint(session, "b" * 64)
        assert found is not None
        assert found.id == second.id
        assert repository.get_by_fingerprint(session, "c" * 64) is None


def test_one_fingerprint_is_stored_once(database: Database) -> None:
    store(database, dataset_row(fingerprint="a" * 64))
    with pytest.raises(IntegrityError):
        store(database, dataset_row(fingerprint="a" * 64))
    assert count_rows(database, DatasetRow) == 1


def test_a_list_is_newest_first_and_pages_meet_without_overlap(database: Database) -> None:
    ids = store(database, *(dataset_row() for _ in range(7)))
    newest_first = ids[::-1]
    assert listed(database) == newest_first
    pages, cursor = [], None
    while page := listed(database, limit=3, before_id=cursor):
        pages.append(page)
        cursor = page[-1]
    assert pages == [newest_first[:3], newest_first[3:6], newest_first[6:]]


def test_a_list_is_filtered_by_name(database: Database) -> None:
    ids = store(database, dataset_row(name="a"), dataset_row(name="b"), dataset_row(name="a"), dataset_row())
    assert listed(database, name="a") == [ids[2], ids[0]]
    assert listed(database, name="A") == []
    assert listed(database, name="a", before_id=ids[2]) == [ids[0]]


@pytest.mark.parametrize("key", ["team", "a.b", "a-b", "1", "A_b", "$", "a.b.c-d"])
def test_a_list_is_filtered_by_label_whatever_its_key_looks_like(database: Database, key: str) -> None:
    ids = store(
        database,
        dataset_row(labels={key: "x", "other": "1"}),
        dataset_row(labels={key: "y", "other": "1"}),
        dataset_row(labels={"other": "1"}),
    )
    assert listed(database, labels={key: "x"}) == [ids[0]]
    assert listed(database, labels={key: "x", "other": "1"}) == [ids[0]]
    assert listed(database, labels={key: "x", "other": "2"}) == []
    assert listed(database, labels={"other": "1"}) == ids[::-1]


@pytest.mark.parametrize("value", ["1", "1.0", "true", "null", "", "it's", 'a"b', "%", "🙂", "a\\b", "{}"])
def test_a_label_is_compared_as_text(database: Database, value: str) -> None:
    ids = store(database, dataset_row(labels={"k": value}), dataset_row(labels={"k": value + "."}), dataset_row())
    assert listed(database, labels={"k": value}) == [ids[0]]


def test_a_deleted_dataset_is_gone_and_its_fingerprint_free(database: Database) -> None:
    row = dataset_row(fingerprint="a" * 64)
    store(database, row)
    with database.write() as session:
        found = repository.get(session, row.id)
        assert found is not None
        repository.delete(session, found)
    assert listed(database) == []
    store(database, dataset_row(fingerprint="a" * 64))


def test_an_error_in_a_unit_of_work_takes_back_all_of_it(database: Database) -> None:
    with interrupted_write(database) as session:
        repository.insert(session, dataset_row())
    assert count_rows(database, DatasetRow) == 0


def test_reading_never_writes(database: Database) -> None:
    with database.read() as session:
        repository.insert(session, dataset_row())
    assert count_rows(database, DatasetRow) == 0


def test_a_list_is_filtered_by_status_task_and_time(database: Database) -> None:
    old = datetime(2020, 1, 1, tzinfo=UTC)
    ids = store(
        database,
        dataset_row(status="processing", created_at=old),
        dataset_row(task_hint="regression"),
        dataset_row(status="invalid"),
    )
    assert listed(database, status="processing") == [ids[0]]
    assert listed(database, task="regression") == [ids[1]]
    assert listed(database, created_after=old) == [ids[2], ids[1]]
    assert listed(database, created_after=old - timedelta(seconds=1), status="processing") == [ids[0]]


def processing(seconds: float, **values: Any) -> DatasetRow:
    """A dataset whose reader may stay silent for these seconds from now on."""
    expires = datetime.now(UTC) + timedelta(seconds=seconds)
    return dataset_row(status="processing", attempt=1, lease_expires_at=expires, **values)


def test_only_silent_readers_lose_their_dataset(database: Database) -> None:
    silent, alive, ready = processing(-60), processing(60), dataset_row()
    store(database, silent, alive, ready)
    with database.write() as session:
        assert repository.any_silent(session)
        assert repository.claim_silent(session, 30) == [Claim(silent.id, 2)]
    with database.write() as session:
        assert not repository.any_silent(session)
        assert repository.claim_silent(session, 30) == []


def test_a_reader_that_lost_its_dataset_cannot_write_to_it(database: Database) -> None:
    row = processing(-60)
    store(database, row)
    with database.write() as session:
        (taken,) = repository.claim_silent(session, 30)
        assert not repository.update_claimed(session, Claim(row.id, 1), status="ready")
        assert repository.update_claimed(session, taken, status="ready")
        assert not repository.update_claimed(session, taken, status="invalid")


def test_a_renewed_lease_keeps_others_away(database: Database) -> None:
    row = processing(-60)
    store(database, row)
    with database.write() as session:
        repository.extend_leases(session, [Claim(row.id, 1)], 30)
        assert not repository.any_silent(session)
        repository.extend_leases(session, [Claim(row.id, 1)], -1)
        assert repository.any_silent(session)


def test_statistics_are_set_once(database: Database) -> None:
    (dataset_id,) = store(database, dataset_row())
    with database.write() as session:
        assert repository.set_statistics(session, dataset_id, None, "a" * 64)
        assert not repository.set_statistics(session, dataset_id, None, "b" * 64)
        assert not repository.set_statistics(session, f"ds_{NOBODY}", None, "a" * 64)
        repository.set_issues(session, dataset_id, [{"code": "x"}])
    with database.read() as session:
        found = repository.get(session, dataset_id)
        assert found is not None
        assert (found.statistics, found.issues) == ("a" * 64, [{"code": "x"}])


def test_an_invalid_dataset_expires(database: Database) -> None:
    now = datetime.now(UTC)
    ids = store(
        database,
        dataset_row(expires_at=now - timedelta(seconds=60)),
        dataset_row(expires_at=now + timedelta(seconds=60)),
        dataset_row(),
    )
    with database.read() as session:
        assert [row.id for row in repository.expired(session)] == ids[:1]
