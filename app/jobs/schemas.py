"""The shapes of a job over HTTP."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, create_model

import solvers
from app.errors import UNION_TAG
from app.names import Labels, Name, Text
from app.preprocess.spec import Preprocess
from app.web.validation import Body
from app.webhooks.schemas import NewWebhook, WebhookRequest

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Task = Literal["binary", "multiclass", "ordinal", "regression"]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]


class JobOptions(Body):
    """The fields of every job request. The request body of each type in app/jobs/types extends it."""

    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    labels: Labels = Field(default_factory=dict)
    webhook: WebhookRequest | None = Field(None, description="receives the events of this job only")


class SplitByShare(Body):
    """Hold out a share of the rows for testing."""

    test: Annotated[float, Field(gt=0, lt=1)] = 0.2
    seed: Seed = 0
    stratify: bool = Field(True, description="the share of each class, not of all rows; without effect by group")
    group: bool | None = Field(
        None,
        description="keep the rows of a group together, here and in folds; null: if the dataset has groups",
    )
    fold_column: None = None


class SplitByDataset(Body):
    """Test on another dataset."""

    test_dataset_id: Text


class SplitByFolds(Body):
    """Cross-validate by a column that says the fold of each row: the one that the upload named as its `group`."""

    fold_column: Text


def _kind_of_split(value: Any) -> str:
    """By what a split names, so that a mistake in it is told as one of that kind and not of all three."""
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
        custom_error_message='must be "balanced", or an object of a weight for each class',
    ),
]

FIELD_TYPES: dict[str, Any] = {"class_weight": ClassWeight | None}
"""Of parameters whose JSON is not plainly a word or a number."""


def _problem_fields() -> dict[str, Any]:
    """A field for each parameter of a problem, as solvers/problem/spec.py declares it."""
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
    """What is trained on, and what becomes of it."""

    dataset_id: Text
    model: Name | None = Field(None, description="the model's name; default: the dataset's name")


if TYPE_CHECKING:

    class ProblemFields(TrainingTarget):
        """The parameters that this package itself looks at; the others are only passed on."""

        task: str
        class_weight: ClassWeight | None

else:
    ProblemFields = create_model("ProblemFields", __base__=TrainingTarget, **_problem_fields())


MAX_FOLDS = 50
CALIBRATION_FOLDS = 5
DEFAULT_SECONDS = 600.0  # a hopeless job, on unscaled data say, must not hold a worker for ever


class Stop(Body):
    """Limits; what is reached first ends the run. null: no limit."""

    seconds: Positive | None = Field(
        DEFAULT_SECONDS, description="of solving, in all trainings of the job; compiling kernels does not count"
    )
    passes: Annotated[int, Field(ge=1, le=10**9)] | None = None


class TrainingSpec(ProblemFields):
    """What is trained, and how. The request body of a training job extends it."""

    solver: Text = "auto"
    solver_options: dict[str, Any] = Field(default_factory=dict)
    preprocess: Preprocess | None = Field(
        None,
        description="null: numbers are used as they are; columns of other kinds or with missing cells as if it were {}",
    )
    split: Split | None = None
    cross_validation: Annotated[int, Field(ge=2, le=MAX_FOLDS)] | None = Field(
        None, description="so many folds of the training rows are judged before the model is trained on all of them"
    )
    calibrate: Literal[False, True, "platt", "isotonic"] = Field(
        False,
        description="probabilities beside scores, fitted to scores of held-out rows (the folds of cross_validation, or "
        f"{CALIBRATION_FOLDS}). true: isotonic if every class has 1000 rows, else platt",
    )
    tol: Positive = 1e-3
    stop: Stop = Stop()
    on_limit: Literal["keep_best", "fail"] = Field(
        "keep_best", description="what a limit of `stop` that is reached before `tol` means"
    )
    seed: Seed = 0
    warm_start: Text | None = Field(
        None, description="a model (`mdl_…`, `name`, `name:3`, `name@alias`) whose weights the training starts from"
    )

    @property
    def most_folds(self) -> int | None:
        """How many folds are trained before the model, at most; None: none, or as many as a column says."""
        return self.cross_validation or (CALIBRATION_FOLDS if self.calibrate else None)

    @property
    def keeps_groups_whole(self) -> bool:
        """Whether a split must not part the rows of a group, if there are groups."""
        return not (isinstance(self.split, SplitByShare) and self.split.group is False)

    def problem(self) -> dict[str, Any]:
        """The parameters of the problem by their names, which are those of `solvers.train` too."""
        return {name: getattr(self, name) for name in solvers.PARAMETERS}

    def solver_arguments(self) -> dict[str, Any]:
        """The part of the request that `solvers.check` and `solvers.train` share, under their names."""
        run = {name: getattr(self, name) for name in ("solver", "tol", "seed")}
        limits = {"max_seconds": self.stop.seconds, "max_passes": self.stop.passes}
        return {**self.problem(), **run, **limits, "options": self.solver_options}


class JobError(BaseModel):
    code: str
    message: str
    param: str | None = None


class JobFields(BaseModel):
    """A job as its address shows it; job_types.py adds what `result` is with each type."""

    id: str
    type: str
    status: Literal["queued", "running", "paused", "succeeded", "failed", "cancelled"]
    request: Literal["pause", "finish", "cancel"] | None = Field(
        description="what a client has asked of it and is not done yet, or how it came to its end"
    )
    done: bool
    progress: float = Field(description="0 to 1, judged by the gap on a logarithmic scale")
    eta_seconds: float | None = Field(description="by how the gap shrank lately; null: not known")
    queue_position: int | None = Field(description="jobs that are served before this one; null once it runs")
    attempt: int
    dataset_id: str
    model: str
    iterations: int
    passes: int
    primal: float | None
    dual_bound: float | None
    relative_gap: float | None = Field(
        description="gap / max(primal, 1e-12 sum_i C_i): certified at the end, until then the solver's own estimate"
    )
    model_id: str | None
    result: dict[str, Any] | None
    error: JobError | None
    spec: dict[str, Any]
    labels: dict[str, str]
    lineage: dict[str, Any]
    webhook: NewWebhook | None = Field(None, description="only in the answer that made the job: its secret is there")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class JobSummary(BaseModel):
    id: str
    type: str
    status: str
    done: bool
    progress: float
    dataset_id: str
    model: str
    model_id: str | None
    relative_gap: float | None
    error: JobError | None
    labels: dict[str, str]
    created_at: datetime
    finished_at: datetime | None


class Estimate(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    seconds: float | None = Field(description="on an idle machine, from the start of the work; null: not known")
    peak_bytes: int = Field(description="private memory of the training process at its peak")


class Validation(BaseModel):
    """What a job would meet; nothing is stored."""

    valid: bool
    estimate: Estimate | None = Field(description="null if too much is wrong to make one")
    errors: list[dict[str, Any]] = Field(description="what a submission would be refused for, each with its field")


class Event(BaseModel):
    id: str
    type: str
    data: dict[str, Any]
    created_at: datetime


class TracePoint(BaseModel):
    seconds: float
    iterations: int
    passes: int
    primal: float | None
    dual_bound: float | None
    relative_gap: float | None
    test_error: float | None = Field(
        None, description="on the test rows, where it was looked at: the share of wrong labels; regression: rmse"
    )


class Trace(BaseModel):
    job_id: str
    tol: float | None = Field(description="null: the job trains nothing")
    data: list[TracePoint]
