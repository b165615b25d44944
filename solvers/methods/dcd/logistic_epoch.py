"""Kernels of dual coordinate descent for logistic loss: safeguarded Newton steps in one alpha_i after another.

Each row stores its log-odds t_i = log(alpha_i / (C_i - alpha_i)) in addition to alpha_i = C_i sigma(t_i). The dual is
stationary in alpha_i if t_i = -y_i f(x_i), so its gradient is g = y_i f(x_i) + t_i. This needs no logarithm and has no
cancellation, even if alpha_i is 1e-300 of C_i or close to C_i. With K = C_i |x_i|^2, the step of a row solves

    h(t) = t + K sigma(t) - c = 0,    c = t_i + K sigma(t_i) - g.

h is increasing. Newton's method in t never passes the root from the side where K sigma is the smaller part of h.
Newton's method in alpha, the substitution of Yu, Huang and Lin (2011), never passes it from the other side. The larger
of the two parts of h' decides which one is used. The row's term of the gap is C times the Bregman divergence of log(1 +
exp(.)) between -y_i f(x_i) and t_i. Other symbols are those of dual_problem.py.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.prefetch import AHEAD, LINE, prefetch
from solvers.linalg.rng import shuffle
from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array
from solvers.methods.dcd.dual_problem import DualTerms
from solvers.methods.dcd.proximal_bias import bias_share

__all__ = [
    "LogisticPoint",
    "LogisticSweep",
    "entropy_sum",
    "log_odds",
    "run_epoch",
    "sigma",
    "solve_first",
    "solve_row",
]

_FAR, _NEAR = 8, 3  # prefetch distance, in rows: of a row's numbers, then of its entries
_SEGMENTS = 4
"""Number of segments of an epoch. The proximal centre of the bias moves before each segment. Larger: the bias adapts
faster, with more work per epoch. Set by hand; no measurement is recorded."""
_ENOUGH = 0.01
"""The Newton iterations of a row end when the gradient is this fraction of its first value. Smaller: more exponentials
per row without fewer epochs. Set by hand; no measurement is recorded."""
_SHORT = 0.3
"""Newton steps up to this length in t are taken in t, because the step in alpha would be nearly the same. Larger: steps
pass the root more often. Set by hand; no measurement is recorded."""
_TINY = 0.05
"""For steps in t up to this length, the corrected trapezoidal rule computes the change of the entropy, with an error
below 1e-10. Larger: fewer logarithms, larger errors."""
_MOST_STEPS = 40
"""Maximum Newton steps of a row. Bisection replaces slow Newton steps, so this limit is not reached in practice."""
_NEAR_ROOT = 0.5
"""Largest gradient for which a row's term of the gap is computed by its Taylor series, with an error below 1 %. Larger:
fewer exponentials, larger errors."""
_SETTLED = 1e-14
"""A gradient y_i f(x_i) + t_i of at most this fraction of |y_i f(x_i)| + |t_i| counts as rounding error. Larger: less
precise results. Set by hand; no measurement is recorded."""


class LogisticPoint(NamedTuple):
    """The variables that a step changes."""

    alpha: Array
    logits: Array
    """t_i; undefined where alpha_i = 0."""
    w: Array
    """sum_i alpha_i y_i x_i; the last entry is bias_feature * S."""
    balance: Array
    """[b, S]; see proximal_bias.py."""


class LogisticSweep(NamedTuple):
    """Sums over the visits of some rows."""

    gap: float
    """Sum of the rows' terms of the gap, each before the row's step."""
    entropy: float
    """Increase of the sum of C H(alpha / C), the part of the dual that does not depend on w."""
    updates: int


@njit(cache=True, nogil=True)
def run_epoch(
    terms: DualTerms, point: LogisticPoint, order: Array, random_state: Array, together: int, pull: float
) -> LogisticSweep:
    """Visit all rows once, in a new random order; move the proximal centre of the bias _SEGMENTS times."""
    balance, w = point.balance, point.w
    shuffle(order, order.size, together, random_state)
    share = bias_share(terms.bias_feature, pull)
    gap, entropy, updates, past = 0.0, 0.0, 0, 0
    for k in range(1, _SEGMENTS + 1):
        first, past = past, order.size * k // _SEGMENTS
        balance[0] = share * (balance[1] + pull * balance[0])
        sweep = _descend(terms, point, order[first:past], share)
        gap, entropy, updates = gap + sweep.gap, entropy + sweep.entropy, updates + sweep.updates
    w[w.size - 1] = terms.bias_feature * balance[1]
    return LogisticSweep(gap, entropy, updates)


@njit(cache=True, nogil=True, error_model="numpy")
def _descend(terms: DualTerms, point: LogisticPoint, rows: Array, share: float) -> LogisticSweep:
    """Take a step in the alpha of each row, in this order."""
    values, columns, starts = terms.rows
    constants = terms.constants
    alpha, logits, w, balance = point
    dense = starts.size == 0
    d = w.size - 1
    gap, entropy, updates = 0.0, 0.0, 0
    a_line = LINE // values.itemsize
    for s in range(rows.size):
        # A random row is a cache miss in every array: prefetch the rows ahead while this one is processed.
        if s + _FAR < rows.size:
            ahead = rows[s + _FAR]
            prefetch(alpha, ahead)
            prefetch(logits, ahead)
            prefetch(constants, 4 * ahead)
            if not dense:
                prefetch(starts, ahead)
        if s + _NEAR < rows.size:
            ahead = rows[s + _NEAR]
            start = ahead * d if dense else starts[ahead]
            stop = min(start + d if dense else starts[ahead + 1], start + AHEAD)
            for k in range(start, stop, a_line):
                prefetch(values, k)
            if not dense:
                for k in range(start, stop, LINE // columns.itemsize):
                    prefetch(columns, k)
        i = rows[s]
        y, C, Q = constants[i, 0], constants[i, 1], constants[i, 3] + share
        a, b = alpha[i], balance[0]
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = dot_dense(values[first:past], w) if dense else dot_sparse(values, columns, first, past, w)
        margin = y * (score + b)
        if a == 0.0:
            t = -margin
            p, loss = _sigma_and_softplus(t)
            gap += C * loss
            new_t, new_p = solve_first(t, p, C * Q)
        else:
            t, p, loss = logits[i], a / C, 0.0
            g = margin + t
            gap += C * _divergence(t, p, -g)
            if abs(g) <= _SETTLED * (abs(margin) + abs(t)):
                continue
            new_t, new_p = solve_row(t, p, g, C * Q)
        new_a = C * new_p
        change = (new_a - a) * y
        logits[i] = new_t
        if change != 0.0:
            # conj(alpha) = alpha t - C log(1 + exp(t)); the loss at t counts where alpha was 0
            entropy += C * (loss + _softplus_change(t, p, new_t, new_p)) - (new_a * new_t - a * t)
            updates += 1
            alpha[i] = new_a
            balance[0] = b + share * change
            balance[1] += change
            if dense:
                add_dense(values[first:past], change, w)
            else:
                add_sparse(values, columns, first, past, change, w)
    return LogisticSweep(gap, entropy, updates)


@njit(cache=True, nogil=True, error_model="numpy")
def solve_first(t: float, p: float, K: float) -> tuple[float, float]:
    """Solve h(t) = 0 for a row with alpha_i = 0 from t = -y_i f(x_i), where p = sigma(t) and h(t) = K p."""
    length = -K * p / (1.0 + K * p * (1.0 - p))
    if abs(length) <= _SHORT:
        x = t + length
        sx = sigma(x)
        if abs(length + K * sx) <= _ENOUGH * K * p:
            return x, sx
    return solve_row(t, 0.0, 0.0, K)


@njit(cache=True, nogil=True, error_model="numpy")
def solve_row(t: float, p: float, g: float, K: float) -> tuple[float, float]:
    """Solve h(t) = 0 from t, where p = sigma(t) and g = h(t); return the root and its sigma.

    With p = 0 the row has alpha_i = 0, t is -y_i f(x_i), and h(t) = K sigma(t).
    """
    enough = _ENOUGH * abs(g)
    length = -g / (1.0 + K * p * (1.0 - p))
    if p > 0.0 and abs(length) <= _SHORT:
        x = t + length
        sx = sigma(x)
        if abs(g + length + K * (sx - p)) <= enough:
            return x, sx
    c = t + K * p - g  # the root is between c - K and c, on the side of 0 where h changes its sign
    is_negative = c <= 0.5 * K
    low, high = (c - K, min(c, 0.0)) if is_negative else (max(c - K, 0.0), c)
    x = min(max(t, low), high)
    if not p > 0.0:
        enough = _ENOUGH * min(1.0, K)
    for _ in range(_MOST_STEPS):
        sx = sigma(x)
        h = x - c + K * sx
        if abs(h) <= enough:
            break
        if h > 0.0:
            high = x
        else:
            low = x
        slope = K * sx * (1.0 - sx)
        length = -h / (1.0 + slope)
        moved = sx + sx * (1.0 - sx) * length
        if slope > 1.0 and abs(length) > _SHORT and 0.0 < moved < 1.0:
            x = np.log(moved / (1.0 - moved))
        else:
            x += length
        if not low < x < high:
            x = 0.5 * (low + high)
    else:
        sx = sigma(x)
    return x, sx


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def sigma(t: float) -> float:
    """Return 1 / (1 + exp(-t)), precise even for very large |t|."""
    small = np.exp(-abs(t))
    return float(1.0 / (1.0 + small) if t >= 0.0 else small / (1.0 + small))


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _sigma_and_softplus(t: float) -> tuple[float, float]:
    small = np.exp(-abs(t))
    share = 1.0 / (1.0 + small) if t >= 0.0 else small / (1.0 + small)
    return share, max(t, 0.0) + np.log1p(small)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _softplus(t: float) -> float:
    """Return log(1 + exp(t))."""
    return float(max(t, 0.0) + np.log1p(np.exp(-abs(t))))


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _softplus_change(t: float, p: float, new_t: float, new_p: float) -> float:
    """Return log(1 + exp(new_t)) - log(1 + exp(t)); for small steps by the corrected trapezoidal rule."""
    length = new_t - t
    if abs(length) > _TINY:
        return _softplus(new_t) - _softplus(t)
    return length * (0.5 * (p + new_p) - length / 12.0 * (new_p * (1.0 - new_p) - p * (1.0 - p)))


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _divergence(t: float, p: float, d: float) -> float:
    """Return log(1 + exp(t + d)) - log(1 + exp(t)) - sigma(t) d, which is >= 0."""
    if abs(d) > _NEAR_ROOT:
        return max(0.0, _softplus(t + d) - _softplus(t) - p * d)
    spread = p * (1.0 - p)
    return 0.5 * spread * d * d * (1.0 + d / 3.0 * (1.0 - 2.0 * p) + d * d / 12.0 * (1.0 - 6.0 * spread))


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def entropy_sum(alpha: Array, costs: Array) -> float:
    """Return sum_i C_i H(alpha_i / C_i)."""
    total = 0.0
    for i in range(alpha.size):
        share = min(alpha[i], costs[i] - alpha[i])
        if share > 0.0:
            share /= costs[i]
            total -= costs[i] * (share * np.log(share) + (1.0 - share) * np.log1p(-share))
    return total


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def log_odds(alpha: Array, costs: Array, out: Array) -> None:
    """Write log(alpha_i / (C_i - alpha_i)) to out[i]; finite even at the bounds."""
    for i in range(alpha.size):
        rest = max(costs[i] - alpha[i], 1e-17 * costs[i])
        out[i] = np.log(alpha[i] / rest) if alpha[i] > 0.0 else 0.0
