"""What the service relies on when it registers and finds models, on every database."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.exc import IntegrityError

from app.db import Database
from app.db.engine import current_time
from app.db.tables import BlobOwnerRow, ModelNameRow, ModelRow
from app.errors import NotFound
from app.models import repository, service
from app.models.repository import Filters
from tests.support.builders import ANY_BLOBS, NOBODY, count_rows, interrupted_write, model_row, queued_jobs


def register(database: Database, *names: str) -> list[str]:
    """Ids of new models with these names, each the next version of its name."""
    job_ids = queued_jobs(database, [0] * len(names))
    rows = [model_row(job_id, name=name) for job_id, name in zip(job_ids, names, strict=True)]
    with database.write() as session:
        for row in rows:
            service.register(session, ANY_BLOBS, row, blob_bytes=100)
    return [row.id for row in rows]


def delete(database: Database, reference: str) -> None:
    with database.write() as session:
        service.delete(session, reference)


def resolved(database: Database, reference: str) -> str | None:
    with database.read() as session:
        try:
            return service.resolve(session, reference).id
        except NotFound:
            return None


def listed(database: Database, limit: int = 100, before_id: str | None = None, name: str | None = None) -> list[str]:
    with database.read() as session:
        return [row.id for row in repository.list_newest(session, limit, before_id, Filters(name))]


def test_a_row_comes_back_as_it_was_stored(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    card = {"certificate": {"primal": 0.1 + 0.2, "dual_bound": None}, "classes": ["a", 1, 2.5]}
    row = model_row(job_id, card=card, converged=False)
    with database.write() as session:
        service.register(session, ANY_BLOBS, row, blob_bytes=100)
    with database.read() as session:
        found = repository.get(session, row.id)
        assert found is not None
        assert found.card == card
    assert (found.name, found.version, found.job_id, found.converged) == ("m", 1, job_id, False)
    assert found.created_at == row.created_at


def test_versions_of_a_name_count_from_one(database: Database) -> None:
    a1, b1, a2 = register(database, "a", "b", "a")
    assert resolved(database, "a:1") == a1
    assert resolved(database, "a:2") == a2
    assert resolved(database, "b:1") == b1
    assert resolved(database, "a:3") is None


def test_a_bare_name_is_its_newest_version_that_is_not_deleted(database: Database) -> None:
    a1, a2 = register(database, "a", "a")
    assert resolved(database, "a") == a2
    delete(database, "a:2")
    assert resolved(database, "a") == a1
    assert resolved(database, "a:2") is None
    assert resolved(database, a2) is None
    (a3,) = register(database, "a")
    assert resolved(database, "a:3") == a3, "the number of a deleted version was used again"


def test_deleting_twice_is_not_found(database: Database) -> None:
    register(database, "a")
    delete(database, "a")
    with pytest.raises(NotFound):
        delete(database, "a")


@pytest.mark.parametrize(
    "reference",
    [
        *("", "A", "a:", "a:0", "a:-1", "a:1.0", "a: 1", "a:1:1", "a:x", "a:²", "a:99999999999999999999", ":1"),
        *("a\x00", "a\n", "a ", "%", f"mdl_{NOBODY}", f"mdl_{NOBODY}\n", f"ds_{NOBODY}", "🙂"),
    ],
)
def test_a_reference_to_nothing_is_not_found(database: Database, reference: str) -> None:
    register(database, "a")
    assert resolved(database, reference) is None


def test_eight_jobs_that_finish_at_once_get_the_versions_one_to_eight(database: Database) -> None:
    job_ids = queued_jobs(database, [0] * 8)

    def finish(job_id: str) -> int:
        row = model_row(job_id, name="same")
        with database.write() as session:
            service.register(session, ANY_BLOBS, row, blob_bytes=100)
        return row.version

    with ThreadPoolExecutor(8) as threads:
        versions = list(threads.map(finish, job_ids))
    assert sorted(versions) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_registration_that_is_taken_back_leaves_no_gap(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    with interrupted_write(database) as session:
        service.register(session, ANY_BLOBS, model_row(job_id, name="a"), blob_bytes=100)
    tables = (ModelRow, ModelNameRow, BlobOwnerRow)
    assert [count_rows(database, table) for table in tables] == [0, 0, 0]
    (a1,) = register(database, "a")
    assert resolved(database, "a:1") == a1


def test_a_job_has_at_most_one_model(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    with database.write() as session:
        service.register(session, ANY_BLOBS, model_row(job_id), blob_bytes=100)
    with pytest.raises(IntegrityError), database.write() as session:
        service.register(session, ANY_BLOBS, model_row(job_id), blob_bytes=100)
    assert count_rows(database, ModelRow) == 1


def test_a_list_is_newest_first_filtered_by_name_and_without_deleted_ones(database: Database) -> None:
    ids = register(database, "a", "b", "a", "a", "b")
    assert listed(database) == ids[::-1]
    assert listed(database, limit=2, before_id=ids[3]) == [ids[2], ids[1]]
    assert listed(database, name="a") == [ids[3], ids[2], ids[0]]
    delete(database, ids[2])
    assert listed(database, name="a") == [ids[3], ids[0]]
    assert ids[2] not in listed(database)


def test_a_time_without_a_zone_is_refused(database: Database) -> None:
    (job_id,) = queued_jobs(database, [0])
    with database.read() as session:
        naive = current_time(session).replace(tzinfo=None)
    with pytest.raises(Exception, match="must have a time zone"), database.write() as session:
        service.register(session, ANY_BLOBS, model_row(job_id, created_at=naive), blob_bytes=1)
