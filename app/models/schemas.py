"""The shapes of a model over HTTP."""

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Label = str | int | float


class Bounds(BaseModel):
    primal: float = Field(description="the objective of the weights, rounded up")
    dual_bound: float | None = Field(description="proven lower bound of the optimum; null: the objective is not finite")
    gap: float | None = Field(description="proven upper bound of objective - optimum, rounding included")
    relative_gap: float | None = Field(description="gap / max(primal, 1e-12 sum_i C_i), from 0 to 1")
    method: str = Field(description="where the dual point of the bound came from")


class ClassBounds(Bounds):
    label: Label


class Certificate(Bounds):
    """How far from the optimum the model can be at most. Recomputed from data, weights and a dual point."""

    per_class: list[ClassBounds] | None = Field(
        None, description="of the problems of which the certificate is the sum, if each class was trained on its own"
    )
    claimed: bool = Field(False, description="it came with an imported model; nothing here has recomputed it")


class RocCurve(BaseModel):
    fpr: list[float]
    tpr: list[float]
    threshold: list[float | None] = Field(description="scores; null: above all of them")


class PrecisionRecallCurve(BaseModel):
    precision: list[float]
    recall: list[float]
    threshold: list[float]


class Curves(BaseModel):
    """At most 200 points each, from the highest score down."""

    rows: Literal["train", "test"] = Field(description="the rows that they are of")
    roc: RocCurve
    pr: PrecisionRecallCurve


class ModelSummary(BaseModel):
    id: str
    name: str
    version: int
    task: str
    solver: str
    converged: bool
    created_at: datetime
    deleted_at: datetime | None
    purged_at: datetime | None = Field(description="since when only this page is left of a deleted model")


class Model(ModelSummary):
    model_config = ConfigDict(protected_namespaces=())

    strategy: str | None = Field(None, description="how several classes were trained; null for other tasks")
    classes: list[Label] = Field(description="sorted if trained here; empty if the model answers with numbers")
    n_features: int
    params: dict[str, Any]
    certificate: Certificate | None = Field(description="null: the model was imported without one")
    metrics: dict[str, Any] = Field(description="train, and test if the job had a split; empty if it was imported")
    curves: Curves | None = Field(None, description="of the second of two classes or ranks; null for other models")
    cross_validation: dict[str, Any] | None = Field(None, description="by, folds, mean, std; null if there was none")
    calibration: dict[str, Any] | None = Field(
        None,
        description="method, rows, held_out {brier, log_loss, calibration_error, calibration_curve}: how scores become "
        "probabilities, judged on the rows that it was fitted to; null: the model has no probabilities",
    )
    preprocess: dict[str, Any] | None = Field(
        None, description="settings, columns and what each became; null: features are the columns as uploaded"
    )
    warnings: list[dict[str, str]] = Field([], description="code, detail: what was decided or looks unwise")
    training: dict[str, Any]
    lineage: dict[str, Any] = Field(
        description="job_id, dataset_id, sha256 of its bytes, params, seed, versions of the software, and the parent "
        "whose weights it started from"
    )
    aliases: list[str] = Field(description="those that send requests to this version, or mirror them to it")


class Weights(BaseModel):
    """`score = coef . x + intercept`.

    Binary: a score above 0 means `classes[1]`. Multiclass: a row of coef and an intercept a class; the largest score
    wins, the first of equal ones. Ordinal: a score above the first k thresholds means `classes[k]`. Regression: the
    score is the answer.
    """

    model: str
    task: str
    coef: list[float] | list[list[float]]
    intercept: float | list[float]
    thresholds: list[float] | None
    classes: list[Label]
    feature_names: list[str] | None


class NamedWeight(BaseModel):
    feature: str = Field(description="`age`, `workclass=Private`, `text:word`; the number of a feature without a name")
    column: str
    level: str | None = Field(description="of a categorical column or a part of a date; null: not one level")
    word: str | None = Field(description="or several, of a text column")
    weight: float = Field(description="in raw units")
    unit: str = Field(description="what it is paid for: `1` or `day` of the column, `true`, `level`, `count`, `tf-idf`")
    strength: float = Field(description="the weight as the solver saw it, after scaling: comparable between columns")


class ClassWeights(BaseModel):
    label: Label | None = Field(description="what positive weights speak for; null: the score itself")
    weights: list[NamedWeight]


class StrongestWeights(BaseModel):
    """The strongest first, of either sign. Of two classes only the second is there: the first has the same, negated."""

    model: str
    task: str
    n_features: int
    classes: list[ClassWeights]
