"""Jobs on a model that is there already: which model and which rows are settled before they are queued; their files."""

from typing import Any, Literal, NamedTuple

from sqlalchemy.orm import Session

from app.config import MIB
from app.datasets import service as datasets
from app.db.engine import current_time
from app.db.job_state import JobStatus
from app.db.tables import DatasetRow, JobRow, ModelRow
from app.errors import AppError, Conflict, NotFound, invalid_field
from app.ids import new_id
from app.jobs import repository, service
from app.jobs.admission import JUDGED_NUMBERS_A_ROW, PROCESS_BYTES, Admission
from app.jobs.model_requests import EvaluateRequest, OnModelRequest, PredictRequest, VerifyRequest
from app.jobs.validation.preprocessing import check_inputs
from app.jobs.validation.task import CLASS_TASKS, check_labels
from app.models import file
from app.models import service as models
from app.predictions.answers import DEFAULT_OUTPUTS, chosen, offered
from app.predictions.prepared import inputs_of
from app.preprocess.preprocess_error import PreprocessError
from app.storage import BlobStore, ownership

BLOCK_BYTES = 128 * MIB
"""Rows are scored some at a time; so much do they take on the way from features to a file."""

Which = Literal["output", "errors"]


class OutputFile(NamedTuple):
    sha256: str
    format: str
    name: str


def submit(session: Session, request: OnModelRequest, admission: Admission) -> JobRow:
    """Queue it for the version that the reference means now; a moved alias does not change the job."""
    model, dataset = _settled(session, request, admission.blobs)
    peak_bytes = _peak_bytes(session, request, model, dataset)
    admission.admit(peak_bytes)
    job = JobRow(
        id=new_id("job"),
        type=request.type,
        status=JobStatus.QUEUED,
        dataset_id=dataset.id,
        model_name=model.name,
        model_id=model.id,
        spec=request.model_dump(mode="json", by_alias=True, exclude={"labels", "webhook"}),
        labels=request.labels,
        priority=request.priority,
        peak_bytes=peak_bytes,
        created_at=current_time(session),
    )
    service.enqueue(session, job)
    return job


def validate(session: Session, request: OnModelRequest, admission: Admission) -> dict[str, Any]:
    """What `submit` would say, as `schemas.Validation` lists it."""
    try:
        admission.admit(_peak_bytes(session, request, *_settled(session, request, admission.blobs)))
    except AppError as refusal:
        return {"valid": False, "estimate": None, "errors": service.error_items(refusal)}
    return {"valid": True, "estimate": None, "errors": []}


def _settled(session: Session, request: OnModelRequest, blobs: BlobStore) -> tuple[ModelRow, DatasetRow]:
    """The model and the rows. Raises for all that is wrong with the two together and can be told without the rows."""
    try:
        model = models.resolve(session, request.model)
        header, arrays = file.read_header(blobs.path(model.blob))
    except (NotFound, FileNotFoundError):  # the file is gone before the row says so
        raise invalid_field("model", "unknown_model", "there is no such model") from None
    if isinstance(request, VerifyRequest):
        dataset = _dataset_to_verify(session, request, model)
    else:
        dataset = service.ready_dataset(session, "dataset_id", request.dataset_id)
    target = None
    if isinstance(request, PredictRequest):
        chosen(offered(header), request.wanted, DEFAULT_OUTPUTS)
        target = target_name(dataset)
    else:
        _check_labels(dataset, model)
    try:
        check_inputs(inputs_of(header, arrays), dataset, target)
    except PreprocessError as error:
        detail = f"the dataset does not fit the model: {error.message}"
        raise invalid_field("dataset_id", "feature_mismatch", detail) from error
    return model, dataset


def target_name(dataset: DatasetRow) -> str | None:
    """The target, if it has a name: in a file without labels that of a feature."""
    return next((column["name"] for column in dataset.columns or () if column["role"] == "target"), None)


def _peak_bytes(session: Session, request: OnModelRequest, model: ModelRow, dataset: DatasetRow) -> int:
    """About as much private memory as the job will need. A verification holds what its training held."""
    if isinstance(request, VerifyRequest):
        training = repository.get(session, model.job_id or "")
        return 0 if training is None else training.peak_bytes
    if isinstance(request, EvaluateRequest):
        classes = max(1, len(model.card["classes"]))
        return PROCESS_BYTES + BLOCK_BYTES + 8 * dataset.n_rows * (JUDGED_NUMBERS_A_ROW + 2 * classes)
    return PROCESS_BYTES + BLOCK_BYTES


def file_of(session: Session, job_id: str, which: Which) -> OutputFile:
    """A file that a batch prediction has written."""
    job = _predicted(session, job_id)
    stored = (job.result or {}).get(which)
    if stored is None:
        raise Conflict("Every row was predicted: there is no file of errors.", code="no_errors")
    if not ownership.sizes(session, job.id):
        raise Conflict("The files of this job were deleted.", code="output_deleted")
    format = job.spec["format"] if which == "output" else "ndjson"
    return OutputFile(stored["sha256"], format, f"{job.id}-{which}.{format}")


def delete_files(session: Session, job_id: str) -> list[str]:
    """The blobs that it owned: the caller reclaims them once this is committed."""
    return ownership.disown(session, _predicted(session, job_id).id)


def _predicted(session: Session, job_id: str) -> JobRow:
    job = service.get(session, job_id)
    if job.type != "predict" or job.status != JobStatus.SUCCEEDED:
        detail = "Only a batch prediction that has succeeded has files."
        raise Conflict(detail, code="no_output")
    return job


def _dataset_to_verify(session: Session, request: VerifyRequest, model: ModelRow) -> DatasetRow:
    if model.job_id is None:
        detail = f"{model.name}:{model.version} was imported: nothing here says what it was trained for."
        raise Conflict(detail, code="model_not_trained_here")
    if request.dataset_id is not None:
        return service.ready_dataset(session, "dataset_id", request.dataset_id)
    dataset = datasets.find(session, model.card["lineage"]["dataset_id"])
    if dataset is None:
        detail = "The dataset that it was trained on is deleted; upload it again and give its `dataset_id`."
        raise Conflict(detail, code="dataset_deleted")
    return dataset


def _check_labels(dataset: DatasetRow, model: ModelRow) -> None:
    """What can be said before the rows are read; the worker looks again."""
    check_labels(model.task, dataset, "dataset_id")
    if model.task not in CLASS_TASKS:
        return
    unseen = {one["label"] for one in dataset.classes} - set(model.card["classes"])
    if unseen or not dataset.classes:
        raise invalid_field("dataset_id", "unknown_class", "it has labels that the model does not know")
