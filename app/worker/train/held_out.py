"""Measures the error on the test rows during training, at intervals that bound its cost."""

import time

import numpy as np

import solvers
from app.datasets.arrays import DatasetArrays
from app.models import metrics
from app.models.linear import class_positions
from app.tabular.types import Array
from app.worker.failures import PermanentFailure
from app.worker.train.load import Work
from app.worker.train.result_metrics import score

LOOK_EVERY_SECONDS = 0.5
"""Minimum seconds between two measurements of the test error. Larger: fewer points of its curve, less time. Set by
hand; no measurement is recorded."""
MOST_COST = 0.05
"""Maximum fraction of the training time that measurements of the test error can take. Larger: more points of the test
error, slower training. Set by hand; no measurement is recorded."""


class HeldOut:
    """The test rows of a training; none for the training of a fold."""

    def __init__(self, work: Work | None) -> None:
        """`work` is None for the training of a fold, whose model is not stored."""
        self._work = work
        self._codes: Array | None = None
        self._next = time.monotonic() + LOOK_EVERY_SECONDS

    def error(self, report: solvers.StepReport) -> float | None:
        """Return the current error on the test rows; None: there are none, or the measurement is not due."""
        began = time.monotonic()
        if self._work is None or self._work.test is None or began < self._next or not report.has_model:
            return None
        try:
            return self._judged(self._work.test, report.model())
        except PermanentFailure:  # the scores are not finite yet
            return None
        finally:
            now = time.monotonic()
            self._next = now + max(LOOK_EVERY_SECONDS, (now - began) / MOST_COST)

    def _judged(self, rows: DatasetArrays, model: solvers.LinearModel) -> float | None:
        """Compute `error` of the metrics only, or `rmse` for regression."""
        scores = score(rows, model)
        if model.task == "regression":
            found: float | None = metrics.regression_metrics(rows.y, scores, rows.weight)["rmse"]
            return found
        if model.task == "ordinal":
            if model.thresholds is None:
                return None
            wrong = model.classes[class_positions(scores, model.thresholds)] != rows.y
        else:
            wrong = class_positions(scores) != self._codes_of(rows, model)
        if rows.weight is not None and not rows.weight.any():
            return None
        return float(np.average(wrong, weights=rows.weight))

    def _codes_of(self, rows: DatasetArrays, model: solvers.LinearModel) -> Array:
        if self._codes is None:
            assert self._work is not None
            self._codes = rows.codes([self._work.train.label(value) for value in model.classes])
        return self._codes


def final_error(figures: dict[str, dict[str, object]]) -> float | None:
    """Return the test error from the metrics of a trained model: the figure that `HeldOut.error` returns during
    training."""
    test = figures.get("test", {})
    found = test.get("error", test.get("rmse"))
    return found if isinstance(found, float) else None
