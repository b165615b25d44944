"""Response schemas of `/v1/jobs`: a job, its events and its convergence curve. result_schemas.py has the results."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.errors import ErrorItem
from app.models.metrics.schemas import Figures
from app.models.metrics.summary import brief_metrics, brief_threshold, brief_warnings
from app.web.described import described_as
from app.web.fields import CreatedAt, DatasetId, JobId, LabelsShown
from app.webhooks.schemas import NewWebhook


class JobLineage(Figures):
    """Inputs of a job."""

    dataset_id: DatasetId
    seed: int | None = Field(None, description="Seed of the random numbers; null: the job draws none.")


class JobError(BaseModel):
    """Why a job failed."""

    code: str = Field(description="Error code; `/docs/errors` explains each of them.")
    message: str = Field(description="What went wrong, in a sentence.")
    param: str | None = Field(None, description="Field of the request that caused it; null: none did.")


JobTypeShown = Annotated[
    str, Field(description="Job type: `train`, `race`, `tune`, `evaluate`, `predict` or `verify`.")
]
Done = Annotated[bool, Field(description="True once the job has succeeded, failed or been cancelled.")]
ProgressShown = Annotated[
    float, Field(description="Progress from 0 to 1. For training: by the relative gap, on a logarithmic scale.")
]
ModelNameShown = Annotated[
    str, Field(description="Name of the model that the job trains or uses. Each training adds a version to it.")
]
ModelIdShown = Annotated[
    str | None, Field(description="Id of the model version (`mdl_…`); null until the training has succeeded.")
]
ErrorShown = Annotated[JobError | None, Field(description="Why the job failed; null: it has not.")]
FinishedAt = Annotated[datetime | None, Field(description="Time when the job ended; null: it has not.")]
RelativeGap = Annotated[
    float | None,
    Field(
        description="gap / max(primal, 1e-12 sum_i C_i). Certified at the end; until then the solver's own estimate. "
        "null: not known."
    ),
]
Primal = Annotated[float | None, Field(description="Objective value of the best weights so far; null: not known.")]
DualBound = Annotated[float | None, Field(description="Lower bound of the optimal objective value; null: not known.")]
Iterations = Annotated[int, Field(description="Iterations of the solver. What one iteration is depends on the solver.")]
Passes = Annotated[int, Field(description="Passes over the training data.")]


class JobFields(BaseModel):
    """A job. job_types.py adds the description of `result` for each job type."""

    id: JobId
    type: JobTypeShown
    status: Literal["queued", "running", "paused", "succeeded", "failed", "cancelled"] = Field(
        description="State of the job. Use `done` to decide whether to wait."
    )
    request: Literal["pause", "finish", "cancel"] | None = Field(
        description="Pending request of a client, or the request that ended the job; null: none."
    )
    done: Done
    progress: ProgressShown
    eta_seconds: float | None = Field(
        description="Estimated seconds until `tol` is reached, from the recent decrease of the gap; null: not known."
    )
    queue_position: int | None = Field(
        description="Number of queued jobs that run before this one; null once it has started."
    )
    attempt: int = Field(description="Number of times that a worker has started the job.")
    dataset_id: DatasetId
    model: ModelNameShown
    iterations: Iterations
    passes: Passes
    primal: Primal
    dual_bound: DualBound
    relative_gap: RelativeGap
    model_id: ModelIdShown
    result: dict[str, Any] | None
    error: ErrorShown
    spec: dict[str, Any] = Field(description="The request that created the job, with its defaults filled in.")
    labels: LabelsShown
    lineage: Annotated[dict[str, Any], described_as(JobLineage)] = Field(description="Inputs of the job.")
    webhook: NewWebhook | None = Field(
        None, description="The job's own webhook with its secret. Only in the response that created the job."
    )
    created_at: CreatedAt
    started_at: datetime | None = Field(description="Time when a worker first started the job; null: none has.")
    finished_at: FinishedAt


class JobView(BaseModel):
    """A job with its main figures only: `view=summary`."""

    id: JobId
    type: JobTypeShown
    status: str = Field(description="State of the job: queued, running, paused, succeeded, failed or cancelled.")
    done: Done
    dataset_id: DatasetId
    model: ModelNameShown
    model_id: ModelIdShown
    relative_gap: RelativeGap
    result: dict[str, Any] | None = Field(
        description="The main figures of the result, under the names that they have there: `task`, `solver`, "
        "`converged`, `headline`, `metrics` and others by job type, and `warnings`; `C` if a search chose it; null "
        "until the job has succeeded."
    )
    error: ErrorShown
    created_at: CreatedAt

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> "JobView":
        """Shorten the fields of a job."""
        result = job["result"]
        return cls.model_validate({**job, "result": None if result is None else _brief(result)})


MAIN_RESULTS = (
    *("task", "solver", "winner", "converged", "metric", "best", "headline"),
    *("evaluation_id", "rows", "failed_rows", "predicted", "failed", "matches", "lower", "upper"),
)
"""Fields of a result that a summary shows as they are."""


def _brief(result: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: result[name] for name in MAIN_RESULTS if result.get(name) is not None}
    if result.get("tuning"):
        found["C"] = result["tuning"]["best"]["C"]
    if result.get("metrics"):
        found["metrics"] = brief_metrics(result["metrics"], (result.get("headline") or {}).get("name"))
    if result.get("threshold"):
        found["threshold"] = brief_threshold(result["threshold"])
    if "warnings" in result:
        found["warnings"] = brief_warnings(result["warnings"])
    return found


class JobSummary(BaseModel):
    """A job in a list. `GET /v1/jobs/{job_id}` has all fields."""

    id: JobId
    type: JobTypeShown
    status: str = Field(description="State of the job: queued, running, paused, succeeded, failed or cancelled.")
    done: Done
    progress: ProgressShown
    dataset_id: DatasetId
    model: ModelNameShown
    model_id: ModelIdShown
    solver: str | None = Field(description="Solver that ran; before it runs, the one that the request named.")
    tol: float | None = Field(description="Relative gap at which the job ends; null: the job trains nothing.")
    passes: int = Field(description="Passes over the data so far.")
    relative_gap: RelativeGap
    eta_seconds: float | None = Field(description="Estimated seconds until the gap reaches `tol`; null: not known.")
    error: ErrorShown
    labels: LabelsShown
    created_at: CreatedAt
    started_at: datetime | None = Field(description="Time when a worker first took the job; null: not yet.")
    finished_at: FinishedAt


class Estimate(BaseModel):
    """Estimated cost of a job."""

    model_config = ConfigDict(from_attributes=True)

    seconds: float | None = Field(description="Seconds of work on an idle machine, without the queue; null: not known.")
    peak_bytes: int = Field(description="Peak private memory of the training process, in bytes.")


class Validation(BaseModel):
    """The result of `validate_only`. Nothing is stored."""

    valid: bool = Field(description="Whether the job would be accepted.")
    estimate: Estimate | None = Field(description="Estimated cost; null: not known, or the request is not valid.")
    errors: Annotated[list[dict[str, Any]], described_as(list[ErrorItem])] = Field(
        description="All reasons for a refusal, each with its `field`, `code`, `detail`."
    )


class Event(BaseModel):
    """Something that happened to a job."""

    id: str = Field(description="Id of the event (`evt_…`); ids ascend with time.")
    type: str = Field(description="Event type, such as `job.running`, `job.progress` or `job.succeeded`.")
    data: dict[str, Any] = Field(description="Details; their fields depend on `type`.")
    created_at: CreatedAt


class TracePoint(BaseModel):
    """One point of the convergence curve."""

    solver: str | None = Field(None, description="Solver of the point, in a race; null: the job has one solver.")
    seconds: float = Field(description="Seconds of solving so far. Compiling kernels does not count.")
    iterations: Iterations
    passes: Passes
    primal: Primal
    dual_bound: DualBound
    relative_gap: RelativeGap
    test_error: float | None = Field(
        None,
        description="Error on the test rows: the share of wrong labels, or the RMSE (regression); null: not measured.",
    )


class Trace(BaseModel):
    """The convergence curve of a training job, or the curves of a race."""

    job_id: JobId
    tol: float | None = Field(description="Target for the relative gap; null: the job is not a training job.")
    data: list[TracePoint] = Field(description="Points in the order of time.")
