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
from app.jobs.types.train_request import TrainRequest
from app.storage import BlobStore
from tests.support.builders import count_rows, dataset_row, temporary_settings


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path)


@pytest.fixture
def dataset_ids(database: Database, blobs: BlobStore) -> list[str]:
    """The one that a job trains on, and the one that it is tested on."""
    X, y = np.random.default_rng(0).standard_normal((4, 2)), np.array([-1.0, -1.0, 1.0, 1.0])
    arrays = {"X": blobs.put_array(X), "y": blobs.put_array(y)}
    classes = [{"label": -1, "count": 2}, {"label": 1, "count": 2}]
    rows = [dataset_row(n_rows=4, n_features=2, nnz=8, arrays=arrays, classes=classes, columns=[]) for _ in range(2)]
    with database.write() as session:
        session.add_all(rows)
    return [row.id for row in rows]


def submit(session: Any, blobs: BlobStore, dataset_ids: list[str]) -> None:
    train, test = dataset_ids
    request = TrainRequest.model_validate({"dataset_id": train, "split": {"test_dataset_id": test}})
    jobs.submit(session, request, Admission(blobs, temporary_settings(blobs.root)))


@pytest.mark.parametrize("deleted", [0, 1])
def test_a_deletion_waits_for_a_submission_and_is_refused(
    database: Database, blobs: BlobStore, dataset_ids: list[str], deleted: int
) -> None:
    with ThreadPoolExecutor(1) as threads:
        with database.write() as session:
            submit(session, blobs, dataset_ids)
            deletion = threads.submit(datasets.delete, database, blobs, dataset_ids[deleted])
            with pytest.raises(TimeoutError):
                deletion.result(0.5)
        with pytest.raises(Conflict, match="unfinished"):
            deletion.result(60)
    assert (count_rows(database, DatasetRow), count_rows(database, JobRow)) == (2, 1)


@pytest.mark.parametrize("deleted", [0, 1])
def test_a_submission_waits_for_a_deletion_and_is_refused(
    database: Database, blobs: BlobStore, dataset_ids: list[str], deleted: int
) -> None:
    def submit_alone() -> None:
        with database.write() as session:
            submit(session, blobs, dataset_ids)

    with ThreadPoolExecutor(1) as threads:
        with database.write() as session:
            repository.lock(session, dataset_ids[deleted])
            repository.delete(session, datasets.get(session, dataset_ids[deleted]))
            session.flush()
            submission = threads.submit(submit_alone)
            with pytest.raises(TimeoutError):
                submission.result(0.5)
        with pytest.raises(Invalid, match="no such dataset"):
            submission.result(60)
    assert (count_rows(database, DatasetRow), count_rows(database, JobRow)) == (1, 0)
