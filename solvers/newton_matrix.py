"""The direction of a Newton step on the features: one kernel, since numpy's calls took longer than their work."""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .cholesky import factor_in_place, solve_in_place

__all__ = ["newton_direction"]

Array = NDArray[Any]

_BLOCK = 12  # columns of the factor that are finished at once: with 48 an order of 301 takes half as long again


@njit(cache=True, nogil=True)
def newton_direction(
    gram: Array,
    curvature: float,
    wide: float,
    squares: Array,
    least_share: float,
    of_sample: bool,
    ridge: Array,
    gradient: Array,
    direction: Array,
) -> bool:
    """Solve (R + curvature gram) direction = -gradient, with R = diag(ridge); False if rounding prevents it.

    Of a matrix `of_sample` the diagonal is replaced by squares / wide, which are of all rows, and the rest scaled like
    it: a rare column that the sample has not seen would be taken for flat. With a `least_share`, columns that lack rows
    between the kinks are given that part of the usual curvature: a step that knows nothing of the kinks of all
    their other rows would leap over them. A place without curvature and without ridge, a free bias's, gets 1.
    """
    k = ridge.size
    order = -(-k // _BLOCK) * _BLOCK
    factor, x, stretch = np.zeros((order, order)), np.zeros(order), np.ones(k)
    if of_sample:
        for j in range(k):
            own = curvature * gram[j, j]
            stretch[j] = np.sqrt(squares[j] / wide / own) if gram[j, j] > 0.0 else 0.0
    for i in range(k):
        for j in range(i, k):
            factor[j, i] = curvature * gram[i, j] * (stretch[i] * stretch[j])
        if of_sample:
            factor[i, i] = squares[i] / wide
    if least_share > 0.0:
        has_rows = squares > 0.0
        if has_rows.any():
            usual = np.median(np.diag(factor)[:k][has_rows] / squares[has_rows])
            for j in range(k):
                factor[j, j] = max(factor[j, j], least_share * usual * squares[j])
    for j in range(order):
        factor[j, j] += ridge[j] if j < k else 1.0
        if j < k and ridge[j] == 0.0 and factor[j, j] <= 0.0:
            factor[j, j] = 1.0
    if not factor_in_place(factor, _BLOCK):
        return False
    x[:k] = gradient
    solve_in_place(factor, x)
    for j in range(k):
        direction[j] = -x[j]
    return True
