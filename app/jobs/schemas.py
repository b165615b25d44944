"""Request schemas of `/v1/jobs`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    WithJsonSchema,
    create_model,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

import solvers
from app.errors import UNION_TAG
from app.names import Labels, Name, Text
from app.preprocess.spec import Preprocess
from app.web.validation import Body
from app.webhooks.schemas import WebhookRequest

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
    fold_column: SkipJsonSchema[None] = Field(None, description="Always null in this kind of split.")


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

AUTO = "auto"
"""Value of C that stands for a search."""


def _kind_of_cost(value: Any) -> str:
    return f"{UNION_TAG}word" if isinstance(value, str) else f"{UNION_TAG}number"


Cost = Annotated[
    Annotated[Positive, Tag("type=number")] | Annotated[Literal["auto"], Tag("type=word")],
    Discriminator(_kind_of_cost),
]

FIELD_TYPES: dict[str, Any] = {"class_weight": ClassWeight | None, "C": Cost}
"""JSON types of the parameters that are neither a word nor a number."""
ADDED_TEXT = {
    "C": "; `auto`: chosen by a short search on five folds, which takes at most 5 times as long as one training, or "
    "2 seconds. `result.tuning` has its curve."
}
"""What the service adds to the meaning of a parameter."""


def parameter_type(name: str) -> Any:
    """Return the JSON type of a parameter of the problem."""
    parameter = solvers.PARAMETERS[name]
    limits = {"ge": parameter.low, "gt": parameter.above, "le": parameter.high}
    number = Annotated[float, Field(**{key: limit for key, limit in limits.items() if limit is not None})]
    word = Annotated[Text, Field(json_schema_extra={"enum": list(parameter.choices)})]
    plain = word if parameter.choices else number if parameter.default is not None else number | None
    return FIELD_TYPES.get(name, plain)


def _problem_fields() -> dict[str, Any]:
    """Build a field for each parameter that solvers/problem/spec.py declares."""
    return {
        name: (
            parameter_type(name),
            Field(parameter.default, description=parameter.description + ADDED_TEXT.get(name, "")),
        )
        for name, parameter in solvers.PARAMETERS.items()
    }


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
        C: float | Literal["auto"]
        class_weight: ClassWeight | None

else:
    ProblemFields = create_model("ProblemFields", __base__=TrainingTarget, **_problem_fields())


MAX_FOLDS = 50
"""Maximum number of folds. Each fold costs one more training. Set by hand; no measurement is recorded."""
FoldCount = Annotated[int, Field(ge=2, le=MAX_FOLDS)]
CALIBRATION_FOLDS = 5
"""Number of folds that calibration uses when `cross_validation` is not set. Larger: one more training per fold. Set by
hand; no measurement is recorded."""
AUTO_FOLDS = 5
"""Number of folds of the search for `C: "auto"`. Equal to FOLDS in solvers/tuning/quick.py."""
DEFAULT_SECONDS = 600.0
"""Default of `stop.seconds`, in seconds. Larger: a job that does not converge, on unscaled data for example, keeps a
worker busy for longer. Set by hand; no measurement is recorded."""


class Stop(Body):
    """Limits of a training. The first limit that is reached ends it; null: no limit."""

    seconds: Positive | None = Field(
        DEFAULT_SECONDS,
        description="Maximum seconds of solving, over all trainings of the job. Compiling kernels does not count.",
    )
    passes: Annotated[int, Field(ge=1, le=10**9)] | None = Field(
        None, description="Maximum number of passes over the training data, for each training of the job."
    )


class Threshold(Body):
    """Tune the decision threshold of two classes on the scores of held-out rows."""

    metric: Literal["f1", "balanced_accuracy", "accuracy", "matthews"] = Field(
        description="Metric to maximise: `f1` of the positive class, `balanced_accuracy`, `accuracy`, or `matthews`."
    )


PositiveClass = Annotated[
    StrictStr | StrictInt | Annotated[StrictFloat, Field(allow_inf_nan=False)] | None,
    Field(
        description="Of two classes, the label that precision, recall, F1, the areas and `threshold` are about; null: "
        "the rarer class. A score above the threshold still predicts `classes[1]`."
    ),
]


class RunLimits(Body):
    """How to train, apart from the problem and the solver: fields that all jobs that train share."""

    positive_class: PositiveClass = None
    threshold: Threshold | None = Field(
        None,
        description="Tune the decision threshold of two classes for a metric, on the scores of held-out rows (the "
        f"folds of `cross_validation`, or {CALIBRATION_FOLDS}); null: a score above 0 predicts `classes[1]`.",
    )

    split: Split | None = Field(None, description="Rows to test on: a share, another dataset or folds; null: none.")
    calibrate: Annotated[
        Literal[False, True, "platt", "isotonic"],
        BeforeValidator(_no_number),
        WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["platt", "isotonic"]}]}),
    ] = Field(
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


class RunFields(RunLimits):
    """How to train, apart from the problem."""

    solver: Text = Field("auto", description="Name of a solver of `GET /v1/solvers`, or `auto`: chosen by the data.")
    solver_options: dict[str, Any] = Field(
        default_factory=dict, description="Options of the solver; `GET /v1/solvers` lists them with their defaults."
    )


PREPROCESS = (
    "How raw columns become features. null: the default settings if a column is not numeric or has missing values, "
    "else the numbers as they are."
)


class TrainingFields(RunLimits, ProblemFields):
    """What to train, and how, without the solver. The request bodies of trainings and races extend it."""

    preprocess: Preprocess | None = Field(None, description=PREPROCESS)
    cross_validation: FoldCount | None = Field(
        None, description="Number of folds to cross-validate with before the model is trained on all training rows."
    )
    warm_start: Text | None = Field(
        None, description="Model to start from: `mdl_…`, `name`, `name:3` or `name@alias`; null: start from zero."
    )

    @property
    def most_folds(self) -> int | None:
        """Return the maximum number of folds that are trained before the model; None: none, or a column decides."""
        of_search = AUTO_FOLDS if self.C == AUTO else None
        return self.cross_validation or (CALIBRATION_FOLDS if self.calibrate or self.threshold else of_search)

    @property
    def keeps_groups_whole(self) -> bool:
        """Whether a split must keep the rows of a group together, if the dataset has groups."""
        return not (isinstance(self.split, SplitByShare) and self.split.group is False)

    def problem(self) -> dict[str, Any]:
        """Return the parameters of the problem, under the names of `solvers.train`. C that is not chosen yet is 1."""
        problem = {name: getattr(self, name) for name in solvers.PARAMETERS}
        return problem | ({"C": 1.0} if self.C == AUTO else {})


class TrainingSpec(RunFields, TrainingFields):
    """What to train, and how. The request body of a training job extends it."""

    def solver_arguments(self) -> dict[str, Any]:
        """Return the arguments that `solvers.check` and `solvers.train` share."""
        run = {name: getattr(self, name) for name in ("solver", "tol", "seed")}
        limits = {"max_seconds": self.stop.seconds, "max_passes": self.stop.passes}
        return {**self.problem(), **run, **limits, "options": self.solver_options}
