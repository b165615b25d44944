"""How honest probabilities are: of what is said to happen with probability 0.8, four fifths should."""

from typing import Any

import numpy as np

from app.tabular.types import Array

BINS = 10
SMALLEST = 1e-300
"""A probability that was rounded to zero: its logarithm is very negative, not infinite."""


def probability_metrics(codes: Array, probabilities: Array, weight: Array | None = None) -> dict[str, Any]:
    """`codes` are the rows' true classes, `probabilities` has a column a class.

    The Brier score of two classes is the mean squared error of the second's probability; of several it is summed over
    the classes. The calibration curve is that of the second class of two, or of the class that is thought most likely.
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
    """Rows by ten ranges of what was said: its mean, how often it happened, and how many (or how heavy) they are."""
    bins = np.minimum((said * BINS).astype(np.int64), BINS - 1)
    totals = np.bincount(bins, weight, minlength=BINS)
    used = totals > 0.0
    predicted = np.bincount(bins, weight * said, minlength=BINS)[used] / totals[used]
    observed = np.bincount(bins, weight * happened, minlength=BINS)[used] / totals[used]
    return {"predicted": predicted.tolist(), "observed": observed.tolist(), "rows": totals[used].tolist()}
