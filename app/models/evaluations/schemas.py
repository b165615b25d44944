"""The shapes of an evaluation over HTTP."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from app.models.schemas import Label, PrecisionRecallCurve, RocCurve


class EvaluationCurves(BaseModel):
    """At most 200 points each, from the highest score down."""

    roc: RocCurve
    pr: PrecisionRecallCurve


class ClassCounts(BaseModel):
    label: Label
    counts: list[int]


class ScoreHistogram(BaseModel):
    """Ranges of equal width from the lowest score to the highest; multiclass: of the largest score of each row."""

    edges: list[float]
    counts: list[int]
    per_class: list[ClassCounts] | None = Field(None, description="of two classes")


class EvaluationSummary(BaseModel):
    model_config = ConfigDict(protected_namespaces=())

    id: str
    model_id: str
    dataset_id: str
    job_id: str
    rows: int
    failed_rows: int = Field(description="rows that could not be scored, because of a missing value say; not judged")
    metrics: dict[str, Any] = Field(description="as in a model's `metrics`, with probabilities' if it is calibrated")
    created_at: datetime


class Evaluation(EvaluationSummary):
    curves: EvaluationCurves | None = Field(description="of the second of two classes; null for other models")
    histogram: ScoreHistogram | None
