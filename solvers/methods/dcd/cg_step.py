"""A conjugate-gradient step in all alphas strictly between their bounds, for phases where coordinate descent is slow.

Coordinate descent quickly finds the alphas at a bound. Among the other alphas, steps on nearly equal rows undo each
other in part. The number of epochs then grows with the condition number of the matrix of these rows; the number of
conjugate-gradient iterations grows with its square root.

The alphas at bounds stay fixed. A few conjugate-gradient iterations yield a direction. The iterations ignore the
bounds, because with thousands of rows every iteration would meet some bound at once. The point then moves along the
direction, with each alpha clipped at its bound, by the best of several step lengths. Only the rows strictly between
their bounds are read.
"""

import numpy as np
from numba import njit

from solvers.linalg.prefetch import ask_ahead
from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array
from solvers.methods.dcd.dual_problem import DualPoint, DualTerms

__all__ = ["MOST_READS", "combine_rows", "take_cg_step"]


_ITERATIONS = 12
"""Maximum conjugate-gradient iterations in a step. Larger: more passes; clipping at the bounds removes most of what
they gain. Set by hand; no measurement is recorded."""
_SETTLED = 1e-4
"""The iterations end once the squared residual is below this fraction of the first one. Smaller: more precise
directions, more passes. Set by hand; no measurement is recorded."""
_SHORTER, _TRIALS = 0.4, 8
"""Step lengths tried along the direction: 1, 0.4, 0.4^2, ..., at most 8. A factor closer to 1: finer search, more
passes. Set by hand; no measurement is recorded."""
MOST_READS = 1 + 2 * _ITERATIONS + _TRIALS
"""Maximum passes over the rows in one step, derived from the constants above."""


@njit(cache=True, nogil=True)
def take_cg_step(terms: DualTerms, point: DualPoint) -> int:
    """Move all alphas between their bounds along a conjugate-gradient direction if that raises the dual.

    Updates w and balance; b becomes beta^2 S. Returns the number of rows read.
    """
    constants, bias_feature = terms.constants, terms.bias_feature
    alpha, w, balance = point
    d = w.size - 1
    rows = _between(constants, bias_feature * bias_feature, alpha)
    m = rows.size
    p, r, z, s, q, u = np.zeros(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.zeros(d + 1)
    w[d] = bias_feature * balance[1]
    _products(terms, rows, w, r)
    product = 0.0
    for k in range(m):
        i = rows[k]
        r[k] = 1.0 - r[k] - constants[i, 2] * alpha[i]
        z[k] = r[k] / (constants[i, 3] + bias_feature * bias_feature)
        s[k] = z[k]
        product += r[k] * z[k]
    enough, read = _SETTLED * product, m
    for _ in range(_ITERATIONS):
        if not product > enough:
            break
        u[:] = 0.0
        combine_rows(terms, rows, s, u)
        _products(terms, rows, u, q)
        read += 2 * m
        curvature, square = 0.0, 0.0
        for k in range(m):
            i = rows[k]
            q[k] += constants[i, 2] * s[k]
            curvature += s[k] * q[k]
            square += s[k] * s[k] * (constants[i, 3] + bias_feature * bias_feature)
        if not curvature > 1e-12 * square:  # the dual is flat in this direction
            break
        length, before, product = product / curvature, product, 0.0
        for k in range(m):
            p[k] += length * s[k]
            r[k] -= length * q[k]
            z[k] = r[k] / (constants[rows[k], 3] + bias_feature * bias_feature)
            product += r[k] * z[k]
        for k in range(m):
            s[k] = z[k] + product / before * s[k]
    return read + _move(terms, point, rows, p, q, s)


@njit(cache=True, nogil=True)
def _move(terms: DualTerms, point: DualPoint, rows: Array, p: Array, change: Array, best: Array) -> int:
    """Move along p by the best of several step lengths, each alpha clipped at its bound; return the rows read.

    `change` and `best` are work space.
    """
    constants, bias_feature = terms.constants, terms.bias_feature
    alpha, w, balance = point
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
        combine_rows(terms, rows, change, u)
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
    """Return the upper bound of alpha_i."""
    return np.inf if constants[i, 2] > 0.0 else constants[i, 1]


@njit(cache=True, nogil=True)
def _between(constants: Array, square: float, alpha: Array) -> Array:
    """Return the rows whose alpha is strictly between its bounds; leave out empty rows, which have no curvature."""
    rows, count = np.empty(alpha.size, np.int64), 0
    for i in range(alpha.size):
        rows[count] = i
        count += alpha[i] > 0.0 and alpha[i] < _top(constants, i) and constants[i, 3] + square > 0.0
    return rows[:count]


@njit(cache=True, nogil=True)
def _products(terms: DualTerms, rows: Array, v: Array, out: Array) -> None:
    """Write y_i h_i . v into out[k] for the rows i = rows[k], where h_i is x_i with the bias feature."""
    values, columns, starts = terms.rows
    constants, d = terms.constants, v.size - 1
    bias = terms.bias_feature * v[d]
    for k in range(rows.size):
        i, y = rows[k], constants[rows[k], 0]
        if starts.size == 0:
            out[k] = y * (dot_dense(values[i * d : (i + 1) * d], v) + bias)
        else:
            ask_ahead(values, columns, starts, rows, k)
            out[k] = y * (dot_sparse(values, columns, np.uint64(starts[i]), np.uint64(starts[i + 1]), v) + bias)


@njit(cache=True, nogil=True)
def combine_rows(terms: DualTerms, rows: Array, x: Array, out: Array) -> None:
    """Add the sum of x_k y_i h_i over the rows i = rows[k] to out."""
    values, columns, starts = terms.rows
    constants = terms.constants
    d, total = out.size - 1, 0.0
    for k in range(rows.size):
        i, share = rows[k], x[k] * constants[rows[k], 0]
        total += share
        if starts.size == 0:
            add_dense(values[i * d : (i + 1) * d], share, out)
        else:
            ask_ahead(values, columns, starts, rows, k)
            add_sparse(values, columns, np.uint64(starts[i]), np.uint64(starts[i + 1]), share, out)
    out[d] += terms.bias_feature * total
