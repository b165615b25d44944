"""`hyperplane verify --repair` takes a good copy where there is one, and leaves the rest to be named by `verify`."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from app.admin import repair
from app.admin.backup import back_up
from app.admin.integrity import verify_storage
from app.admin.repair import repair_storage
from app.cli import main
from app.config import Settings
from app.datasets import service as datasets
from app.datasets.formats import ReadOptions
from app.datasets.reading.parse import Parsed, parse
from app.datasets.service import Received
from app.db import Database
from app.db.tables import DatasetRow
from app.storage import BlobStore, ownership
from tests.support.builders import migrated_database, temporary_settings
from tests.support.tables import csv_text, noisy_rows

CONTENT = csv_text(*noisy_rows(30, 2, seed=1))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return temporary_settings(tmp_path / "data")


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    with migrated_database(settings.resolved_database_url) as database:
        yield database


@pytest.fixture
def dataset(settings: Settings, database: Database) -> DatasetRow:
    blobs = BlobStore(settings.data_dir)
    sha256 = blobs.put(CONTENT)
    parsed = parse(settings.data_dir, blobs.path(sha256), "csv", ReadOptions(), 1 << 30)
    received = Received(sha256, len(CONTENT), "csv", ReadOptions(), None, {})
    row, _ = datasets.store_ready(database, blobs, received, lambda *_: None, parsed)
    assert verify_storage(settings).faults == []
    return row


def damage(settings: Settings, *blobs: str) -> None:
    for sha256 in blobs:
        BlobStore(settings.data_dir).path(sha256).write_bytes(b"damaged")
    assert not verify_storage(settings).sound


def test_a_backup_has_good_copies(settings: Settings, dataset: DatasetRow, tmp_path: Path) -> None:
    back_up(settings, tmp_path / "backup")
    damage(settings, dataset.sha256, dataset.arrays["y"])
    lines = list(repair_storage(settings, tmp_path / "backup"))
    assert sorted(line.split(":")[0] for line in lines) == sorted(
        f"file {sha256}" for sha256 in (dataset.sha256, dataset.arrays["y"])
    )
    assert verify_storage(settings).faults == []


def test_the_file_of_an_upload_may_be_a_good_copy(settings: Settings, dataset: DatasetRow) -> None:
    (settings.data_dir / "uploads").mkdir()
    (settings.data_dir / "uploads" / "up_sent_again").write_bytes(CONTENT)
    damage(settings, dataset.sha256)
    assert len(list(repair_storage(settings))) == 1
    assert verify_storage(settings).faults == []


class Reader:
    """Reads in this process: the children of the real one take seconds to start."""

    def __init__(self, blob_root: Path, most_bytes: int) -> None:
        self._blob_root, self._most_bytes = blob_root, most_bytes

    def ingest(self, path: Path, file_format: str, options: ReadOptions) -> Parsed:
        return parse(self._blob_root, path, file_format, options, self._most_bytes)


def test_arrays_are_made_again_from_the_file(
    settings: Settings, dataset: DatasetRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "ParserPool", Reader)
    damage(settings, *dataset.arrays.values())
    assert list(repair_storage(settings)) == [f"{dataset.id}: arrays rebuilt from its uploaded file"]
    assert verify_storage(settings).faults == []


def test_damaged_statistics_are_forgotten(settings: Settings, database: Database, dataset: DatasetRow) -> None:
    blobs = BlobStore(settings.data_dir)
    sha256 = blobs.put_array(np.ones(3))
    with database.write() as session:
        session.get_one(DatasetRow, dataset.id).statistics = sha256
        ownership.own(session, blobs, dataset.id, {sha256: blobs.size(sha256)})
    damage(settings, sha256)
    assert len(list(repair_storage(settings))) == 1
    ownership.sweep(database, blobs, 0.0)
    assert verify_storage(settings).faults == []


def test_what_has_no_copy_stays_named(settings: Settings, dataset: DatasetRow, tmp_path: Path) -> None:
    damage(settings, dataset.sha256)
    answer = CliRunner().invoke(main, ["verify", "--repair", "--data-dir", str(settings.data_dir)])
    assert answer.exit_code == 1
    assert f"{dataset.id}: file {dataset.sha256} is missing or damaged" in answer.output
