"""Bounds the distance of a computed score from the score of the exact optimum.

The objective is 1/2 |w|^2 + 1/2 (b / beta)^2 + a convex loss, so weights whose objective is at most `gap` above the
optimum are within sqrt(2 gap) of the optimal ones. By Cauchy-Schwarz the scores of a row x differ by at most
sqrt(|x|^2 + beta^2) sqrt(2 gap). Rounding is added: m products and their sum, in any order, have an error of at most
(m + 2) u (sum_j |w_j x_j| + |b|), with u = 2^-53 (Higham 2002, section 3.1). It is counted twice, for the rounding of
the bound itself.
"""

from typing import Any

import numpy as np

__all__ = ["error_bounds"]

UNIT = 2.0**-53
"""u, the largest relative error of one operation in float64."""
SMALLEST = 2.0**-1000
"""Upper bound of the total error of 2^70 operations that underflow, 2^-1074 each."""


def error_bounds(X: Any, coef: Any, intercept: Any, gaps: Any, beta: float) -> Any:
    """Return the bound of each score: one column for each row of `coef`. `beta`: scale of the bias; 0: there is none.

    `gaps`: one for each row of `coef`, or one for all. NaN proves nothing: the bound is infinite.
    """
    absolute = abs(X)
    products = X.multiply(X) if hasattr(X, "tocsr") else X * X
    squares = np.asarray(products.sum(axis=1)).ravel()
    size = np.asarray(absolute @ np.abs(coef).T) + np.abs(intercept)
    terms = X.shape[1] + 8.0
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.sqrt(squares + beta * beta) * (1.0 + 4.0 * UNIT * terms)
        reach = lengths[:, None] * np.sqrt(2.0 * np.atleast_1d(gaps))
        bounds = (reach + 2.0 * UNIT * terms * size) * (1.0 + 16.0 * UNIT) + SMALLEST
    return np.where(np.isfinite(bounds), bounds, np.inf)
