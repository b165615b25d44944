"""Code that the job types on a stored model share (evaluate, predict, verify, leave_one_out).

Model and dataset are resolved before such a job is queued.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import Field
from sqlalchemy.orm import Session

from app.config import MIB
from app.datasets import service as datasets
from app.db.tables import DatasetRow, JobRow, ModelRow
from app.errors import AppError, Conflict, NotFound, invalid_field
from app.jobs.admission import Admission
from app.jobs.result_schemas import JobResult
from app.jobs.schemas import JobOptions, TrainedDataset
from app.jobs.submission import Asked, JobType, enqueue, verdict
from app.jobs.validation.named_dataset import ready_dataset
from app.jobs.validation.preprocessing import check_inputs
from app.jobs.validation.task import CLASS_TASKS, check_labels
from app.models import file
from app.models import service as models
from app.names import Text
from app.predictions.preprocessed_features import inputs_of
from app.preprocess.inputs import Inputs
from app.preprocess.preprocess_error import PreprocessError
from app.storage import BlobStore
from app.web.validation import Body

BLOCK_BYTES = 128 * MIB
"""Estimated memory in bytes to score one block of rows, from features to the written file. Part of the admission
estimate of a job: larger values let fewer jobs run at the same time. Set by hand; no measurement is recorded."""


class OnModel(Body):
    """A request that names a model."""

    model: Text = Field(description="Model to use: `mdl_…`, `name` (newest version), `name:3` or `name@alias`.")


class OnDataset(JobOptions):
    """A request that names a dataset."""

    dataset_id: TrainedDataset


class StoredModel(NamedTuple):
    """A model that a request names, with the columns that it expects."""

    row: ModelRow
    header: file.Header
    inputs: Inputs


class Plan(NamedTuple):
    """The inputs of a job, and an estimate of its private memory in bytes."""

    model: ModelRow
    dataset: DatasetRow
    peak_bytes: int


def on_model(
    request: type[Asked], plan: Callable[[Session, Asked, BlobStore], Plan], *, result: type[JobResult]
) -> JobType[Asked]:
    """Build a job type on a stored model. `plan` raises AppError for errors that are visible without reading rows."""

    def submit(session: Session, request: Asked, admission: Admission) -> JobRow:
        """Queue the job for the version that the reference means now. Moving an alias later does not change the job."""
        model, dataset, peak_bytes = plan(session, request, admission.blobs)
        admission.admit(peak_bytes)
        return enqueue(session, request, dataset, peak_bytes=peak_bytes, model_name=model.name, model_id=model.id)

    def validate(session: Session, request: Asked, admission: Admission) -> dict[str, Any]:
        try:
            admission.admit(plan(session, request, admission.blobs).peak_bytes)
        except AppError as refusal:
            return verdict([refusal])
        return verdict([])

    return JobType(request, submit, validate, result)


def find_model(session: Session, reference: str, blobs: BlobStore) -> StoredModel:
    """Resolve the field `model` of a request."""
    try:
        row = models.resolve(session, reference)
        header, arrays = file.read_header(blobs.path(row.blob))
    except (NotFound, FileNotFoundError):  # a purge deletes the file shortly before the row
        raise invalid_field("model", "unknown_model", "there is no such model; `GET /v1/models` lists them") from None
    return StoredModel(row, header, inputs_of(header, arrays))


def training_dataset(session: Session, dataset_id: str | None, model: ModelRow) -> DatasetRow:
    """Return the dataset with the training rows of a model: the named one, or the one that it was trained on."""
    if model.job_id is None:
        detail = f"{model.name}:{model.version} was imported, so the problem that it solves is not known here."
        raise Conflict(detail, code="model_not_trained_here")
    if dataset_id is not None:
        return ready_dataset(session, "dataset_id", dataset_id)
    dataset = datasets.find(session, model.card["lineage"]["dataset_id"])
    if dataset is None:
        detail = "The dataset that the model was trained on is deleted; upload it again and give its `dataset_id`."
        raise Conflict(detail, code="dataset_deleted")
    return dataset


def check_features(model: StoredModel, dataset: DatasetRow, target: str | None = None, *, whole: bool = False) -> None:
    """Refuse a dataset that lacks columns of the model. `target`: the dataset's target, which can be one of them.
    `whole`: also the columns that were left out when the file was read count."""
    try:
        check_inputs(model.inputs, dataset, target, whole=whole)
    except PreprocessError as error:
        detail = f"the dataset does not match the model: {error.message}"
        raise invalid_field("dataset_id", "feature_mismatch", detail) from error


def check_labels_known(model: StoredModel, dataset: DatasetRow) -> None:
    """Refuse labels that the model does not know. Reads the dataset's summary; the worker checks the rows again."""
    task = model.row.task
    check_labels(task, dataset, "dataset_id")
    if task not in CLASS_TASKS:
        return
    unseen = {one["label"] for one in dataset.classes} - set(model.row.card["classes"])
    if unseen or not dataset.classes:
        shown = ", ".join(sorted(repr(label)[:60] for label in unseen)[:5]) or "none at all"
        raise invalid_field(
            "dataset_id", "unknown_class", f"its labels include some that the model lacks: {shown}; remove their rows"
        )
