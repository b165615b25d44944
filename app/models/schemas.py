"""The shapes of a model over HTTP."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

Label = str | int | float


class Certificate(BaseModel):
    """How far from the optimum the model can be at most. Recomputed from data, weights and a dual point."""

    primal: float
    dual_bound: float | None
    gap: float | None
    relative_gap: float | None
    method: str


class ModelSummary(BaseModel):
    id: str
    name: str
    version: int
    task: str
    solver: str
    converged: bool
    created_at: datetime


class Model(ModelSummary):
    model_config = ConfigDict(protected_namespaces=())

    classes: list[Label]
    n_features: int
    params: dict[str, Any]
    certificate: Certificate
    metrics: dict[str, Any] = Field(description="train, and test if the job had a split")
    training: dict[str, Any]
    lineage: dict[str, Any]


class Weights(BaseModel):
    """`score = coef . x + intercept`; a score above 0 means `classes[1]`."""

    model: str
    coef: list[float]
    intercept: float
    classes: list[Label]
    feature_names: list[str] | None
