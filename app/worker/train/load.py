"""Loads a claimed training job: its request, its task, and the rows to train and test on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from app.datasets import service as datasets
from app.datasets.arrays import DatasetArrays, open_arrays
from app.db import Database
from app.db.tables import DatasetRow, JobRow
from app.jobs import lease
from app.jobs.repository import Claim
from app.jobs.schemas import SplitByDataset, SplitByFolds, SplitByShare, TrainingSpec
from app.jobs.types.train_request import TrainRequest
from app.jobs.validation.task import CLASS_TASKS, TaskChoice, choose_task
from app.preprocess.pipeline import Pipeline
from app.storage import BlobStore
from app.tabular.types import Array
from app.worker.failures import PermanentFailure
from app.worker.train.split import split_rows


@dataclass(frozen=True)
class Work:
    """A training job with its data."""

    job: JobRow
    request: TrainingSpec
    dataset: DatasetRow
    choice: TaskChoice
    train: DatasetArrays
    test: DatasetArrays | None
    given_folds: Array | None
    """Value of the fold column of each training row; None: there is none."""
    pipeline: Pipeline | None = None
    """Preprocessing that produced these rows; None: they are as uploaded."""
    preprocess: dict[str, Any] | None = None
    """Description of the preprocessing for the model's card."""
    warnings: Sequence[dict[str, Any]] = ()

    @property
    def task(self) -> str:
        return self.choice.task

    @property
    def wants_validation(self) -> bool:
        """Whether to report the folds. They can also be needed only for calibration."""
        return self.given_folds is not None or self.request.cross_validation is not None

    @property
    def has_classes(self) -> bool:
        """Whether the labels are classes, which a split can stratify."""
        return self.task != "regression" and bool(self.dataset.classes)


def load(database: Database, blobs: BlobStore, claim: Claim) -> Work:
    with database.read() as session:
        job = lease.load(session, claim)
    return load_training(database, blobs, job, TrainRequest.model_validate(job.spec))


def load_training(database: Database, blobs: BlobStore, job: JobRow, request: TrainingSpec) -> Work:
    """Load the data of a training job. The same request gives the same rows."""
    with database.read() as session:
        dataset = _dataset(session, request.dataset_id, "dataset_id")
        arrays = open_arrays(blobs, dataset)
        test = None
        if isinstance(request.split, SplitByDataset):
            other = _dataset(session, request.split.test_dataset_id, "split.test_dataset_id")
            test = open_arrays(blobs, other, whole=True)
    choice = choose_task(request.task, dataset)
    if not isinstance(request.split, SplitByFolds):
        return _held_out(Work(job, request, dataset, choice, arrays, test, None))
    # Here the group column defines folds, and not which rows are comparable.
    return Work(job, request, dataset, choice, replace(arrays, group=None), test, arrays.group)


def training_of(job: JobRow, card: Mapping[str, Any], dataset_id: str) -> TrainingSpec:
    """Return the training that made a model: the job's own request, or the values that a search or a race chose."""
    if job.type == "train":
        request: TrainingSpec = TrainRequest.model_validate({**job.spec, "C": card["params"]["C"]})
    else:
        chosen = {name: card["params"][name] for name in TrainingSpec.model_fields if name in card["params"]}
        given = {name: value for name, value in chosen.items() if value is not None}
        request = TrainingSpec.model_validate({**given, "dataset_id": dataset_id})
    return request.model_copy(update={"dataset_id": dataset_id})


def groups_to_keep(work: Work) -> Array | None:
    """Return the groups that splits must keep together; None: there are none."""
    return work.train.group if work.request.keeps_groups_whole else None


def missing_class(work: Work, rows: DatasetArrays) -> str | None:
    """Return a class of the training rows that these rows lack; None: they lack none, or there are no classes."""
    if work.task not in CLASS_TASKS:
        return None
    missing = np.setdiff1d(work.train.y, rows.y)
    return repr(work.train.label(missing[0]))[:60] if len(missing) else None


def _held_out(work: Work) -> Work:
    """Separate the test rows, if the request holds out a share of the rows."""
    split, arrays = work.request.split, work.train
    if not isinstance(split, SplitByShare):
        return work
    group = groups_to_keep(work)
    training, held_out = split_rows(arrays.y, split, group=group, has_classes=work.has_classes)
    if not len(held_out):
        message = "there is only one group" if group is not None else "nothing would be held out"
        raise PermanentFailure("split_too_small", f"too few rows for this split: {message}", "split.test")
    train = arrays.rows(training)
    if missing := missing_class(work, train):
        message = f"too few rows for this split: class {missing} would be missing from training"
        raise PermanentFailure("split_too_small", message, "split.test")
    return replace(work, train=train, test=arrays.rows(held_out))


def _dataset(session: Session, dataset_id: str, field: str) -> DatasetRow:
    found = datasets.find(session, dataset_id)
    if found is None:
        raise PermanentFailure("dataset_deleted", "the dataset was deleted before the job started", field)
    return found
