"""Fits the calibration curves of app/models/calibration.py to the scores of held-out rows.

Platt's sigmoid is fitted as in Lin, Lin and Weng (2007): Newton steps with a line search on a convex function, with
targets slightly inside 0 and 1.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

import solvers
from app.datasets.arrays import DatasetArrays
from app.datasets.schemas import Label
from app.models import metrics
from app.models.calibration import Argument, Calibration, Method, margins, sigmoid
from app.tabular.types import Array
from app.worker.train.load import Work
from app.worker.train.result_metrics import labels_of

ISOTONIC_ROWS = 1000
"""Minimum rows of each class for which isotonic calibration is the default; with fewer rows Platt's sigmoid is. Larger:
more models get a sigmoid. An isotonic curve of few rows overfits; scikit-learn's guide gives about 1000."""

JOINT_STRATEGIES = ("crammer_singer", "multinomial")
"""Strategies that train the classes jointly: only differences of their scores are meaningful."""

NEWTON_STEPS = 100
"""Maximum Newton steps of the fit of Platt's sigmoid. Larger: longer fits where the method converges slowly. From Lin,
Lin and Weng (2007)."""
SMALLEST_STEP = 1e-10
"""Smallest step of the line search, as a fraction of the Newton step; a smaller step ends the fit. Larger: the fit ends
earlier. From Lin, Lin and Weng (2007)."""
RIDGE = 1e-12
"""Number added to the diagonal of the Hessian, which can be singular. Larger: shorter Newton steps. From Lin, Lin and
Weng (2007)."""


class Calibrated(NamedTuple):
    calibration: Calibration
    told: dict[str, Any]
    """Description for the model's card."""


def calibration_of(work: Work, result: solvers.SolveResult, held_out_scores: Array | None) -> Calibrated | None:
    """Fit the calibration that the job asks for; logistic loss has one without a fit. None: there is none."""
    classes = labels_of(work.train, result)
    if held_out_scores is None or not work.request.calibrate:
        return of_logistic_loss(result.strategy, len(classes)) if result.loss == "logistic" else None
    return calibrated(work.request.calibrate, result.strategy, work.train, classes, held_out_scores)


def calibrated(
    wanted: bool | Method, strategy: str | None, rows: DatasetArrays, classes: list[Label], held_out_scores: Array
) -> Calibrated | None:
    """Fit the calibration of a model; None if there are too few scores.

    `held_out_scores`: the score of each row while it was held out; NaN: the row was not held out, because the job was
    finished early.
    """
    is_scored = np.isfinite(held_out_scores.reshape(len(rows.y), -1)).all(axis=1)
    scores, codes = held_out_scores[is_scored], rows.codes(classes)[is_scored]
    weight = None if rows.weight is None else rows.weight[is_scored]
    counts = np.bincount(codes, weight, minlength=len(classes))
    if (counts <= 0.0).any():
        return None
    argument: Argument = "margin" if strategy in JOINT_STRATEGIES else "score"
    calibration = fit_calibration(None if wanted is True else wanted or None, argument, scores, codes, weight)
    told = metrics.probability_metrics(codes, calibration.probabilities(scores), weight)
    return Calibrated(calibration, {"method": calibration.method, "rows": len(codes), "held_out": told})


def of_logistic_loss(strategy: str | None, n_classes: int) -> Calibrated:
    """Return the calibration of logistic loss, whose scores imply probabilities without a fit."""
    if strategy == "multinomial":
        calibration = Calibration("softmax", "score", {})
    else:
        curves = 1 if strategy is None else n_classes
        calibration = Calibration("platt", "score", {"slope": np.ones(curves), "shift": np.zeros(curves)})
    return Calibrated(calibration, {"method": "logistic", "rows": 0, "held_out": None})


def fit_calibration(
    method: Method | None, argument: Argument, scores: Array, codes: Array, weight: Array | None = None
) -> Calibration:
    """Fit a calibration to scores and class numbers of rows. A method of None is chosen by the number of rows."""
    counted = np.ones(len(codes)) if weight is None else np.asarray(weight, dtype=np.float64)
    if method is None:
        method = "isotonic" if np.bincount(codes).min() >= ISOTONIC_ROWS else "platt"
    if scores.ndim == 1:
        problems = [(scores, codes == 1)]
    else:
        arguments = margins(scores) if argument == "margin" else scores
        problems = [(arguments[:, k], codes == k) for k in range(scores.shape[1])]
    if method == "platt":
        fitted = np.array([_fit_platt(f, positive, counted) for f, positive in problems])
        return Calibration(method, argument, {"slope": fitted[:, 0], "shift": fitted[:, 1]})
    curves = [_fit_isotonic(f, positive, counted) for f, positive in problems]
    starts = np.cumsum([0, *(len(points) for points, _ in curves)], dtype=np.int64)
    points, values = (np.concatenate([curve[part] for curve in curves]) for part in (0, 1))
    return Calibration(method, argument, {"scores": points, "values": values, "starts": starts})


def _targets(positive: Array, weight: Array) -> tuple[float, float]:
    """Return the targets of negative and positive rows: the smoothed labels of Platt's method."""
    hits, misses = float(weight[positive].sum()), float(weight[~positive].sum())
    return 1.0 / (misses + 2.0), (hits + 1.0) / (hits + 2.0)


def _fit_platt(f: Array, positive: Array, weight: Array) -> tuple[float, float]:
    """Return (slope, shift). A negative slope would reverse the ranking, so it is replaced by a constant curve."""
    low, high = _targets(positive, weight)
    target = np.where(positive, high, low)
    centre = float(np.average(f, weights=weight))
    spread = float(np.sqrt(np.average((f - centre) ** 2, weights=weight)))
    if spread > 0.0:
        z = (f - centre) / spread
        slope, shift = _newton(z, target, weight)
        if slope > 0.0:
            return slope / spread, shift - slope * centre / spread
    share = float(np.average(target, weights=weight))
    return 0.0, float(np.log(share / (1.0 - share)))


def _newton(z: Array, target: Array, weight: Array) -> tuple[float, float]:
    def value(slope: float, shift: float) -> float:
        t = slope * z + shift
        return float((weight * (np.logaddexp(0.0, t) - target * t)).sum())

    share = float(np.average(target, weights=weight))
    slope, shift = 0.0, float(np.log(share / (1.0 - share)))
    reached = value(slope, shift)
    for _ in range(NEWTON_STEPS):
        p = sigmoid(slope * z + shift)
        error, curvature = weight * (p - target), weight * p * (1.0 - p)
        gradient = np.array([(error * z).sum(), error.sum()])
        if np.abs(gradient).max() <= 1e-10 * weight.sum():
            break
        a, b, c = (curvature * z * z).sum() + RIDGE, (curvature * z).sum(), curvature.sum() + RIDGE
        step = -np.array([c * gradient[0] - b * gradient[1], a * gradient[1] - b * gradient[0]]) / (a * c - b * b)
        length = 1.0
        while length >= SMALLEST_STEP:
            tried = value(slope + length * step[0], shift + length * step[1])
            if tried < reached + 1e-4 * length * float(gradient @ step):
                break
            length /= 2.0
        else:
            break
        slope, shift, reached = slope + length * float(step[0]), shift + length * float(step[1]), tried
    return slope, shift


def _fit_isotonic(f: Array, positive: Array, weight: Array) -> tuple[Array, Array]:
    """Return (scores, values) of the points of the curve: both ends of each constant piece of the fit."""
    counted = weight > 0.0
    points, place = np.unique(f[counted], return_inverse=True)
    totals = np.bincount(place, weight[counted])
    shares = np.bincount(place, np.where(positive, weight, 0.0)[counted]) / totals
    level = isotonic_regression(shares, weights=totals).x
    low, high = _targets(positive, weight)
    values = np.clip(level, low, max(low, high))
    rises = np.diff(values) > 0.0
    is_end = np.append(True, rises) | np.append(rises, True)
    return points[is_end], values[is_end]
