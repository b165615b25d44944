"""Backups: one moment of rows and files, whatever is deleted meanwhile; restored into either database, or refused."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from app.admin import backup
from app.admin.backup import BackupError, back_up, check_backup, fill_from
from app.admin.integrity import verify_storage
from app.config import Settings
from app.db import Database
from app.db.engine import current_time
from app.db.tables import JobRow, ModelRow, UploadRow
from app.ids import new_id
from app.jobs import lease, queue
from app.models import service as models
from app.storage import BlobStore, ownership
from app.storage.ownership import reclaim
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
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return temporary_settings(tmp_path / "data", database_url=database_url)


@pytest.fixture
def filled(settings: Settings) -> Iterator[Database]:
    """A database with some of everything that has files."""
    with migrated_database(settings.resolved_database_url) as database:
        store = BlobStore(settings.data_dir)
        arrays = {"X": store.put(b"numbers"), "y": store.put(b"labels")}
        dataset = dataset_row(sha256=store.put(b"raw"), arrays=arrays, labels={"é": "ü\n"})
        trained, _, running = queued_jobs(database, [3, 2, 1])
        blob = store.put(model_bytes([1.0, 2.0], card=CARD))
        now = dataset.created_at
        upload = UploadRow(
            id=new_id("up"), format="csv", options={}, labels={}, received=4, created_at=now, updated_at=now
        )
        (settings.data_dir / "uploads").mkdir()
        (settings.data_dir / "uploads" / upload.id).write_bytes(b"1,2\nnever acknowledged")
        with database.write() as session:
            session.add_all([dataset, upload])
            ownership.own(
                session, store, dataset.id, {one: store.size(one) for one in (dataset.sha256, *arrays.values())}
            )
            models.register(session, ANY_BLOBS, model_row(trained, blob=blob, card=CARD), blob_bytes=store.size(blob))
            session.get_one(JobRow, running).priority = 9
        with database.write() as session:
            claim = lease.claim_next(session, "wrk_test", 600.0)
            assert claim is not None
            assert claim.job_id == running
            checkpoint = store.put(b"where the job is")
            queue.keep(session, claim, {"checkpoint": (checkpoint, 16)}, ANY_BLOBS)
        yield database


def rows_of(settings: Settings) -> Rows:
    with migrated_database(settings.resolved_database_url) as database, database.engine.connect() as connection:
        return {
            table.name: sorted(
                (dict(row) for row in connection.execute(select(table)).mappings()), key=lambda row: repr(row)
            )
            for table in backup.BACKED_UP
        }


def files_of(settings: Settings) -> dict[str, bytes]:
    store = BlobStore(settings.data_dir)
    return {sha256: store.path(sha256).read_bytes() for sha256 in store}


@contextmanager
def other_settings(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Settings]:
    url = f"sqlite:///{tmp_path / 'other.sqlite3'}"
    if kind == "postgresql":
        from tests.support.postgres import fresh_database

        with fresh_database(request.getfixturevalue("postgres_server")) as url:
            yield temporary_settings(tmp_path / "other", database_url=url)
        return
    yield temporary_settings(tmp_path / "other", database_url=url)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_is_restored_is_what_was_there(
    settings: Settings, filled: Database, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    back_up(settings, tmp_path / "backup")
    assert check_backup(tmp_path / "backup")[1] == []
    assert list((settings.data_dir / "backups").iterdir()) == [], "the second names of files are gone"
    before = rows_of(settings)
    with other_settings(kind, tmp_path, request) as other:
        fill_from(other, tmp_path / "backup")
        after = rows_of(other)
        (ran,) = [job for job in before["jobs"] if job["status"] == "running"]
        (queued,) = [job for job in after["jobs"] if job["id"] == ran["id"]]
        assert (queued["status"], queued["lease_owner"], queued["checkpoint"]) == ("queued", None, ran["checkpoint"])
        for rows in (before, after):
            rows["jobs"] = [job for job in rows["jobs"] if job["id"] != ran["id"]]
        assert after == before
        assert files_of(other) == files_of(settings)
        (part,) = (other.data_dir / "uploads").iterdir()
        assert part.read_bytes() == b"1,2\n"
        assert verify_storage(other).faults == []


def test_a_file_that_is_deleted_meanwhile_is_in_the_backup(
    settings: Settings, filled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is deleted between the moment of the snapshot and the first copy."""
    store, write_rows = BlobStore(settings.data_dir), backup._write_rows

    def delete_all_then_write(*arguments: Any) -> str:
        with filled.write() as session:
            freed = [sha256 for owner in ("ds", "mdl", "job") for sha256 in give_up(session, owner)]
        reclaim(filled, store, freed)
        return write_rows(*arguments)

    def give_up(session: Any, prefix: str) -> list[str]:
        found = {owner for owners in ownership.owners(session).values() for owner in owners if owner.startswith(prefix)}
        return [sha256 for owner in found for sha256 in ownership.disown(session, owner)]

    whole = files_of(settings)
    monkeypatch.setattr(backup, "_write_rows", delete_all_then_write)
    made = back_up(settings, tmp_path / "backup")
    assert files_of(settings) == {}
    assert set(made.blobs) == set(whole)
    assert check_backup(tmp_path / "backup")[1] == []


def test_a_deletion_waits_until_the_files_of_the_snapshot_are_linked(
    settings: Settings, filled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes between the snapshot and the first link, from another process."""
    store, link = BlobStore(settings.data_dir), backup._link
    whole = set(store)

    def delete_all() -> None:
        with filled.write() as session:
            ids = {owner for owners in ownership.owners(session).values() for owner in owners}
            freed = [sha256 for owner in ids for sha256 in ownership.disown(session, owner)]
        reclaim(filled, store, freed)

    deleting = threading.Thread(target=delete_all)

    def delete_then_link(*arguments: Any) -> None:
        if deleting.ident is None:
            deleting.start()
            deleting.join(0.5)
        link(*arguments)

    monkeypatch.setattr(backup, "_link", delete_then_link)
    made = back_up(settings, tmp_path / "backup")
    deleting.join(20)
    assert list(store) == []
    assert (set(made.blobs), made.lacking) == (whole, {})


def test_a_backup_with_a_fault_is_refused(settings: Settings, filled: Database, tmp_path: Path) -> None:
    made = back_up(settings, tmp_path / "backup")
    victim = next(iter(made.blobs))
    (tmp_path / "backup" / "blobs" / victim[:2] / victim[2:]).write_bytes(b"other bytes")
    (tmp_path / "backup" / "rows" / "jobs.jsonl").unlink()
    assert sorted(check_backup(tmp_path / "backup")[1]) == [
        f"blobs/{victim[:2]}/{victim[2:]} is damaged",
        "rows/jobs.jsonl is missing",
    ]
    other = temporary_settings(tmp_path / "other")
    with pytest.raises(BackupError, match="missing or damaged"):
        fill_from(other, tmp_path / "backup")
    (tmp_path / "backup" / "manifest.json").unlink()
    with pytest.raises(BackupError, match="interrupted"):
        fill_from(other, tmp_path / "backup")


def test_only_an_empty_place_is_filled(settings: Settings, filled: Database, tmp_path: Path) -> None:
    back_up(settings, tmp_path / "backup")
    with pytest.raises(BackupError, match="not empty"):
        fill_from(settings, tmp_path / "backup")
    with pytest.raises(BackupError, match="is not empty"):
        back_up(settings, tmp_path / "backup")
    other = temporary_settings(tmp_path / "other")
    BlobStore(other.data_dir).put(b"a file of somebody else")
    with pytest.raises(BackupError, match="another database"):
        fill_from(other, tmp_path / "backup")


def test_a_backup_of_other_tables_is_refused(settings: Settings, filled: Database, tmp_path: Path) -> None:
    back_up(settings, tmp_path / "backup")
    manifest = json.loads((tmp_path / "backup" / "manifest.json").read_text())
    (tmp_path / "backup" / "manifest.json").write_text(json.dumps({**manifest, "schema": "0001", "version": "0.0.9"}))
    with pytest.raises(BackupError, match=r"version 0\.0\.9"):
        fill_from(temporary_settings(tmp_path / "other"), tmp_path / "backup")


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_backup_goes_on_past_a_bad_file_and_names_it(
    settings: Settings, filled: Database, tmp_path: Path, damage: str
) -> None:
    store = BlobStore(settings.data_dir)
    with filled.read() as session:
        model = session.scalars(select(ModelRow)).one()
    if damage == "missing":
        store.path(model.blob).unlink()
    else:
        store.path(model.blob).write_bytes(b"damaged")
    made = back_up(settings, tmp_path / "backup")
    name = f"blobs/{model.blob[:2]}/{model.blob[2:]}"
    assert made.lacking == {name: f"is {damage}; needed by {model.id}"}
    assert set(made.blobs) == set(store) - {model.blob}
    found, faults = check_backup(tmp_path / "backup")
    assert (found, faults) == (made, [])
    other = temporary_settings(tmp_path / "other")
    fill_from(other, tmp_path / "backup")
    assert verify_storage(other).faults == [f"{model.id}: file {model.blob} is missing or damaged"]


def test_a_lost_file_of_an_upload_does_not_end_a_backup(settings: Settings, filled: Database, tmp_path: Path) -> None:
    (part,) = (settings.data_dir / "uploads").iterdir()
    part.unlink()
    made = back_up(settings, tmp_path / "backup")
    assert made.lacking == {f"uploads/{part.name}": "cannot be read: No such file or directory"}


def test_a_backup_of_a_store_that_is_away_says_so(settings: Settings, filled: Database, tmp_path: Path) -> None:
    assert verify_storage(settings).faults == []
    (settings.data_dir / "store.id").unlink()
    with pytest.raises(BackupError, match=r"has no store\.id"):
        back_up(settings, tmp_path / "backup")


KILLED = """
import os, signal, sys
from pathlib import Path
from app.admin import backup
from app.config import Settings
calls, copy = [0], backup._copy
def copy_or_die(*arguments, **named):
    calls[0] += 1
    if calls[0] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return copy(*arguments, **named)
backup._copy = copy_or_die
getattr(backup, sys.argv[1])(Settings(), Path(sys.argv[2]))
"""


def kill_in(act: str, settings: Settings, folder: Path) -> None:
    command = [sys.executable, "-c", KILLED, act, str(folder)]
    ended = subprocess.run(command, env=settings.environment(), check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_a_killed_backup_is_known_as_one_and_leaves_nothing_for_long(
    settings: Settings, filled: Database, tmp_path: Path
) -> None:
    kill_in("back_up", settings, tmp_path / "torn")
    with pytest.raises(BackupError, match="interrupted"):
        check_backup(tmp_path / "torn")
    (left,) = (settings.data_dir / "backups").iterdir()
    assert verify_storage(settings).faults == []
    os.utime(left, (0, 0))
    back_up(settings, tmp_path / "whole")
    assert list((settings.data_dir / "backups").iterdir()) == []


def test_a_killed_restore_can_be_begun_again(settings: Settings, filled: Database, tmp_path: Path) -> None:
    back_up(settings, tmp_path / "backup")
    other = temporary_settings(tmp_path / "other")
    broken = KILLED.replace("backup._copy", "backup.shutil.copyfileobj")
    command = [sys.executable, "-c", broken, "fill_from", str(tmp_path / "backup")]
    ended = subprocess.run(command, env=other.environment(), check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert rows_of(other) == {table.name: [] for table in backup.BACKED_UP}
    fill_from(other, tmp_path / "backup")
    assert verify_storage(other).faults == []
    assert len(rows_of(other)["jobs"]) == 3


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_command_line_backs_up_restores_and_verifies(settings: Settings, filled: Database, tmp_path: Path) -> None:
    def call(used: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "app.cli", *arguments]
        return subprocess.run(command, env=used.environment(), check=False, capture_output=True, text=True)

    folder, other = str(tmp_path / "backup"), temporary_settings(tmp_path / "other")
    assert call(settings, "backup", folder).returncode == 0
    assert call(settings, "verify", "--backup", folder).stdout == "the backup is complete and undamaged\n"
    restored = call(other, "restore", folder)
    assert restored.returncode == 0, restored.stderr
    assert restored.stdout.endswith("no faults found\n")
    again = call(other, "restore", folder)
    assert again.returncode == 1
    assert "not empty" in again.stderr
    with filled.read() as session:
        assert current_time(session)  # the live database was not disturbed
