"""The rows between their bounds, moved together: conjugate gradients where coordinate descent creeps.

Descent settles quickly which alphas are at a bound. Among those that are not, it passes errors to and fro where rows
nearly agree, and takes as many epochs as the condition of their matrix says; conjugate gradients take the root of that.
With the others held, some steps of those lead to a direction. Bounds are not looked at before: of thousands of rows
some would end every step at once. The point is moved along the direction as far as the dual rises by it, each alpha up
to its bound; descent goes on from there. Only the rows between their bounds are read.
"""

import numpy as np
from numba import njit

from solvers.linalg.prefetch import ask_ahead
from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array

__all__ = ["MOST_READS", "climb", "combine"]


_STEPS = 12  # of conjugate gradients; from more of them less is left after bounds were met
_SETTLED = 1e-4  # what is left of the squared residual when they end earlier
_SHORTER, _TRIALS = 0.4, 8  # along the direction


MOST_READS = 1 + 2 * _STEPS + _TRIALS
"""How often the rows may be read in a climb."""


@njit(cache=True, nogil=True)
def climb(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    bias_feature: float,
    alpha: Array,
    w: Array,
    balance: Array,
) -> int:
    """Raise the dual by all alphas between their bounds at once; if it does rise, w and balance, with b where S has
    it, follow. Returns how many rows were read.
    """
    d = w.size - 1
    rows = _between(constants, bias_feature * bias_feature, alpha)
    m = rows.size
    p, r, z, s, q, u = np.zeros(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.zeros(d + 1)
    w[d] = bias_feature * balance[1]
    _products(values, columns, starts, constants, bias_feature, rows, w, r)
    product = 0.0
    for k in range(m):
        i = rows[k]
        r[k] = 1.0 - r[k] - constants[i, 2] * alpha[i]
        z[k] = r[k] / (constants[i, 3] + bias_feature * bias_feature)
        s[k] = z[k]
        product += r[k] * z[k]
    enough, read = _SETTLED * product, m
    for _ in range(_STEPS):
        if not product > enough:
            break
        u[:] = 0.0
        combine(values, columns, starts, constants, bias_feature, rows, s, u)
        _products(values, columns, starts, constants, bias_feature, rows, u, q)
        read += 2 * m
        curvature, square = 0.0, 0.0
        for k in range(m):
            i = rows[k]
            q[k] += constants[i, 2] * s[k]
            curvature += s[k] * q[k]
            square += s[k] * s[k] * (constants[i, 3] + bias_feature * bias_feature)
        if not curvature > 1e-12 * square:  # flat
            break
        length, before, product = product / curvature, product, 0.0
        for k in range(m):
            p[k] += length * s[k]
            r[k] -= length * q[k]
            z[k] = r[k] / (constants[rows[k], 3] + bias_feature * bias_feature)
            product += r[k] * z[k]
        for k in range(m):
            s[k] = z[k] + product / before * s[k]
    return read + _move(values, columns, starts, constants, bias_feature, rows, p, q, s, alpha, w, balance)


@njit(cache=True, nogil=True)
def _move(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    bias_feature: float,
    rows: Array,
    p: Array,
    change: Array,
    best: Array,
    alpha: Array,
    w: Array,
    balance: Array,
) -> int:
    """Go along p, each alpha as far as its bound, to the best of some lengths; rows read."""
    m, d = rows.size, w.size - 1
    u, u_best = np.empty(d + 1), np.zeros(d + 1)
    read, highest, length = 0, 0.0, 1.0
    for _ in range(_TRIALS):
        gain = 0.0
        for k in range(m):
            i = rows[k]
            D = constants[i, 2]
            change[k] = min(max(alpha[i] + length * p[k], 0.0), _top(constants, i)) - alpha[i]
            gain += change[k] * (1.0 - D * (alpha[i] + 0.5 * change[k]))
        u[:] = 0.0
        combine(values, columns, starts, constants, bias_feature, rows, change, u)
        read += m
        for j in range(d + 1):
            gain -= u[j] * (w[j] + 0.5 * u[j])
        if gain > highest:
            highest = gain
            best[:] = change
            u_best[:] = u
        elif highest > 0.0:
            break
        length *= _SHORTER
    if highest > 0.0:
        for k in range(m):
            alpha[rows[k]] = min(max(alpha[rows[k]] + best[k], 0.0), _top(constants, rows[k]))
            balance[1] += best[k] * constants[rows[k], 0]
        for j in range(d):
            w[j] += u_best[j]
        w[d] = bias_feature * balance[1]
        balance[0] = bias_feature * w[d]
    return read


@njit(cache=True, nogil=True)
def _top(constants: Array, i: int) -> float:
    return np.inf if constants[i, 2] > 0.0 else constants[i, 1]


@njit(cache=True, nogil=True)
def _between(constants: Array, square: float, alpha: Array) -> Array:
    """The rows whose alpha is between its bounds; not those without any feature, which have no curvature."""
    rows, count = np.empty(alpha.size, np.int64), 0
    for i in range(alpha.size):
        rows[count] = i
        count += alpha[i] > 0.0 and alpha[i] < _top(constants, i) and constants[i, 3] + square > 0.0
    return rows[:count]


@njit(cache=True, nogil=True)
def _products(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    bias_feature: float,
    rows: Array,
    v: Array,
    out: Array,
) -> None:
    """out[k] = y_i h_i . v of the rows"""
    d = v.size - 1
    bias = bias_feature * v[d]
    for k in range(rows.size):
        i, y = rows[k], constants[rows[k], 0]
        if starts.size == 0:
            out[k] = y * (dot_dense(values[i * d : (i + 1) * d], v) + bias)
        else:
            ask_ahead(values, columns, starts, rows, k)
            out[k] = y * (dot_sparse(values, columns, np.uint64(starts[i]), np.uint64(starts[i + 1]), v) + bias)


@njit(cache=True, nogil=True)
def combine(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    bias_feature: float,
    rows: Array,
    x: Array,
    out: Array,
) -> None:
    """out += sum of x_k y_i h_i over the rows"""
    d, total = out.size - 1, 0.0
    for k in range(rows.size):
        i, share = rows[k], x[k] * constants[rows[k], 0]
        total += share
        if starts.size == 0:
            add_dense(values[i * d : (i + 1) * d], share, out)
        else:
            ask_ahead(values, columns, starts, rows, k)
            add_sparse(values, columns, np.uint64(starts[i]), np.uint64(starts[i + 1]), share, out)
    out[d] += bias_feature * total
