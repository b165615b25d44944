"""What the types of jobs on a stored model share: model and dataset are settled before such a job is queued."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import Field
from sqlalchemy.orm import Session

from app.config import MIB
from app.db.tables import DatasetRow, JobRow, ModelRow
from app.errors import AppError, NotFound, invalid_field
from app.jobs.admission import Admission
from app.jobs.schemas import JobOptions
from app.jobs.submission import Asked, JobType, enqueue, verdict
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
"""Estimated memory of one block of rows, from features to the written file: rows are scored a block at a time."""


class OnModel(Body):
    model: Text = Field(description="mdl_…, name, name:3 or name@alias")


class OnDataset(JobOptions):
    dataset_id: Text


class StoredModel(NamedTuple):
    row: ModelRow
    header: file.Header
    inputs: Inputs


class Plan(NamedTuple):
    """What a job will work on, and about how much private memory it will need."""

    model: ModelRow
    dataset: DatasetRow
    peak_bytes: int


def on_model(
    request: type[Asked], plan: Callable[[Session, Asked, BlobStore], Plan], *, result_fields: str
) -> JobType[Asked]:
    """A job type on a stored model. `plan` raises AppError for faults that show before the rows are read."""

    def submit(session: Session, request: Asked, admission: Admission) -> JobRow:
        """Queue it for the version that the reference means now; a moved alias does not change the job."""
        model, dataset, peak_bytes = plan(session, request, admission.blobs)
        admission.admit(peak_bytes)
        return enqueue(session, request, dataset, peak_bytes=peak_bytes, model_name=model.name, model_id=model.id)

    def validate(session: Session, request: Asked, admission: Admission) -> dict[str, Any]:
        try:
            admission.admit(plan(session, request, admission.blobs).peak_bytes)
        except AppError as refusal:
            return verdict([refusal])
        return verdict([])

    return JobType(request, submit, validate, result_fields)


def find_model(session: Session, reference: str, blobs: BlobStore) -> StoredModel:
    """The model that the field `model` of a request means."""
    try:
        row = models.resolve(session, reference)
        header, arrays = file.read_header(blobs.path(row.blob))
    except (NotFound, FileNotFoundError):  # the file is gone before the row says so
        raise invalid_field("model", "unknown_model", "there is no such model") from None
    return StoredModel(row, header, inputs_of(header, arrays))


def check_features(model: StoredModel, dataset: DatasetRow, target: str | None = None) -> None:
    """Refuse a dataset without the model's columns. `target`: the dataset's own, which may be one of them."""
    try:
        check_inputs(model.inputs, dataset, target)
    except PreprocessError as error:
        detail = f"the dataset does not fit the model: {error.message}"
        raise invalid_field("dataset_id", "feature_mismatch", detail) from error


def check_labels_known(model: StoredModel, dataset: DatasetRow) -> None:
    """Refuse labels that the model does not know, by the dataset's summary; the worker checks the rows again."""
    task = model.row.task
    check_labels(task, dataset, "dataset_id")
    if task not in CLASS_TASKS:
        return
    unseen = {one["label"] for one in dataset.classes} - set(model.row.card["classes"])
    if unseen or not dataset.classes:
        raise invalid_field("dataset_id", "unknown_class", "it has labels that the model does not know")
