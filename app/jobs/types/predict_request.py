"""The job type `predict`: every row of a dataset predicted into a file; and the files that jobs have written."""

from typing import Annotated, Literal, NamedTuple

from pydantic import ConfigDict, Field
from sqlalchemy.orm import Session

from app.db.job_state import JobStatus
from app.db.tables import DatasetRow, JobRow
from app.errors import Conflict
from app.jobs.admission import PROCESS_BYTES
from app.jobs.model_jobs import BLOCK_BYTES, OnDataset, OnModel, Plan, check_features, find_model, on_model
from app.jobs.validation.named_dataset import ready_dataset
from app.predictions.outputs import DEFAULT_OUTPUTS, chosen, offered
from app.storage import BlobStore, ownership

Output = Literal[
    "label", "rank", "score", "probability", "probabilities", "scores", "score_error_bound", "label_certain"
]
Which = Literal["output", "errors"]


class PredictRequest(OnModel, OnDataset):
    """Predict every row of a dataset into a file."""

    model_config = ConfigDict(populate_by_name=True)

    type: Literal["predict"]
    format: Literal["csv", "ndjson", "parquet", "arrow"] = "csv"
    wanted: Annotated[list[Output], Field(min_length=1)] | None = Field(
        None, alias="return", description="as in predict, without contributions; null: label and score"
    )


class OutputFile(NamedTuple):
    sha256: str
    format: str
    name: str


def _plan(session: Session, request: PredictRequest, blobs: BlobStore) -> Plan:
    model = find_model(session, request.model, blobs)
    dataset = ready_dataset(session, "dataset_id", request.dataset_id)
    chosen(offered(model.header), request.wanted, DEFAULT_OUTPUTS)
    check_features(model, dataset, target_name(dataset))
    return Plan(model.row, dataset, PROCESS_BYTES + BLOCK_BYTES)


def target_name(dataset: DatasetRow) -> str | None:
    """The target, if it has a name: in a file without labels that of a feature."""
    return next((column["name"] for column in dataset.columns or () if column["role"] == "target"), None)


def file_of(session: Session, job: JobRow, which: Which) -> OutputFile:
    """A file that a batch prediction has written, or a verification that was asked for the rows."""
    _check_has_files(job)
    stored = (job.result or {}).get(which)
    if stored is None:
        raise Conflict("Every row was predicted: there is no file of errors.", code="no_errors")
    if not ownership.sizes(session, job.id):
        raise Conflict("The files of this job were deleted.", code="output_deleted")
    format = "ndjson" if which == "errors" else job.spec.get("format", "npz")  # rows are always npz
    return OutputFile(stored["sha256"], format, f"{job.id}-{which}.{format}")


def delete_files(session: Session, job: JobRow) -> list[str]:
    """The blobs that it owned: the caller reclaims them once this is committed."""
    _check_has_files(job)
    return ownership.disown(session, job.id)


def _check_has_files(job: JobRow) -> None:
    if job.status != JobStatus.SUCCEEDED or not (job.result or {}).get("output"):
        detail = "Only a batch prediction that has succeeded has files, and a verification with `rows`."
        raise Conflict(detail, code="no_output")


JOB_TYPE = on_model(PredictRequest, _plan, result_fields="rows, predicted, failed, columns, output, errors")
