"""Metrics of probabilities: Brier score, log loss and calibration."""

from typing import Any

import numpy as np

from app.tabular.types import Array

BINS = 10
"""Number of points of the calibration curve. Larger: a finer curve, fewer rows per point. Set by hand; no measurement
is recorded."""
SMALLEST = 1e-300
"""Lower bound of probabilities in the log loss, so that a probability rounded to 0 has a finite logarithm."""


def probability_metrics(codes: Array, probabilities: Array, weight: Array | None = None) -> dict[str, Any]:
    """Return the metrics. `codes`: true classes; `probabilities` has a column per class.

    The Brier score of two classes is the mean squared error of the second class's probability; of several classes it is
    summed over them. The calibration curve is that of the second of two classes, or of the most likely class.
    """
    counted = np.ones(len(codes)) if weight is None else weight
    if not len(codes) or not counted.any():
        return {"brier": None, "log_loss": None, "calibration_error": None, "calibration_curve": None}
    of_truth = probabilities[np.arange(len(codes)), codes]
    if probabilities.shape[1] == 2:
        said, happened = probabilities[:, 1], codes == 1
        squared = (said - happened) ** 2
    else:
        likeliest = probabilities.argmax(axis=1)
        said, happened = probabilities.max(axis=1), codes == likeliest
        squared = (probabilities**2).sum(axis=1) - 2.0 * of_truth + 1.0
    curve = calibration_curve(said, happened, counted)
    rows = np.array(curve["rows"])
    errors = np.abs(np.array(curve["predicted"]) - np.array(curve["observed"]))
    return {
        "brier": float(np.average(squared, weights=counted)),
        "log_loss": float(np.average(-np.log(np.maximum(of_truth, SMALLEST)), weights=counted)),
        "calibration_error": float(np.average(errors, weights=rows)),
        "calibration_curve": curve,
    }


def calibration_curve(said: Array, happened: Array, weight: Array) -> dict[str, list[float]]:
    """Return mean probability, observed frequency and weight of the rows in ten ranges of probability."""
    bins = np.minimum((said * BINS).astype(np.int64), BINS - 1)
    totals = np.bincount(bins, weight, minlength=BINS)
    used = totals > 0.0
    predicted = np.bincount(bins, weight * said, minlength=BINS)[used] / totals[used]
    observed = np.bincount(bins, weight * happened, minlength=BINS)[used] / totals[used]
    return {"predicted": predicted.tolist(), "observed": observed.tolist(), "rows": totals[used].tolist()}
