"""Conjugate gradients on the face of the dual box that coordinate descent has found.

Coordinate descent settles quickly which alpha_i are at a bound, but can creep for ever among those between
their bounds when rows repeat or nearly agree. With the bounded ones held fixed, what is left is a linear
system; solving it takes few products with X where descent takes millions of steps. (Moré and Toraldo, 1991,
alternate the two in the same way, with projected gradients in the place of coordinate descent.)

Maximised is  sum_i (alpha_i - 1/2 D_i alpha_i^2) - 1/2 |w(alpha)|^2  over  0 <= alpha <= upper.
"""

import numpy as np

from .problem import BinaryProblem
from .rows import Floats

__all__ = ["ascend_on_face"]


def ascend_on_face(
    problem: BinaryProblem, diagonal: Floats, upper: Floats, alpha: Floats, w: Floats, reads: int
) -> tuple[Floats, Floats, int]:
    """A better (alpha, w), or the same ones if none was found, and how often X was read: at most `reads` times."""
    used = 1
    gradient = _margins_of(problem, w) - 1.0 + diagonal * alpha
    free = (alpha > 0.0) & (alpha < upper)
    step = np.zeros_like(alpha)
    residual = np.where(free, -gradient, 0.0)
    direction = residual
    left = initial = _dot(residual, residual)
    while used + 4 <= reads and left > 1e-24 * initial:
        used += 2
        image = problem.weights_of(direction)
        product = np.where(free, _margins_of(problem, image) + diagonal * direction, 0.0)
        curvature = _dot(direction, product)
        length = np.sqrt(_dot(direction, direction))
        if curvature <= 1e-14 * length * np.sqrt(_dot(product, product)):
            # Flat: uphill as far as the box allows, which is less than its diagonal.
            step = step + direction * (1.0 + _dot(upper[free], upper[free])) / length
            break
        step = step + left / curvature * direction
        residual = residual - left / curvature * product
        before, left = left, _dot(residual, residual)
        direction = residual + left / before * direction

    best = _value(diagonal, alpha, w), alpha, w
    for candidate in _within_box(alpha, step, upper):
        used += 1
        image = problem.weights_of(candidate)
        value = _value(diagonal, candidate, image)
        if value > best[0]:
            best = value, candidate, image
    return best[1], best[2], used


def _within_box(alpha: Floats, step: Floats, upper: Floats) -> list[Floats]:
    """The step cut off where it leaves the box, and if it does leave, also the step projected onto the box."""
    room = np.full_like(alpha, np.inf)
    np.divide(upper - alpha, step, out=room, where=step > 0.0)
    np.divide(-alpha, step, out=room, where=step < 0.0)
    first = int(room.argmin())
    if room[first] >= 1.0:
        return [alpha + step]
    cut = np.clip(alpha + room[first] * step, 0.0, upper)
    cut[first] = upper[first] if step[first] > 0.0 else 0.0
    return [cut, np.clip(alpha + step, 0.0, upper)]


def _margins_of(problem: BinaryProblem, w: Floats) -> Floats:
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(w[:-1], scores)
    return np.asarray(problem.signs * (scores + problem.bias_feature * w[-1]))


def _value(diagonal: Floats, alpha: Floats, w: Floats) -> float:
    return float((alpha * (1.0 - 0.5 * diagonal * alpha)).sum()) - 0.5 * _dot(w, w)


def _dot(a: Floats, b: Floats) -> float:
    return float((a * b).sum())
