"""Terms of the rows in Newton's method for the logistic loss: one pass over X per point, and the line search.

With the slack s_i = -y_i f(x_i), the loss is C_i log(1 + exp(s_i)). Its derivative is alpha_i = C_i r_i with the share
r_i = 1 / (1 + exp(-s_i)), and its second derivative is C_i r_i (1 - r_i).

A second dual point at the end of a step comes from the tangent of the shares at its start: r_i + r_i (1 - r_i) (t_i -
s_i), where t_i are the slacks at the end. After an exact Newton step, H d = -gradient, the weights w(alpha) of this
dual point equal the weights at the end of the step.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.softplus import entropy_of_share, exp_of_minus, sigmoid_and_softplus
from solvers.linalg.types import Array
from solvers.methods._shared.logistic_line import logistic_derivatives
from solvers.methods.newton.row_terms import SampledRows, add_rows, add_squares, multiply, score_rows

__all__ = ["LogisticLine", "add_curved_rows", "curvatures_of", "evaluate_logistic", "search_logistic_line"]
__all__ += ["shares_of_slacks", "tangent_shares"]

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate
_LEAST_SHARE = 1e-290  # the entropy of smaller shares counts as 0
_AT_ONCE = 256  # rows per block: with 200 entries per row a block fits into the second-level cache


class LogisticLine(NamedTuple):
    """The numbers of a step from one point (t = 0) to another (t = 1) that do not depend on single rows."""

    scale: float
    """Number of rows of the data per row of the sample."""
    start_slope: float
    """Derivative of the regulariser at t = 0."""
    norm: float
    """Squared norm of the step."""
    whole_slope: float
    """Derivative of the whole objective at t = 0."""


@njit(cache=True, nogil=True)
def evaluate_logistic(
    rows: SampledRows,
    w: Array,
    first: int,
    past: int,
    slack: Array,
    before: Array,
    sums: Array,
    with_squares: bool,
    with_scores: bool,
) -> tuple[float, float]:
    """Evaluate rows `first` to `past` at w: write their slacks, unless known, and return the sum of their losses.

    Adds alpha_i y_i h_i to sums[0] and, if `with_squares`, C_i r_i (1 - r_i) h_i^2 to sums[1]. If the slacks `before`
    the step are given, adds the tangent's alpha_i y_i h_i to sums[1] and also returns the rows' part of its gap.
    """
    flat, labels, costs, constant = rows.flat, rows.labels, rows.costs, rows.constant
    d, at_once = w.size - 1, _AT_ONCE
    zeros, shares, losses = np.zeros(at_once), np.empty(at_once), np.empty(at_once)
    used, weights = np.empty(at_once + 3, np.int64), np.empty(at_once + 3)
    bias, loss, mismatch = constant * w[d], 0.0, 0.0
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
        if before.size > 0:
            tangent_shares(before[begin:end], slack[begin:end], shares[:count])
            mismatch += _mismatch(slack[begin:end], costs[begin:end], shares[:count], losses[:count])
            for k in range(count):
                weights[k] = costs[begin + k] * shares[k] * labels[begin + k]
            add_rows(flat, constant, used, weights, count, sums[1])
    return loss, mismatch


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_of_products(left: Array, right: Array) -> float:
    total = 0.0
    for k in range(left.size):
        total += left[k] * right[k]
    return total


@njit(cache=True, nogil=True, fastmath={"contract"})
def curvatures_of(slack: Array, costs: Array, rows: Array, scale: float, out: Array) -> None:
    """Write scale C_i r_i (1 - r_i) of the rows i = rows[k] into out[k]."""
    for k in range(rows.size):
        e = exp_of_minus(abs(slack[rows[k]]))
        out[k] = scale * costs[rows[k]] * e / ((1.0 + e) * (1.0 + e))


@njit(cache=True, nogil=True)
def add_curved_rows(rows: SampledRows, curvatures: Array, d: Array, first: int, past: int, out: Array) -> None:
    """Add the sum of curvature_i (h_i . d) h_i over the rows `first` to `past` to out."""
    flat, constant, at_once = rows.flat, rows.constant, _AT_ONCE
    zeros, scores = np.zeros(at_once), np.empty(at_once)
    used, weights = np.empty(at_once + 3, np.int64), np.empty(at_once + 3)
    bias = constant * d[d.size - 1]
    for begin in range(first, past, at_once):
        count = min(at_once, past - begin)
        score_rows(flat, begin, zeros[:count], bias, d, scores[:count])  # -h . d
        for k in range(count):
            weights[k], used[k] = -curvatures[begin + k] * scores[k], begin + k
        add_rows(flat, constant, used, weights, count, out)


@njit(cache=True, nogil=True, fastmath={"contract"})
def shares_of_slacks(slack: Array, out: Array) -> None:
    """Write r_i into out[i]."""
    for i in range(slack.size):
        s = slack[i]
        e = exp_of_minus(abs(s))
        out[i] = (1.0 if s >= 0.0 else e) / (1.0 + e)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def tangent_shares(slack: Array, later: Array, out: Array) -> None:
    """Write r_i + r_i (1 - r_i) (later_i - slack_i), clipped to [0, 1], to out[i]."""
    for i in range(slack.size):
        s = slack[i]
        e = exp_of_minus(abs(s))
        inverse = 1.0 / (1.0 + e)
        share = (1.0 if s >= 0.0 else e) * inverse + e * inverse * inverse * (later[i] - s)
        out[i] = min(max(share, 0.0), 1.0)


@njit(cache=True, nogil=True, fastmath=_SUM, error_model="numpy")
def _mismatch(slack: Array, costs: Array, shares: Array, losses: Array) -> float:
    """Return the sum of C_i (loss + conjugate of the share - share s_i): the rows' part of the gap of these shares."""
    total = 0.0
    for k in range(slack.size):
        smaller = min(shares[k], 1.0 - shares[k])
        entropy = entropy_of_share(smaller) if smaller > _LEAST_SHARE else 0.0
        total += costs[k] * (losses[k] - entropy - shares[k] * slack[k])
    return total


@njit(cache=True, nogil=True)
def search_logistic_line(slack: Array, trial: Array, costs: Array, line: LogisticLine) -> float:
    """Return the t that minimises the objective on the line from the slacks `slack` to `trial`.

    Newton's method, kept inside a bracket, finds the zero of the derivative. `trial` becomes the slacks at t.
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
