"""Response schemas of metrics, one for each task. All keep fields that they do not list: new metrics are added."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.datasets.schemas import Label

Share = Annotated[float | None, Field(ge=0, le=1)]
RowsMeasured = Annotated[int, Field(description="Number of rows that the metrics were computed on.")]
Accuracy = Annotated[Share, Field(description="Share of the rows with the right label; null: not defined.")]
BalancedAccuracy = Annotated[Share, Field(description="Mean recall of the classes; null: not defined.")]
Matthews = Annotated[
    float | None,
    Field(ge=-1, le=1, description="Matthews correlation coefficient; 0: no better than a constant; null: no rows."),
]
Error = Annotated[Share, Field(description="1 - accuracy; null: not defined.")]
Precision = Annotated[Share, Field(description="Share of the rows predicted so that are so; null: none is.")]
Recall = Annotated[Share, Field(description="Share of the rows that are so and are predicted so; null: none is.")]
F1 = Annotated[Share, Field(description="Harmonic mean of precision and recall; null: not defined.")]
RocAuc = Annotated[Share, Field(description="Area under the ROC curve; null: not defined.")]
PrAuc = Annotated[Share, Field(description="Average precision; null: not defined.")]
MeanAbsoluteError = Annotated[float | None, Field(description="Mean absolute error; null: not defined.")]


class Figures(BaseModel):
    """A group of figures. Fields can be added."""

    model_config = ConfigDict(extra="allow")


class MacroMetrics(Figures):
    """Means over the classes for which the metric is defined."""

    precision: Precision
    recall: Recall
    f1: F1


class ClassMetrics(MacroMetrics):
    """Metrics of one class against the others."""

    label: Label = Field(description="Label of the class.")
    rows: float = Field(description="Number of rows of the class, or their total weight.")
    roc_auc: RocAuc = None
    pr_auc: PrAuc = None


class Confusion(Figures):
    """Confusion matrix: a row for each true class, a column for each predicted class."""

    labels: list[Label] = Field(description="Labels of the rows and columns.")
    matrix: list[list[float]] = Field(description="Numbers of rows, or their total weights.")


class CalibrationCurve(Figures):
    """Predicted against observed probability, in at most ten ranges of probability."""

    predicted: list[float] = Field(description="Mean predicted probability of each range.")
    observed: list[float] = Field(description="Observed frequency in each range.")
    rows: list[float] = Field(description="Number of rows of each range, or their total weight.")


class ProbabilityMetrics(Figures):
    """Metrics of calibrated probabilities; absent without them."""

    brier: float | None = Field(None, description="Brier score: mean squared error of the probabilities.")
    log_loss: float | None = Field(None, description="Mean negative logarithm of the true class's probability.")
    calibration_error: float | None = Field(
        None, description="Mean difference of predicted and observed probability over the ranges of the curve."
    )
    calibration_curve: CalibrationCurve | None = Field(None, description="Predicted against observed probability.")


class ClassificationMetrics(ProbabilityMetrics):
    """Metrics of predicted classes."""

    rows: RowsMeasured
    accuracy: Accuracy
    error: Error
    balanced_accuracy: BalancedAccuracy = None
    matthews: Matthews = None
    precision: Precision
    recall: Recall
    f1: F1
    roc_auc: RocAuc
    pr_auc: PrAuc
    macro: MacroMetrics = Field(description="Means over the classes.")


class BinaryMetrics(ClassificationMetrics):
    """Metrics of two classes. Precision, recall, F1 and the areas are those of the positive class."""

    positive_class: Label | None = Field(
        None, description="Label of the positive class; absent: stored by an older version, and it is `classes[1]`."
    )
    threshold: float = Field(0.0, description="Decision threshold: a score above it predicts `classes[1]`.")
    prbep: Share = Field(description="Precision at which it equals recall; null: not defined.")
    per_class: list[ClassMetrics] = Field(description="Metrics of each class.")
    confusion: Confusion = Field(description="Confusion matrix.")


class MulticlassMetrics(ClassificationMetrics):
    """Metrics of several classes. Precision, recall, F1 and the areas are means over the classes."""

    per_class: list[ClassMetrics] | None = Field(description="Metrics of each class; null: over 100 classes.")
    confusion: Confusion | None = Field(description="Confusion matrix; null: over 100 classes.")


class OrdinalMetrics(Figures):
    """Metrics of ranks. Pairs are rows of one group with different relevance."""

    rows: RowsMeasured
    accuracy: Accuracy
    error: Error
    mae: MeanAbsoluteError
    swapped_pairs: Share = Field(description="Share of the pairs in the wrong order; null: there is no pair.")
    kendall_tau: float | None = Field(description="Kendall's tau-b, from -1 to 1; null: not defined.")
    roc_auc: RocAuc
    ndcg: dict[str, float | None] | None = Field(
        description="Normalised discounted cumulative gain at `5` and `10`; null: the rows have no groups."
    )
    groups: int = Field(description="Number of groups; 1: the rows have none.")
    groups_without_pairs: int = Field(description="Number of groups whose rows are all equally relevant.")


class RegressionMetrics(Figures):
    """Metrics of predicted numbers."""

    rows: RowsMeasured
    mae: MeanAbsoluteError
    rmse: float | None = Field(description="Root of the mean squared error; null: not finite.")
    r2: float | None = Field(description="Coefficient of determination; null: all true values are equal.")


TaskMetrics = BinaryMetrics | MulticlassMetrics | OrdinalMetrics | RegressionMetrics
"""The metrics of a task. The first schema whose required fields are all there is the right one."""
FoldFigures = Annotated[
    dict[str, float | dict[str, float | None] | None],
    Field(description="The metrics that are single numbers, by name."),
]


class Baseline(Figures):
    """Metrics of the constant model: the most frequent class or rank of the training rows, or their mean. The metrics
    of the task follow, those of single numbers only."""

    prediction: Label | None = Field(description="What it predicts for every row; null: equal scores without ranks.")
    measured_on: Literal["train", "test"] = Field(description="Rows that it was measured on: test rows if any.")
    rows: RowsMeasured
    accuracy: Accuracy = None
    error: Error = None
    balanced_accuracy: BalancedAccuracy = None
    matthews: Matthews = None
    precision: Precision = None
    recall: Recall = None
    f1: F1 = None
    roc_auc: RocAuc = None
    pr_auc: PrAuc = None
    mae: MeanAbsoluteError = None
    rmse: float | None = Field(None, description="Root of the mean squared error.")
    r2: float | None = Field(None, description="Coefficient of determination: 0 on the training rows.")
    swapped_pairs: Share = Field(None, description="Share of the pairs in the wrong order: 0.5, all are ties.")
    kendall_tau: float | None = Field(None, description="Always null: equal scores have no order.")
    ndcg: dict[str, float | None] | None = Field(None, description="NDCG at `5` and `10` of equal scores.")
    groups: int | None = Field(None, description="Number of groups.")
    groups_without_pairs: int | None = Field(None, description="Number of groups whose rows are equally relevant.")


class TunedThreshold(Figures):
    """A decision threshold that was tuned on the scores of held-out rows. An imported model has only `value`."""

    value: float = Field(description="The threshold: a score above it predicts `classes[1]`.")
    metric: str | None = Field(None, description="Metric that was maximised.")
    positive_class: Label | None = Field(None, description="Label of the class that the metric is about.")
    rows: int | None = Field(None, description="Number of held-out rows.")
    held_out: float | None = Field(
        None, description="The metric on these rows. It is slightly too good: they chose the threshold."
    )
    at_zero: float | None = Field(None, description="The metric on these rows at the threshold 0.")


class Metrics(Figures):
    """Metrics by the rows that they were computed on."""

    train: TaskMetrics | None = Field(None, description="Metrics on the training rows; absent: imported.")
    test: TaskMetrics | None = Field(None, description="Metrics on the test rows; absent: there was no split.")
    baseline: Baseline | None = Field(None, description="Metrics of the constant model; absent: imported or older.")


class Fold(Figures):
    """One fold of a cross-validation: trained on the others, measured on this one."""

    fold: int = Field(description="Number of the fold, from 1.")
    train_rows: int = Field(description="Number of rows that were trained on.")
    status: str = Field(description="How the training ended: `converged`, or the limit that ended it.")
    converged: bool = Field(description="Whether the certified relative gap is at most `tol`.")
    relative_gap: float | None = Field(description="Certified relative gap of the fold's model.")
    seconds: float = Field(description="Seconds of solving.")
    metrics: FoldFigures


class CrossValidation(Figures):
    """Metrics on rows that were held out, fold by fold."""

    by: str = Field(description="What the folds were drawn by: `class`, `row`, `group` or `fold_column`.")
    folds: list[Fold] = Field(description="The folds.")
    mean: FoldFigures
    std: FoldFigures


class CalibrationReport(Figures):
    """How scores become probabilities."""

    method: str = Field(description="`platt`, `isotonic`, or `logistic`: the loss implies the probabilities.")
    rows: int = Field(description="Number of held-out rows that it was fitted to.")
    held_out: ProbabilityMetrics | None = Field(description="Metrics on these rows; null: nothing was fitted.")
