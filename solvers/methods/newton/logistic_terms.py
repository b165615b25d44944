"""The terms of rows for Newton's method on the logistic loss: one read of X for each point, and the search of a line.

With the slack s_i = -y_i f(x_i), the loss is C_i log(1 + exp(s_i)), its slope alpha_i = C_i r_i with the share
r_i = 1 / (1 + exp(-s_i)), and its curvature C_i r_i (1 - r_i).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.softplus import exp_of_minus, sigmoid_and_softplus
from solvers.linalg.types import Array
from solvers.methods._shared.logistic_line import logistic_derivatives
from solvers.methods.newton.row_terms import SampledRows, add_rows, add_squares, multiply, score_rows

__all__ = ["LogisticLine", "curvatures_of", "evaluate_logistic", "search_logistic_line", "shares_of_slacks"]

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity
_AT_ONCE = 256  # rows of a block: with 200 entries a row they fit into the second-level cache


class LogisticLine(NamedTuple):
    """A step from a point (at 0) to another (at 1), apart from the rows."""

    scale: float
    """Rows of the data for each row of the sample."""
    start_slope: float
    """The derivative of the regulariser at 0."""
    norm: float
    """The squared length of the step."""
    whole_slope: float
    """The derivative of the objective at 0."""


@njit(cache=True, nogil=True)
def evaluate_logistic(
    rows: SampledRows,
    w: Array,
    first: int,
    past: int,
    slack: Array,
    sums: Array,
    with_squares: bool,
    with_scores: bool,
) -> float:
    """Read rows `first` to `past` at w: set their slacks, unless known, and return the sum of their losses.

    sums[0] += alpha_i y_i h_i; sums[1] += C_i r_i (1 - r_i) h_i^2 if `with_squares`.
    """
    flat, labels, costs, constant = rows.flat, rows.labels, rows.costs, rows.constant
    d, at_once = w.size - 1, _AT_ONCE
    zeros, shares, losses = np.zeros(at_once), np.empty(at_once), np.empty(at_once)
    used, weights = np.empty(at_once + 3, np.int64), np.empty(at_once + 3)
    bias, loss = constant * w[d], 0.0
    for begin in range(first, past, at_once):
        count = min(at_once, past - begin)
        end = begin + count
        if with_scores:
            score_rows(flat, begin, zeros[:count], bias, w, slack[begin:end])  # -f(x)
            multiply(labels[begin:end], slack[begin:end])
        sigmoid_and_softplus(slack[begin:end], shares[:count], losses[:count])
        loss += _sum_of_products(costs[begin:end], losses[:count])
        for k in range(count):
            weights[k], used[k] = costs[begin + k] * shares[k] * labels[begin + k], begin + k
        add_rows(flat, constant, used, weights, count, sums[0])
        if with_squares:
            for k in range(count):
                weights[k] = costs[begin + k] * shares[k] * (1.0 - shares[k])
            add_squares(flat, constant, used, weights, count, sums[1])
    return loss


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_of_products(left: Array, right: Array) -> float:
    total = 0.0
    for k in range(left.size):
        total += left[k] * right[k]
    return total


@njit(cache=True, nogil=True, fastmath={"contract"})
def curvatures_of(slack: Array, costs: Array, rows: Array, scale: float, out: Array) -> None:
    """out[k] = scale C_i r_i (1 - r_i) of the rows i = rows[k]"""
    for k in range(rows.size):
        e = exp_of_minus(abs(slack[rows[k]]))
        out[k] = scale * costs[rows[k]] * e / ((1.0 + e) * (1.0 + e))


@njit(cache=True, nogil=True, fastmath={"contract"})
def shares_of_slacks(slack: Array, out: Array) -> None:
    """out[i] = r_i"""
    for i in range(slack.size):
        s = slack[i]
        e = exp_of_minus(abs(s))
        out[i] = (1.0 if s >= 0.0 else e) / (1.0 + e)


@njit(cache=True, nogil=True)
def search_logistic_line(slack: Array, trial: Array, costs: Array, line: LogisticLine) -> float:
    """Return where on the line from slacks `slack` to `trial` the objective is least; `trial` becomes the slacks there.

    Newton's method finds the zero of the derivative, kept inside a bracket.
    """
    near, far, t = 0.0, np.inf, 1.0
    steepest = abs(line.whole_slope)
    for _ in range(60):
        slope, curvature = logistic_derivatives(slack, trial, costs, t)
        slope = line.start_slope + t * line.norm + line.scale * slope
        curvature = line.norm + line.scale * curvature
        if slope > 0.0:
            far = t
        else:
            near = t
        if abs(slope) <= 1e-2 * steepest or (far < np.inf and far - near <= 1e-12 * far):
            break
        guess = t - slope / curvature if curvature > 0.0 else np.inf
        if far == np.inf:
            guess = min(guess, 10.0 * t)
        elif not near < guess < far:
            guess = 0.5 * (near + far)
        t = guess
    for i in range(slack.size):
        trial[i] = slack[i] + t * (trial[i] - slack[i])
    return t
