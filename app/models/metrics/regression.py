"""Regression metrics."""

from typing import Any

import numpy as np

from app.tabular.types import Array


def regression_metrics(y: Array, predicted: Array, weight: Array | None = None) -> dict[str, Any]:
    """Return the metrics. R2 is None if all true values are equal."""
    figures: dict[str, Any] = {"rows": len(y), "mae": None, "rmse": None, "r2": None}
    if weight is not None and not weight.any():
        return figures
    with np.errstate(over="ignore"):
        misses = predicted - y
        squared = float(np.average(misses**2, weights=weight))
        spread = float(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))
        figures["mae"] = _finite(float(np.average(np.abs(misses), weights=weight)))
    figures["rmse"] = _finite(float(np.sqrt(squared)))
    if spread > 0 and np.isfinite(squared) and np.isfinite(spread):
        figures["r2"] = 1.0 - squared / spread
    return figures


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
