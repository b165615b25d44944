"""`hyperplane verify` finds every way in which files and rows can disagree."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.admin.integrity import verify_storage
from app.config import Settings
from app.db import Database
from app.db.tables import DatasetRow, ModelRow, UploadRow
from app.ids import new_id
from app.jobs import lease, queue
from app.models import service as models
from app.storage import BlobStore, ownership
from tests.support.builders import (
    ANY_BLOBS,
    dataset_row,
    migrated_database,
    model_bytes,
    model_row,
    queued_jobs,
    temporary_settings,
)

CARD = {"certificate": {"relative_gap": 1e-4}}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return temporary_settings(tmp_path)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    with migrated_database(settings.resolved_database_url) as database:
        yield database


@pytest.fixture
def store(settings: Settings) -> BlobStore:
    return BlobStore(settings.data_dir)


def add_dataset(database: Database, store: BlobStore) -> tuple[str, dict[str, str]]:
    arrays = {"X": store.put(b"X"), "y": store.put(b"y")}
    row = dataset_row(sha256=store.put(b"raw"), arrays=arrays)
    with database.write() as session:
        session.add(row)
        ownership.own(session, ANY_BLOBS, row.id, {row.sha256: 3, arrays["X"]: 1, arrays["y"]: 1})
    return row.id, {**arrays, "raw": row.sha256}


def add_model(database: Database, blob: str, card: dict[str, object] = CARD) -> ModelRow:
    (job_id,) = queued_jobs(database, [0])
    row = model_row(job_id, blob=blob, card=card)
    with database.write() as session:
        models.register(session, ANY_BLOBS, row, blob_bytes=1)
    return row


def test_a_sound_store_is_sound(settings: Settings, database: Database, store: BlobStore) -> None:
    add_dataset(database, store)
    add_model(database, store.put(model_bytes([1.0, 2.0], card=CARD)))
    report = verify_storage(settings)
    assert (report.faults, report.unowned) == ([], [])
    assert (report.blobs, report.datasets, report.models, report.sound) == (4, 1, 1, True)


@pytest.mark.parametrize("part", ["X", "y", "raw"])
def test_a_flipped_byte_is_found(settings: Settings, database: Database, store: BlobStore, part: str) -> None:
    dataset_id, files = add_dataset(database, store)
    store.path(files[part]).write_bytes(b"?")
    report = verify_storage(settings)
    assert not report.sound
    assert report.faults == [
        f"file {files[part]}: damaged (its bytes have another hash)",
        f"{dataset_id}: file {files[part]} is missing or damaged",
    ]


def test_a_checkpoint_is_needed_by_its_job(settings: Settings, database: Database, store: BlobStore) -> None:
    (job_id,) = queued_jobs(database, [0])
    with database.write() as session:
        claim = lease.claim_next(session, "wrk_test", 60.0)
        assert claim is not None
        blobs = {"checkpoint": (store.put(b"state"), 5), "snapshot": (store.put(b"model"), 5)}
        queue.keep(session, claim, blobs, ANY_BLOBS)
    assert verify_storage(settings).sound
    store.path(blobs["checkpoint"][0]).unlink()
    assert verify_storage(settings).faults == [f"{job_id}: file {blobs['checkpoint'][0]} is missing or damaged"]


def test_a_missing_file_is_found(settings: Settings, database: Database, store: BlobStore) -> None:
    dataset_id, files = add_dataset(database, store)
    store.path(files["X"]).unlink()
    assert verify_storage(settings).faults == [f"{dataset_id}: file {files['X']} is missing or damaged"]


def test_a_file_that_a_sweep_would_take_from_its_row_is_found(
    settings: Settings, database: Database, store: BlobStore
) -> None:
    dataset_id, files = add_dataset(database, store)
    with database.write() as session:
        ownership.disown(session, dataset_id)
    report = verify_storage(settings)
    assert len(report.faults) == 3
    assert all(fault.endswith("but is not recorded as its owner") for fault in report.faults)
    assert sorted(report.unowned) == sorted(files.values())


def test_statistics_belong_to_their_dataset(settings: Settings, database: Database, store: BlobStore) -> None:
    dataset_id, _ = add_dataset(database, store)
    sha256 = store.put(b"statistics")
    with database.write() as session:
        session.get_one(DatasetRow, dataset_id).statistics = sha256
        ownership.own(session, ANY_BLOBS, dataset_id, {sha256: 10})
    assert verify_storage(settings).sound
    store.path(sha256).unlink()
    assert verify_storage(settings).faults == [f"{dataset_id}: file {sha256} is missing or damaged"]


@pytest.mark.parametrize(("status", "missing"), [("processing", 1), ("invalid", 0)])
def test_a_dataset_needs_the_files_of_its_state(
    settings: Settings, database: Database, status: str, missing: int
) -> None:
    with database.write() as session:
        row = dataset_row(status=status, sha256="9" * 64, arrays={})
        session.add(row)
        if status == "processing":
            ownership.own(session, ANY_BLOBS, row.id, {row.sha256: 3})
    assert len(verify_storage(settings).faults) == missing


def test_whoever_owns_a_file_must_exist_and_so_must_the_file(
    settings: Settings, database: Database, store: BlobStore
) -> None:
    (job_id,) = queued_jobs(database, [0])
    nobody, kept = new_id("job"), store.put(b"a table of predictions")
    with database.write() as session:
        ownership.own(session, ANY_BLOBS, job_id, {kept: 22, "9" * 64: 5})
        ownership.own(session, ANY_BLOBS, nobody, {kept: 22})
    faults = verify_storage(settings).faults
    assert faults == [
        f"{job_id}: file {'9' * 64} is missing or damaged",
        f"{nobody}: owns files, but there is no such row",
    ]


def test_acknowledged_bytes_of_an_upload_must_be_there(settings: Settings, database: Database) -> None:
    now = datetime.now(UTC)
    row = UploadRow(id=new_id("up"), format="csv", options={}, labels={}, received=5, created_at=now, updated_at=now)
    part = settings.data_dir / "uploads" / row.id
    part.parent.mkdir()
    part.write_bytes(b"1,2,3,4")
    with database.write() as session:
        session.add(row)
    assert verify_storage(settings).sound
    part.write_bytes(b"1,2")
    assert verify_storage(settings).faults == [f"{row.id}: 5 bytes were acknowledged, but its file has 3"]


def test_a_model_that_is_not_what_its_row_says_is_found(
    settings: Settings, database: Database, store: BlobStore
) -> None:
    other_card = add_model(database, store.put(model_bytes([1.0], card={"other": 1})))
    no_model = add_model(database, store.put(b"no model at all"))
    faults = verify_storage(settings).faults
    assert len(faults) == 2
    assert faults[0].startswith(f"{other_card.id}: the card")
    assert faults[1].startswith(f"{no_model.id}: the file does not begin with the magic bytes of a model")


def test_a_file_that_nobody_owns_is_told_but_is_no_fault(settings: Settings, database: Database) -> None:
    sha256 = BlobStore(settings.data_dir).put(b"left over")
    report = verify_storage(settings)
    assert (report.sound, report.unowned) == (True, [sha256])
    assert "1 files have no owner" in "\n".join(report.lines())
