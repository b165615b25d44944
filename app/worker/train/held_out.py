"""How a model does on the test rows while it is being trained: looked at now and then, and never for long."""

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
MOST_COST = 0.05
"""The share of the time that looks may take."""


class HeldOut:
    """The test rows of a training, if it has any."""

    def __init__(self, work: Work | None) -> None:
        """None: a training whose model nobody will see, as that of a fold."""
        self._work = work
        self._codes: Array | None = None
        self._next = time.monotonic() + LOOK_EVERY_SECONDS

    def error(self, report: solvers.StepReport) -> float | None:
        """The model's error on them as it stands; None: there is none, or it is not time to look."""
        began = time.monotonic()
        if self._work is None or self._work.test is None or began < self._next or not report.has_model:
            return None
        try:
            return self._judged(self._work.test, report.model())
        except PermanentFailure:  # a score that is no number: the model may still become one
            return None
        finally:
            now = time.monotonic()
            self._next = now + max(LOOK_EVERY_SECONDS, (now - began) / MOST_COST)

    def _judged(self, rows: DatasetArrays, model: solvers.LinearModel) -> float | None:
        """What the metrics of a trained model call `error`, alone; `rmse` where there are no labels."""
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
    """The same of a model's metrics."""
    test = figures.get("test", {})
    found = test.get("error", test.get("rmse"))
    return found if isinstance(found, float) else None
