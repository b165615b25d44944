"""Models that are ready to answer: opened once, forgotten when deleted, bounded by bytes."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import Connection

from app.db import Database
from app.errors import NotFound
from app.models import service as models
from app.predictions import model_cache
from app.predictions.model_cache import ModelCache
from app.storage import BlobStore
from tests.support.builders import ANY_BLOBS, migrated_database, model_bytes, model_row, queued_jobs
from tests.support.serving import wait_until

MODEL_BYTES = len(model_bytes([0.0]))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with migrated_database(f"sqlite:///{tmp_path / 'test.sqlite3'}") as database:
        yield database


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path)


def add(database: Database, blobs: BlobStore, name: str, weight: float) -> str:
    """The id of a new model with one feature, `weight` (one digit, so that all files have one size)."""
    (job_id,) = queued_jobs(database, [0])
    row = model_row(job_id, name=name, blob=blobs.put(model_bytes([weight])))
    with database.write() as session:
        models.register(session, ANY_BLOBS, row, blob_bytes=MODEL_BYTES)
    return row.id


def test_a_model_is_found_by_id_name_and_version(database: Database, blobs: BlobStore) -> None:
    first, second = add(database, blobs, "a", 1.0), add(database, blobs, "a", 2.0)
    ready = ModelCache(database, blobs, max_bytes=10 * MODEL_BYTES)
    assert [ready.find(reference).id for reference in (first, "a:1", "a", second)] == [first, first, second, second]
    found = ready.find("a")
    assert (found.name, found.version, found.file.coef.tolist()) == ("a", 2, [2.0])
    with pytest.raises(NotFound):
        ready.find("b")


def test_the_ceiling_of_a_request_is_that_of_the_settings(database: Database, blobs: BlobStore) -> None:
    add(database, blobs, "a", 1.0)
    ready = ModelCache(database, blobs, max_bytes=10 * MODEL_BYTES, max_predict_bytes=1234)
    assert ready.find("a").features.most_bytes == 1234


def test_a_name_follows_its_newest_version(
    database: Database, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(database, blobs, "a", 1.0)
    ready = ModelCache(database, blobs, max_bytes=10 * MODEL_BYTES)
    monkeypatch.setattr(model_cache, "NAME_TRUST_SECONDS", 0.0)
    assert ready.find("a").version == 1
    add(database, blobs, "a", 2.0)
    assert ready.find("a").version == 2
    assert ready.recall("a") is None, "a name was answered without asking the database"


@pytest.mark.parametrize(("by_name", "trust"), [(False, "ID_TRUST_SECONDS"), (True, "NAME_TRUST_SECONDS")])
def test_a_reference_is_recalled_for_a_moment_without_the_database(
    database: Database, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch, by_name: bool, trust: str
) -> None:
    model_id = add(database, blobs, "a", 1.0)
    reference = "a" if by_name else model_id
    ready = ModelCache(database, blobs, max_bytes=10 * MODEL_BYTES)
    assert ready.recall(reference) is None
    monkeypatch.setattr(model_cache, trust, 60.0)
    found = ready.find(reference)
    assert ready.recall(reference) is found
    monkeypatch.setattr(model_cache, trust, 0.0)
    assert ready.find(reference) is found, "opened a second time"
    assert ready.recall(reference) is None


def test_a_reference_in_steady_use_is_confirmed_before_its_time_is_over(
    database: Database, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(database, blobs, "a", 1.0)
    ready = ModelCache(database, blobs, max_bytes=10 * MODEL_BYTES)
    monkeypatch.setattr(model_cache, "NAME_TRUST_SECONDS", 60.0)
    monkeypatch.setattr(model_cache, "LAST_PART", 0.0)
    assert ready.find("a").version == 1
    add(database, blobs, "a", 2.0)
    old = ready.recall("a")
    assert old is not None
    assert old.version == 1, "a request waited for the database"
    wait_until(lambda: ready._trusted["a"].targets[0][0] != old.id, 10, "the reference to be looked up again")
    new = ready.recall("a")
    assert new is not None
    assert new.version == 2


def test_a_look_that_takes_long_holds_up_no_request_of_a_reference_in_use(
    database: Database, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(database, blobs, "a", 1.0)
    ready = ModelCache(database, blobs, max_bytes=10 * MODEL_BYTES)
    monkeypatch.setattr(model_cache, "NAME_TRUST_SECONDS", 60.0)
    monkeypatch.setattr(model_cache, "LAST_PART", 0.0)
    found, unlocked, look = ready.find("a"), threading.Event(), models.route

    def look_when_unlocked(connection: Connection, reference: str) -> models.Route:
        unlocked.wait(30)
        return look(connection, reference)

    monkeypatch.setattr(models, "route", look_when_unlocked)
    assert ready.recall("a") is found  # which begins a look
    ready._trusted["a"] = ready._confirming["a"] = ready._trusted["a"]._replace(until=time.monotonic() - 1.0)
    assert ready.recall("a") is found, "a request waited for the database"
    unlocked.set()
    wait_until(lambda: not ready._confirming, 10, "the look to end")
    ready._trusted["a"] = ready._trusted["a"]._replace(until=time.monotonic() - 1.0)
    assert ready.recall("a") is None, "an answer was believed beyond its time though no look was under way"


def test_an_answer_from_before_a_change_is_not_believed(
    database: Database, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(database, blobs, "a", 1.0)
    ready = ModelCache(database, blobs, max_bytes=10 * MODEL_BYTES)
    monkeypatch.setattr(model_cache, "NAME_TRUST_SECONDS", 60.0)
    look = models.route

    def look_and_be_late(connection: Connection, reference: str) -> models.Route:
        found = look(connection, reference)
        ready.forget_reference("a")
        return found

    monkeypatch.setattr(models, "route", look_and_be_late)
    assert ready.find("a").version == 1
    assert ready.recall("a") is None


def test_a_deleted_model_no_longer_answers(database: Database, blobs: BlobStore) -> None:
    model_id = add(database, blobs, "a", 1.0)
    ready = ModelCache(database, blobs, max_bytes=10 * MODEL_BYTES)
    for reference in (model_id, "a", "a:1"):
        ready.find(reference)
    with database.write() as session:
        models.delete(session, model_id)
    ready.forget(model_id)
    for reference in (model_id, "a", "a:1"):
        assert ready.recall(reference) is None
        with pytest.raises(NotFound):
            ready.find(reference)


@pytest.mark.parametrize("by_name", [False, True])
def test_the_least_recently_used_model_makes_room(database: Database, blobs: BlobStore, by_name: bool) -> None:
    names = ["a", "b", "c"]
    ids = [add(database, blobs, name, float(number)) for number, name in enumerate(names, 1)]
    reference = dict(zip(names, names if by_name else ids, strict=True))
    ready = ModelCache(database, blobs, max_bytes=2 * MODEL_BYTES)
    a, b = ready.find(reference["a"]), ready.find(reference["b"])
    assert ready.find(reference["a"]) is a
    ready.find(reference["c"])
    assert ready.find(reference["a"]) is a, "the one that was just used was dropped"
    assert ready.find(reference["b"]) is not b, "nothing was dropped"


def test_a_model_larger_than_the_cache_is_served_all_the_same(database: Database, blobs: BlobStore) -> None:
    model_id = add(database, blobs, "a", 1.0)
    ready = ModelCache(database, blobs, max_bytes=1)
    assert ready.find(model_id).file.coef.tolist() == [1.0]
    assert ready.recall(model_id) is not None
