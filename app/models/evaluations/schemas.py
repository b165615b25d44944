"""Response schemas of evaluations."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from app.models.metrics.schemas import TaskMetrics
from app.models.schemas import LabelShown, PrecisionRecall, Roc
from app.web.described import described_as
from app.web.fields import CreatedAt, DatasetId, JobId, ModelId

RangeCounts = Annotated[list[int], Field(description="Number of rows in each bin.")]


class EvaluationCurves(BaseModel):
    """Curves of at most 200 points each, from the rows that are surest positive down."""

    roc: Roc
    pr: PrecisionRecall


class ClassCounts(BaseModel):
    """The histogram of one class."""

    label: LabelShown
    counts: RangeCounts


class ScoreHistogram(BaseModel):
    """Equal-width bins from the lowest score to the highest. Multiclass: each row counts by its largest score."""

    edges: list[float] = Field(description="Edges of the bins, ascending: one more than there are bins.")
    counts: RangeCounts
    per_class: list[ClassCounts] | None = Field(None, description="Binary model: one histogram per class; else null.")


class EvaluationSummary(BaseModel):
    """An evaluation in a list. `GET /v1/evaluations/{evaluation_id}` has all fields."""

    model_config = ConfigDict(protected_namespaces=())

    id: str = Field(description="Id of the evaluation (`ev_…`).")
    model_id: ModelId
    dataset_id: DatasetId
    job_id: JobId
    rows: int = Field(description="Number of rows that were scored.")
    failed_rows: int = Field(
        description="Number of rows without a score, because of a missing value for example. The metrics omit them."
    )
    metrics: Annotated[dict[str, Any], described_as(TaskMetrics)] = Field(
        description="Metrics as in a model's `metrics`, with those of probabilities for a calibrated model."
    )
    created_at: CreatedAt


class Evaluation(EvaluationSummary):
    """Metrics and curves of a model on a dataset."""

    curves: EvaluationCurves | None = Field(description="Curves for the positive of two classes; else null.")
    histogram: ScoreHistogram | None = Field(description="Distribution of the scores; null: no row has a score.")
