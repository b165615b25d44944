"""Computes the direction of a Newton step on the features, as one kernel, because the overhead of separate numpy calls
took longer than the work."""

import numpy as np
from numba import njit

from solvers.linalg.cholesky import factor_in_place, solve_in_place
from solvers.linalg.tiles import WIDE, panels_of
from solvers.linalg.types import Array, Floats

__all__ = ["empty_factor", "factor_hessian", "factor_raised", "newton_direction"]

RAISES = (0.0, 1e-13, 1e-11, 1e-9, 1e-7)
"""Fractions of the diagonal that are added to a matrix which rounding errors make indefinite. They are tried in this
order until the matrix is positive definite. Larger: shorter steps."""


def empty_factor(k: int) -> Floats:
    """Return an empty factor of order k for `factor_hessian`."""
    panels = panels_of(k)
    return np.zeros((panels, panels * WIDE, WIDE))


def factor_raised(gram: Floats, squares: Floats, of_sample: bool, ridge: Floats) -> Floats:
    """Factor R + gram like `factor_hessian`. If the matrix is not positive definite, add the least fraction of RAISES
    to its diagonal that makes it so."""
    factor = empty_factor(ridge.size)
    for more in RAISES:
        raised = gram + np.diag(more * gram.diagonal()) if more > 0.0 else gram
        if factor_hessian(raised, 1.0, 1.0, squares, 0.0, of_sample, ridge, factor):
            return factor
    raise np.linalg.LinAlgError("the matrix is not positive definite, even with 1e-7 of its diagonal added")


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
    """Solve (R + curvature gram) direction = -gradient, with R = diag(ridge); return False if rounding prevents it."""
    k, panels = ridge.size, panels_of(ridge.size)
    factor, x = np.zeros((panels, panels * WIDE, WIDE)), np.zeros(panels * WIDE)
    if not factor_hessian(gram, curvature, wide, squares, least_share, of_sample, ridge, factor):
        return False
    x[:k] = gradient
    solve_in_place(factor, x)
    for j in range(k):
        direction[j] = -x[j]
    return True


@njit(cache=True, nogil=True)
def factor_hessian(
    gram: Array,
    curvature: float,
    wide: float,
    squares: Array,
    least_share: float,
    of_sample: bool,
    ridge: Array,
    factor: Array,
) -> bool:
    """Factor R + curvature gram, with R = diag(ridge), in panels (cholesky.py); return False if rounding prevents it.

    If gram is `of_sample`, its diagonal is replaced by squares / wide, which come from all rows, and its other entries
    are scaled to match. Otherwise a rare column that the sample lacks would have no curvature. With a `least_share`,
    each column has at least this fraction of the median curvature. Otherwise a step could jump over the kinks of rows
    in columns with few curved rows. A column without curvature and without ridge (that of a free bias) gets
    curvature 1.
    """
    k, panels = ridge.size, panels_of(ridge.size)
    factor[:] = 0.0
    stretch = np.ones(k)
    diagonal = np.empty(k)
    for j in range(k):
        diagonal[j] = squares[j] / wide if of_sample else curvature * gram[j, j]
        if of_sample:
            stretch[j] = np.sqrt(diagonal[j] / (curvature * gram[j, j])) if gram[j, j] > 0.0 else 0.0
    if least_share > 0.0:
        has_rows = squares > 0.0
        if has_rows.any():
            usual = np.median(diagonal[has_rows] / squares[has_rows])
            for j in range(k):
                diagonal[j] = max(diagonal[j], least_share * usual * squares[j])
    for j in range(k):
        scale, ends_own = curvature * stretch[j], j // WIDE * WIDE + WIDE
        for i in range(j + 1, min(ends_own, k)):
            factor[j // WIDE, j, i % WIDE] = scale * stretch[i] * gram[j, i]
        for panel in range(ends_own // WIDE, k // WIDE):
            for c in range(WIDE):
                factor[panel, j, c] = scale * stretch[panel * WIDE + c] * gram[j, panel * WIDE + c]
        for i in range(max(ends_own, k // WIDE * WIDE), k):
            factor[panels - 1, j, i % WIDE] = scale * stretch[i] * gram[j, i]
        diagonal[j] += ridge[j]
        factor[j // WIDE, j, j % WIDE] = 1.0 if ridge[j] == 0.0 and diagonal[j] <= 0.0 else diagonal[j]
    for j in range(k, panels * WIDE):
        factor[j // WIDE, j, j % WIDE] = 1.0
    return factor_in_place(factor)
