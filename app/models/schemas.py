"""Response schemas of `/v1/models`."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.models.metrics.schemas import CalibrationReport, CrossValidation, Figures, Metrics, TunedThreshold
from app.web.described import described_as
from app.web.fields import CreatedAt, ModelId

Label = str | int | float
LabelShown = Annotated[Label, Field(description="Label of the class.")]
TaskShown = Annotated[str, Field(description="Task: `binary`, `multiclass`, `ordinal` or `regression`.")]
FeatureCount = Annotated[int, Field(description="Number of features of the model, after preprocessing.")]


class Bounds(BaseModel):
    """How far the objective can be from the optimum. All figures are true in exact arithmetic."""

    primal: float = Field(description="Objective value of the weights, rounded up.")
    dual_bound: float | None = Field(
        description="Proven lower bound of the optimal objective value; null: the objective is not finite."
    )
    gap: float | None = Field(description="Proven upper bound of objective - optimum, rounding included.")
    relative_gap: float | None = Field(description="gap / max(primal, 1e-12 sum_i C_i), from 0 to 1.")
    method: str = Field(description="How the dual point of the bound was found.")


class ClassBounds(Bounds):
    """The bounds of one class of a one-vs-rest model."""

    label: LabelShown


class Certificate(Bounds):
    """How far from the optimum the model can be at most. Computed from the data, the weights and a dual point."""

    per_class: list[ClassBounds] | None = Field(
        None, description="Bounds of each class, which add up to the certificate, for one-vs-rest models; else null."
    )
    claimed: bool = Field(
        False, description="True for an imported model: the certificate came with the file and was not recomputed."
    )


class RocCurve(BaseModel):
    """Receiver operating characteristic: one point for each threshold."""

    fpr: list[float] = Field(description="False positive rates.")
    tpr: list[float] = Field(description="True positive rates.")
    threshold: list[float | None] = Field(description="Score thresholds; null: above all scores.")


class PrecisionRecallCurve(BaseModel):
    """Precision and recall: one point for each threshold."""

    precision: list[float] = Field(description="Precision at each threshold.")
    recall: list[float] = Field(description="Recall at each threshold.")
    threshold: list[float] = Field(description="Score thresholds.")


class Warned(Figures):
    """An automatic decision or a likely mistake."""

    code: str = Field(description="Code of the warning, for programs.")
    detail: str = Field(description="What was found, and what to do, in a sentence.")


class TrainingRun(Figures):
    """Facts of the training run. An imported model has only `status`."""

    status: str = Field(description="How it ended: `converged`, the limit that ended it, or `imported`.")
    rows: int | None = Field(None, description="Number of training rows.")
    seconds: float | None = Field(None, description="Seconds of solving.")
    total_seconds: float | None = Field(None, description="Seconds of the whole job.")
    iterations: int | None = Field(None, description="Iterations of the solver.")
    passes: float | None = Field(None, description="Passes over the training data.")
    threads: int | None = Field(None, description="Number of threads.")
    peak_bytes: int | None = Field(None, description="Peak memory of the training process, in bytes.")


class Lineage(Figures):
    """Origin of a model. An imported model has neither a job nor a dataset, and lists what its file claimed."""

    parent: str | None = Field(description="Model that the training started from (`mdl_…`); null: none.")
    job_id: str | None = Field(None, description="Id of the training job (`job_…`).")
    dataset_id: str | None = Field(None, description="Id of the dataset (`ds_…`).")
    sha256: str = Field(description="SHA-256 of the dataset's bytes, or of the imported file.")
    seed: int | None = Field(None, description="Seed of the random numbers.")
    params: dict[str, Any] = Field(description="Parameters of the problem, as in `params`.")
    versions: dict[str, str] = Field(description="Versions of the software that wrote the model.")


Roc = Annotated[RocCurve, Field(description="Receiver operating characteristic.")]
PrecisionRecall = Annotated[PrecisionRecallCurve, Field(description="Precision against recall.")]


class Curves(BaseModel):
    """Curves of at most 200 points each, from the rows that are surest positive down."""

    rows: Literal["train", "test"] = Field(description="Rows that the curves were computed on.")
    roc: Roc
    pr: PrecisionRecall


class Headline(BaseModel):
    """The one figure by which models of a task are compared."""

    name: str = Field(
        description="`accuracy` for classes, `balanced_accuracy` if the rarest class has less than half of an equal "
        "share of the training rows, `r2` for numbers, `swapped_pairs` for ranks."
    )
    value: float = Field(description="Value of the metric.")
    rows: Literal["train", "test", "folds"] = Field(
        description="Rows it was computed on: `test` with a split, else `folds` with cross-validation (their mean), "
        "else `train`."
    )


class ModelSummary(BaseModel):
    """A model version in a list. `GET /v1/models/{ref}` has all fields."""

    id: ModelId
    name: str = Field(description="Name of the model.")
    version: int = Field(description="Version number, from 1. Numbers are never reused.")
    task: TaskShown
    solver: str = Field(description="Solver that trained it; `imported` for imported models.")
    converged: bool = Field(description="Whether the certified relative gap is at most `tol`.")
    relative_gap: float | None = Field(description="Relative gap of the certificate; null: the model has none.")
    headline: Headline | None = Field(description="Metric for lists; null: none is known, as of an imported model.")
    created_at: CreatedAt
    deleted_at: datetime | None = Field(description="Time of the deletion; null: not deleted.")
    purged_at: datetime | None = Field(description="Time when its weights were deleted for good; null: they were not.")


class Model(ModelSummary):
    """A model version with its certificate, metrics and origin."""

    model_config = ConfigDict(protected_namespaces=())

    strategy: str | None = Field(None, description="Multiclass strategy: `ovr` or `crammer_singer`; else null.")
    classes: list[Label] = Field(
        description="Labels of the classes, sorted if trained here; empty if the model predicts numbers."
    )
    n_features: FeatureCount
    params: dict[str, Any] = Field(description="Parameters of the problem: task, loss, C and others.")
    certificate: Certificate | None = Field(description="Optimality certificate; null: imported without one.")
    metrics: Annotated[dict[str, Any], described_as(Metrics)] = Field(
        description="Metrics on the training rows (`train`) and, with a split, the test rows (`test`), and of the "
        "constant model (`baseline`). Empty: imported."
    )
    threshold: Annotated[dict[str, Any] | None, described_as(TunedThreshold | None)] = Field(
        None, description="Tuned decision threshold of two classes; null: a score above 0 predicts `classes[1]`."
    )
    curves: Curves | None = Field(
        None, description="Curves for the positive of two classes, or the second of two ranks; null for other models."
    )
    cross_validation: Annotated[dict[str, Any] | None, described_as(CrossValidation | None)] = Field(
        None, description="Cross-validation: `by`, `folds`, `mean`, `std`; null: there was none."
    )
    tuning: dict[str, Any] | None = Field(
        None,
        description="The search that chose C and other values: `metric`, `best`, `certificate` of the search with its "
        "`steps`, `outer`; null: the request named them.",
    )
    calibration: Annotated[dict[str, Any] | None, described_as(CalibrationReport | None)] = Field(
        None,
        description="How scores become probabilities: `method`, `rows`, `held_out` {brier, log_loss, "
        "calibration_error, calibration_curve}, measured on the rows that it was fitted to; null: no probabilities.",
    )
    sets: dict[str, Any] | None = Field(
        None,
        description="Prediction sets: `folds` (0: there are none), `rows` that were held out, `bytes` of the fold "
        "models, and `reason` why there are none or why their coverage is not guaranteed; null: no cross-validation.",
    )
    preprocess: dict[str, Any] | None = Field(
        None,
        description="Preprocessing settings, columns and the features of each; null: features are the columns.",
    )
    warnings: Annotated[list[dict[str, Any]], described_as(list[Warned])] = Field(
        [], description="Automatic decisions and likely mistakes with their cure, each with `code` and `detail`."
    )
    training: Annotated[dict[str, Any], described_as(TrainingRun)] = Field(
        description="Facts of the training run: status, seconds, iterations, passes, rows."
    )
    lineage: Annotated[dict[str, Any], described_as(Lineage)] = Field(
        description="Origin: `job_id`, `dataset_id`, `sha256` of the dataset's bytes, `params`, `seed`, software "
        "versions, and `parent`, the model that the training started from."
    )
    aliases: list[str] = Field(description="Aliases that send or mirror requests to this version.")


class ModelView(ModelSummary):
    """A model version with its main figures only: `view=summary`."""

    model_config = ConfigDict(protected_namespaces=())

    classes: list[Label] = Field(description="Labels of the classes; empty if the model predicts numbers.")
    n_features: FeatureCount
    params: dict[str, Any] = Field(description="`loss`, `C` and, of two classes, `positive_class`.")
    metrics: dict[str, Any] = Field(
        description="Main figures on the test rows (without any: the training rows), and of the constant model."
    )
    threshold: dict[str, Any] | None = Field(description="`value` and `metric` of a tuned threshold; null: it is 0.")
    warnings: Annotated[list[dict[str, Any]], described_as(list[Warned])] = Field(
        description="Automatic decisions and likely mistakes with their cure."
    )
    aliases: list[str] = Field(description="Aliases that send or mirror requests to this version.")


class Weights(BaseModel):
    """All weights: `score = coef . x + intercept`.

    Binary: a score above the threshold (null: 0) predicts `classes[1]`. Multiclass: one row of `coef` and one intercept
    for each class; the largest score wins, the first of equal ones. Ordinal: a score above the first k thresholds
    predicts `classes[k]`.
    Regression: the score is the prediction.
    """

    model: ModelId
    task: TaskShown
    coef: list[float] | list[list[float]] = Field(
        description="Weights in the units of the uploaded columns; multiclass: one list for each class."
    )
    intercept: float | list[float] = Field(description="Intercept; multiclass: one for each class.")
    thresholds: list[float] | None = Field(
        description="Ascending thresholds of an ordinal model, or the tuned threshold of a binary one; else null."
    )
    classes: list[Label] = Field(description="Labels of the classes; empty if the model predicts numbers.")
    feature_names: list[str] | None = Field(description="Names of the features; null: they have none.")


class NamedWeight(BaseModel):
    """A weight with the name of its feature."""

    feature: str = Field(
        description="Name of the feature: `age`, `workclass=Private`, `text:word`; its number if it has no name."
    )
    column: str = Field(description="Column of the uploaded file that the feature comes from.")
    level: str | None = Field(
        description="Value of a categorical column, or part of a date, that the feature stands for; else null."
    )
    word: str | None = Field(description="Word or words of a text column that the feature stands for; else null.")
    weight: float = Field(description="Weight in the units of the column.")
    unit: str = Field(
        description="What the weight is multiplied by: `1` or `day` of the column, `true`, `level`, `count`, `tf-idf`."
    )
    strength: float = Field(description="Weight after scaling, as the solver saw it: comparable between columns.")


class ClassWeights(BaseModel):
    """The strongest weights of one class."""

    label: Label | None = Field(description="Class that positive weights favour; null: they raise the score itself.")
    weights: list[NamedWeight] = Field(description="Weights, the strongest first.")


class StrongestWeights(BaseModel):
    """The strongest weights of either sign. Of two classes only the second is listed: the first has them negated."""

    model: ModelId
    task: TaskShown
    n_features: FeatureCount
    classes: list[ClassWeights] = Field(description="Weights of each class.")
