"""A deletion and a submission at the same moment: the job finds its dataset, or is refused."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.datasets import repository
from app.datasets import service as datasets
from app.db import Database
from app.db.tables import DatasetRow, JobRow
from app.errors import Conflict, Invalid
from app.jobs import service as jobs
from app.jobs.admission import Admission
from app.jobs.schemas import TrainRequest
from app.storage import BlobStore
from tests.builders import count_rows, dataset_row, temporary_settings


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path)


@pytest.fixture
def dataset_id(database: Database, blobs: BlobStore) -> str:
    X, y = np.random.default_rng(0).standard_normal((4, 2)), np.array([-1.0, -1.0, 1.0, 1.0])
    arrays = {"X": blobs.put_array(X), "y": blobs.put_array(y)}
    classes = [{"label": -1, "count": 2}, {"label": 1, "count": 2}]
    row = dataset_row(n_rows=4, n_features=2, nnz=8, arrays=arrays, classes=classes, columns=[])
    with database.write() as session:
        session.add(row)
    return row.id


def submit(session: Any, blobs: BlobStore, dataset_id: str) -> None:
    jobs.submit(session, TrainRequest(dataset_id=dataset_id), Admission(blobs, temporary_settings(blobs.root)))


def test_a_deletion_waits_for_a_submission_and_is_refused(
    database: Database, blobs: BlobStore, dataset_id: str
) -> None:
    with ThreadPoolExecutor(1) as threads:
        with database.write() as session:
            submit(session, blobs, dataset_id)
            deletion = threads.submit(datasets.delete, database, blobs, dataset_id)
            with pytest.raises(TimeoutError):
                deletion.result(0.5)
        with pytest.raises(Conflict, match="unfinished"):
            deletion.result(60)
    assert count_rows(database, DatasetRow) == count_rows(database, JobRow) == 1


def test_a_submission_waits_for_a_deletion_and_is_refused(
    database: Database, blobs: BlobStore, dataset_id: str
) -> None:
    def submit_alone() -> None:
        with database.write() as session:
            submit(session, blobs, dataset_id)

    with ThreadPoolExecutor(1) as threads:
        with database.write() as session:
            repository.lock(session, dataset_id)
            repository.delete(session, datasets.get(session, dataset_id))
            session.flush()
            submission = threads.submit(submit_alone)
            with pytest.raises(TimeoutError):
                submission.result(0.5)
        with pytest.raises(Invalid, match="no such dataset"):
            submission.result(60)
    assert count_rows(database, DatasetRow) == count_rows(database, JobRow) == 0
