"""The direct solve of a small active set, for the last phase of dual coordinate descent.

When only some dozens of alphas are not at a bound, an epoch over their rows is cheap, but very many epochs can be
needed: steps on nearly equal rows undo each other in part. With all other alphas fixed, the dual over these rows is a
small quadratic program with bounds:

    minimise  g . t + 1/2 t' Q t    with  0 <= alpha + t <= U,    Q_ij = y_i y_j (x_i . x_j + beta^2) + [i = j] D_ii

Each round runs some sweeps of coordinate descent, which find the variables at a bound, and then takes a Newton step in
the other variables. The step follows the projected path, which bends at every bound it meets, as long as the objective
falls (Moré and Toraldo 1991). If there are more of these variables than features, Q is singular. A ridge is then added,
which shrinks from round to round. Without the ridge, a step would follow directions of zero curvature to an arbitrary
bound.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.linalg.cholesky import factor_in_place, solve_in_place
from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.tiles import WIDE, panels_of
from solvers.linalg.types import Array
from solvers.methods.dcd.dual_problem import DualPoint, DualTerms, gap_term

__all__ = ["solve_active_set"]


_ROUNDS = 30
"""Maximum number of rounds. Larger: more time on programs that converge slowly. Usually ten rounds suffice."""
_SWEEPS = 10
"""Sweeps of coordinate descent per round. Larger: fewer and longer rounds. Ten sweeps take about the time of the Newton
step and halve the number of rounds."""
_RIDGE, _FALL, _LEAST_RIDGE = 1e-2, 0.1, 1e-11
"""Ridge of the first round and least ridge, as fractions of the mean diagonal of Q, and the factor from round to round.
Larger ridges: shorter, safer steps and more rounds. Set by hand; no measurement is recorded."""
_ENOUGH = 1e-6
"""The rounds end at this fraction of the active rows' first gap. Smaller: more precise solves, of little use because
other rows add to the gap afterwards. Set by hand; no measurement is recorded."""


class BoxProgram(NamedTuple):
    """The quadratic program of the active set: Q as above, its diagonal part D, the point a, the gradient g at a, and
    the upper bounds U."""

    Q: Array
    D: Array
    a: Array
    g: Array
    U: Array


@njit(cache=True, nogil=True)
def solve_active_set(terms: DualTerms, point: DualPoint, rows: Array) -> None:
    """Maximise the dual over the alphas of these rows. Update w and balance; b becomes beta^2 S."""
    values, columns, starts = terms.rows
    constants, bias_feature = terms.constants, terms.bias_feature
    alpha, w, balance = point
    d, m = w.size - 1, rows.size
    w[d] = bias_feature * balance[1]
    program = _set_up(terms, point, rows)
    _minimise(program)
    a = program.a
    for s in range(m):
        i = rows[s]
        change = (a[s] - alpha[i]) * constants[i, 0]
        alpha[i] = a[s]
        balance[1] += change
        if change == 0.0:
            continue
        if starts.size == 0:
            add_dense(values[i * d : (i + 1) * d], change, w)
        else:
            add_sparse(values, columns, np.uint64(starts[i]), np.uint64(starts[i + 1]), change, w)
    w[d] = bias_feature * balance[1]
    balance[0] = bias_feature * w[d]


@njit(cache=True, nogil=True)
def _set_up(terms: DualTerms, point: DualPoint, rows: Array) -> BoxProgram:
    values, columns, starts = terms.rows
    constants, bias_feature = terms.constants, terms.bias_feature
    alpha, w = point.alpha, point.w
    d, m = w.size - 1, rows.size
    Q, D, a, g, U = np.empty((m, m)), np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    dense = starts.size == 0
    row = np.zeros(0 if dense else d)
    for s in range(m):
        i = rows[s]
        y, C, D[s], a[s] = constants[i, 0], constants[i, 1], constants[i, 2], alpha[i]
        U[s] = np.inf if D[s] > 0.0 else C
        if dense:
            own = values[i * d : (i + 1) * d]
            score = dot_dense(own, w)
            for r in range(s + 1):
                j = rows[r]
                Q[s, r] = dot_dense(values[j * d : (j + 1) * d], own)
        else:
            first, past = np.uint64(starts[i]), np.uint64(starts[i + 1])
            score = dot_sparse(values, columns, first, past, w)
            add_sparse(values, columns, first, past, 1.0, row)
            for r in range(s + 1):
                Q[s, r] = dot_sparse(values, columns, np.uint64(starts[rows[r]]), np.uint64(starts[rows[r] + 1]), row)
            for e in range(first, past):
                row[np.uint64(columns[e])] = 0.0
        for r in range(s + 1):
            Q[s, r] = y * constants[rows[r], 0] * (Q[s, r] + bias_feature * bias_feature)
            Q[r, s] = Q[s, r]
        Q[s, s] += D[s]
        g[s] = y * (score + bias_feature * w[d]) - 1.0 + D[s] * a[s]
    return BoxProgram(Q, D, a, g, U)


@njit(cache=True, nogil=True)
def _minimise(program: BoxProgram) -> None:
    """Move a to the minimum between 0 and U; keep g equal to the gradient at a."""
    Q, D, a, g, U = program
    m = a.size
    free, p = np.empty(m, np.int64), np.empty(m)
    scale = 0.0
    for s in range(m):
        scale += Q[s, s] / m
    ridge, enough = _RIDGE * scale, _ENOUGH * _gap(D, a, g, U)
    for _ in range(_ROUNDS):
        _descend(Q, a, g, U)
        if _gap(D, a, g, U) <= enough:
            break
        count = 0
        for s in range(m):
            free[count] = s
            count += not ((a[s] == 0.0 and g[s] >= 0.0) or (a[s] == U[s] and g[s] <= 0.0))
        if not _aim(Q, g, ridge, free[:count], p):
            break
        _follow(Q, a, g, U, free[:count], p)
        ridge = max(_FALL * ridge, _LEAST_RIDGE * scale)


@njit(cache=True, nogil=True)
def _gap(D: Array, a: Array, g: Array, U: Array) -> float:
    """Return the sum of these rows' terms of the duality gap."""
    total = 0.0
    for s in range(a.size):
        C = 0.5 / D[s] if D[s] > 0.0 else U[s]
        total += gap_term(g[s] + 1.0 - D[s] * a[s], g[s], a[s], C, D[s])
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _descend(Q: Array, a: Array, g: Array, U: Array) -> None:
    """Run _SWEEPS sweeps of coordinate descent."""
    for _ in range(_SWEEPS):
        for s in range(a.size):
            change = min(max(a[s] - g[s] / Q[s, s], 0.0), U[s]) - a[s]
            if change != 0.0:
                a[s] += change
                of_row = Q[s]
                for r in range(g.size):
                    g[r] += change * of_row[r]


@njit(cache=True, nogil=True)
def _aim(Q: Array, g: Array, ridge: float, free: Array, p: Array) -> bool:
    """Set p to -(Q + ridge)^-1 g on the free variables and to 0 elsewhere; return False if rounding prevents it."""
    count, panels = free.size, panels_of(free.size)
    L, x = np.zeros((panels, panels * WIDE, WIDE)), np.zeros(panels * WIDE)
    for j in range(count):
        of_row = Q[free[j]]
        for i in range(j, count):
            L[i // WIDE, j, i % WIDE] = of_row[free[i]]
        L[j // WIDE, j, j % WIDE] += ridge
        x[j] = -g[free[j]]
    for j in range(count, panels * WIDE):
        L[j // WIDE, j, j % WIDE] = 1.0
    if not factor_in_place(L):
        return False
    solve_in_place(L, x)
    p[:] = 0.0
    for j in range(count):
        p[free[j]] = x[j]
    return True


@njit(cache=True, nogil=True)
def _follow(Q: Array, a: Array, g: Array, U: Array, free: Array, p: Array) -> None:
    """Move along p while the objective falls; a variable that meets its bound stays there."""
    m, count = a.size, free.size
    ends, q = np.empty(count), np.zeros(m)
    for k in range(count):
        s = free[k]
        ends[k] = (U[s] - a[s]) / p[s] if p[s] > 0.0 else (-a[s] / p[s] if p[s] < 0.0 else np.inf)
        for r in range(m):
            q[r] += p[s] * Q[s, r]
    order, at = np.argsort(ends), 0.0
    for k in range(count + 1):
        slope, curvature = 0.0, 0.0
        for f in range(count):
            s = free[f]
            slope += g[s] * p[s]
            curvature += p[s] * q[s]
        if not slope < 0.0:
            break
        until = ends[order[k]] - at if k < count else np.inf
        is_end = not curvature * until < -slope
        length = -slope / curvature if is_end and curvature > 0.0 else until
        if not length < np.inf:
            break
        for f in range(count):
            s = free[f]
            a[s] = min(max(a[s] + length * p[s], 0.0), U[s])
        for r in range(m):
            g[r] += length * q[r]
        if length < until:
            break
        hit, at = free[order[k]], ends[order[k]]
        a[hit] = U[hit] if p[hit] > 0.0 else 0.0
        for r in range(m):
            q[r] -= p[hit] * Q[hit, r]
        p[hit] = 0.0
