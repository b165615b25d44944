"""The job type `predict`: it predicts every row of a dataset into a file. Also finds the files that jobs wrote."""

from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from app.datasets.schemas import Label
from app.db.job_state import JobStatus
from app.db.tables import DatasetRow, JobRow
from app.errors import Conflict
from app.jobs.admission import PROCESS_BYTES
from app.jobs.model_jobs import BLOCK_BYTES, OnDataset, OnModel, Plan, check_features, find_model, on_model
from app.jobs.result_schemas import JobResult, StoredFile
from app.jobs.validation.named_dataset import ready_dataset
from app.predictions.outputs import DEFAULT_OUTPUTS, chosen, offered
from app.predictions.set_outputs import asked_coverage
from app.storage import BlobStore, ownership

Output = Literal[
    "label", "rank", "score", "probability", "probabilities", "scores", "score_error_bound", "label_certain", "set"
]
Which = Literal["output", "errors"]


class PredictRequest(OnModel, OnDataset):
    """Predict every row of a dataset into a file (batch prediction)."""

    model_config = ConfigDict(
        populate_by_name=True,
        json_schema_extra={
            "examples": [{"type": "predict", "dataset_id": "ds_…", "model": "radar", "return": ["label", "score"]}]
        },
    )

    type: Literal["predict"] = Field(description="Job type.")
    format: Literal["csv", "ndjson", "parquet", "arrow"] = Field("csv", description="Format of the output file.")
    wanted: Annotated[list[Output], Field(min_length=1)] | None = Field(
        None, alias="return", description="Outputs for each row, as in predict; null: label and score."
    )
    coverage: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None, description="With the output `set`: probability with which a set should contain the truth; null: 0.9."
    )


class Coverage(BaseModel):
    """How often prediction sets contain the truth."""

    requested: float = Field(description="The coverage that was asked for.")
    nominal: float = Field(description="The coverage that the sets aim at.")
    guaranteed: float | None = Field(description="The coverage that is proven; null: none, see `reason`.")
    reason: str | None = Field(description="Why nothing is proven; null: it is.")


class PredictResult(JobResult):
    """Result of a batch prediction."""

    rows: int = Field(description="Number of rows of the dataset.")
    predicted: int = Field(description="Number of rows with a prediction.")
    failed: int = Field(description="Number of rows without a prediction.")
    format: str = Field(description="Format of the output file.")
    columns: list[str] = Field(description="Columns of the output file.")
    classes: list[Label] = Field(description="Classes in the order of `scores` and `probabilities`.")
    coverage: Coverage | None = Field(None, description="Coverage of the output `set`; null: not requested.")
    output: StoredFile = Field(description="The output file; `GET /v1/jobs/{id}/output` returns it.")
    errors: StoredFile | None = Field(
        description="The rows that failed, as ndjson; `GET /v1/jobs/{id}/errors` returns them; null: none did."
    )


class OutputFile(NamedTuple):
    sha256: str
    format: str
    name: str


def _plan(session: Session, request: PredictRequest, blobs: BlobStore) -> Plan:
    model = find_model(session, request.model, blobs)
    dataset = ready_dataset(session, "dataset_id", request.dataset_id, labelled=False)
    asked_coverage(chosen(offered(model.header), request.wanted, DEFAULT_OUTPUTS), request.coverage)
    check_features(model, dataset, target_name(dataset), whole=True)
    return Plan(model.row, dataset, PROCESS_BYTES + BLOCK_BYTES)


def target_name(dataset: DatasetRow) -> str | None:
    """Return the name of the target column, if it has one. In a file without labels it is the name of a feature."""
    return next((column["name"] for column in dataset.columns or () if column["role"] == "target"), None)


def file_of(session: Session, job: JobRow, which: Which) -> OutputFile:
    """Find a file that a batch prediction wrote, or a verification with `rows`."""
    _check_has_files(job)
    stored = (job.result or {}).get(which)
    if stored is None:
        raise Conflict("Every row was predicted, so there is no file of errors.", code="no_errors")
    if not ownership.sizes(session, job.id):
        raise Conflict("The files of this job were deleted; submit the job again.", code="output_deleted")
    format = "ndjson" if which == "errors" else job.spec.get("format", "npz")  # rows of a verification are npz
    return OutputFile(stored["sha256"], format, f"{job.id}-{which}.{format}")


def delete_files(session: Session, job: JobRow) -> list[str]:
    """Give up the files of a job. Returns the blobs; the caller reclaims them after the commit."""
    _check_has_files(job)
    return ownership.disown(session, job.id)


def _check_has_files(job: JobRow) -> None:
    if job.status != JobStatus.SUCCEEDED or not (job.result or {}).get("output"):
        detail = (
            f"The job is {job.status} and has no files. Only a succeeded batch prediction has files, or a succeeded "
            "verification with `rows`."
        )
        raise Conflict(detail, code="no_output")


JOB_TYPE = on_model(PredictRequest, _plan, result=PredictResult)
