"""Request and response schemas of `/v1/jobs`."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, StrictBool, Tag, create_model
from pydantic_core import PydanticCustomError

import solvers
from app.errors import UNION_TAG
from app.names import Labels, Name, Text
from app.preprocess.spec import Preprocess
from app.web.fields import CreatedAt, DatasetId, JobId, LabelsShown
from app.web.validation import Body
from app.webhooks.schemas import NewWebhook, WebhookRequest

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Task = Literal["binary", "multiclass", "ordinal", "regression"]
Seed = Annotated[
    int,
    Field(ge=0, le=2**32 - 1, description="Seed of the random numbers. The same seed gives the same result."),
]
TrainedDataset = Annotated[Text, Field(description="Id of the dataset to work on (`ds_…`). It must be `ready`.")]


def _no_number(value: Any) -> Any:
    """Refuse 0 and 1 where false and true are expected: Python treats them as equal."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise PydanticCustomError("not_a_truth_value", "must be true, false, 'platt' or 'isotonic'")
    return value


class JobOptions(Body):
    """Fields of every job request. The request body of each type in app/jobs/types extends it."""

    priority: Annotated[int, Field(ge=-1000, le=1000)] = Field(
        0, description="Jobs of higher priority start first; jobs of equal priority start in the order of submission."
    )
    labels: Labels = Field(default_factory=dict, description="Labels to find the job by: at most 64, key to value.")
    webhook: WebhookRequest | None = Field(None, description="Address that receives the events of this job only.")


class SplitByShare(Body):
    """Hold out a share of the rows for testing."""

    test: Annotated[float, Field(gt=0, lt=1)] = Field(0.2, description="Share of the rows to hold out, 0 to 1.")
    seed: Seed = 0
    stratify: StrictBool = Field(
        True, description="Hold out the same share of each class. Has no effect when groups are kept together."
    )
    group: StrictBool | None = Field(
        None,
        description="Keep the rows of a group together, here and in cross-validation; null: if the dataset has groups.",
    )
    fold_column: None = Field(None, description="Always null in this kind of split.")


class SplitByDataset(Body):
    """Test on another dataset."""

    test_dataset_id: Text = Field(description="Id of the dataset to test on (`ds_…`). It needs the same columns.")


class SplitByFolds(Body):
    """Cross-validate by a column that holds the fold of each row."""

    fold_column: Text = Field(description="Name of the column. The upload must have named it as `group`.")


def _kind_of_split(value: Any) -> str:
    """Choose the member of the union by the fields that are set, so that errors refer to one member, not to three."""
    named = value if isinstance(value, dict) else vars(value) if isinstance(value, BaseModel) else {}
    if named.get("test_dataset_id") is not None:
        return f"{UNION_TAG}dataset"
    return f"{UNION_TAG}share" if named.get("fold_column") is None else f"{UNION_TAG}folds"


Split = Annotated[
    Annotated[SplitByShare, Tag("type=share")]
    | Annotated[SplitByDataset, Tag("type=dataset")]
    | Annotated[SplitByFolds, Tag("type=folds")],
    Discriminator(_kind_of_split),
]


def _kind_of_weights(value: Any) -> str | None:
    if value == "balanced":
        return f"{UNION_TAG}balanced"
    return f"{UNION_TAG}by_class" if isinstance(value, dict) else None


ClassWeight = Annotated[
    Annotated[Literal["balanced"], Tag("type=balanced")] | Annotated[dict[str, Positive], Tag("type=by_class")],
    Discriminator(
        _kind_of_weights,
        custom_error_type="unknown_weights",
        custom_error_message='must be "balanced", or an object with a weight for each class',
    ),
]

FIELD_TYPES: dict[str, Any] = {"class_weight": ClassWeight | None}
"""JSON types of the parameters that are neither a word nor a number."""


def _problem_fields() -> dict[str, Any]:
    """Build a field for each parameter that solvers/problem/spec.py declares."""
    fields: dict[str, Any] = {}
    for name, parameter in solvers.PARAMETERS.items():
        limits = {"ge": parameter.low, "gt": parameter.above, "le": parameter.high}
        number = Annotated[float, Field(**{key: limit for key, limit in limits.items() if limit is not None})]
        plain = Text if parameter.choices else number if parameter.default is not None else number | None
        allowed: Any = {"enum": list(parameter.choices)} if parameter.choices else None
        described = Field(parameter.default, description=parameter.description, json_schema_extra=allowed)
        fields[name] = (FIELD_TYPES.get(name, plain), described)
    return fields


class TrainingTarget(Body):
    """The dataset to train on and the name of the model."""

    dataset_id: TrainedDataset
    model: Name | None = Field(
        None, description="Name of the model; each training adds a version. Default: the name of the dataset."
    )


if TYPE_CHECKING:

    class ProblemFields(TrainingTarget):
        """The parameters that app/jobs reads itself; all others are passed to the solvers."""

        task: str
        class_weight: ClassWeight | None

else:
    ProblemFields = create_model("ProblemFields", __base__=TrainingTarget, **_problem_fields())


MAX_FOLDS = 50
"""Maximum number of folds. Each fold costs one more training."""
CALIBRATION_FOLDS = 5
"""Number of folds that calibration uses when `cross_validation` is not set. Each fold costs one more training."""
DEFAULT_SECONDS = 600.0
"""Default of `stop.seconds`. Bounds how long a job that does not converge, on unscaled data for example, keeps a worker
busy."""


class Stop(Body):
    """Limits of a training. The first limit that is reached ends it; null: no limit."""

    seconds: Positive | None = Field(
        DEFAULT_SECONDS,
        description="Maximum seconds of solving, over all trainings of the job. Compiling kernels does not count.",
    )
    passes: Annotated[int, Field(ge=1, le=10**9)] | None = Field(
        None, description="Maximum number of passes over the training data, for each training of the job."
    )


class TrainingSpec(ProblemFields):
    """What to train, and how. The request body of a training job extends it."""

    solver: Text = Field("auto", description="Name of a solver of `GET /v1/solvers`, or `auto`: chosen by the data.")
    solver_options: dict[str, Any] = Field(
        default_factory=dict, description="Options of the solver; `GET /v1/solvers` lists them with their defaults."
    )
    preprocess: Preprocess | None = Field(
        None,
        description="How raw columns become features. null: the default settings if a column is not numeric or has "
        "missing values, else the numbers as they are.",
    )
    split: Split | None = Field(None, description="Rows to test on: a share, another dataset or folds; null: none.")
    cross_validation: Annotated[int, Field(ge=2, le=MAX_FOLDS)] | None = Field(
        None, description="Number of folds to cross-validate with before the model is trained on all training rows."
    )
    calibrate: Annotated[Literal[False, True, "platt", "isotonic"], BeforeValidator(_no_number)] = Field(
        False,
        description="Whether to fit probabilities to the scores of held-out rows (the folds of `cross_validation`, or "
        f"{CALIBRATION_FOLDS}). true: isotonic if every class has at least 1000 rows, else platt.",
    )
    tol: Positive = Field(
        1e-3, description="Target for the certified relative gap. Smaller: closer to the optimum, longer training."
    )
    stop: Stop = Field(Stop(), description="Limits that end the training before `tol` is reached.")
    on_limit: Literal["keep_best", "fail"] = Field(
        "keep_best", description="What to do when a limit of `stop` is reached before `tol`."
    )
    seed: Seed = 0
    warm_start: Text | None = Field(
        None, description="Model to start from: `mdl_…`, `name`, `name:3` or `name@alias`; null: start from zero."
    )

    @property
    def most_folds(self) -> int | None:
        """Return the maximum number of folds that are trained before the model; None: none, or a column decides."""
        return self.cross_validation or (CALIBRATION_FOLDS if self.calibrate else None)

    @property
    def keeps_groups_whole(self) -> bool:
        """Whether a split must keep the rows of a group together, if the dataset has groups."""
        return not (isinstance(self.split, SplitByShare) and self.split.group is False)

    def problem(self) -> dict[str, Any]:
        """Return the parameters of the problem, under the names of `solvers.train`."""
        return {name: getattr(self, name) for name in solvers.PARAMETERS}

    def solver_arguments(self) -> dict[str, Any]:
        """Return the arguments that `solvers.check` and `solvers.train` share."""
        run = {name: getattr(self, name) for name in ("solver", "tol", "seed")}
        limits = {"max_seconds": self.stop.seconds, "max_passes": self.stop.passes}
        return {**self.problem(), **run, **limits, "options": self.solver_options}


class JobError(BaseModel):
    """Why a job failed."""

    code: str = Field(description="Error code; `/docs/errors` explains each of them.")
    message: str = Field(description="What went wrong, in a sentence.")
    param: str | None = Field(None, description="Field of the request that caused it; null: none did.")


JobTypeShown = Annotated[str, Field(description="Job type: `train`, `evaluate`, `predict` or `verify`.")]
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
    lineage: dict[str, Any] = Field(description="Inputs of the job: `dataset_id` and `seed`.")
    webhook: NewWebhook | None = Field(
        None, description="The job's own webhook with its secret. Only in the response that created the job."
    )
    created_at: CreatedAt
    started_at: datetime | None = Field(description="Time when a worker first started the job; null: none has.")
    finished_at: FinishedAt


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
    errors: list[dict[str, Any]] = Field(
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
    """The convergence curve of a training job."""

    job_id: JobId
    tol: float | None = Field(description="Target for the relative gap; null: the job is not a training job.")
    data: list[TracePoint] = Field(description="Points in the order of time.")
