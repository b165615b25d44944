"""The bundle of cutting planes and its reduced problem, for all cutting-plane methods.

R(w) is the sum of all losses, costs included. A plane, given by a normal a_k and a level beta_k, is a lower bound:

    R(w) >= beta_k - a_k . w for every w.    Cut at w':  a = -(a subgradient of R at w'),  beta = R(w') + a . w'

The reduced problem replaces R by the maximum of its planes and 0. Its dual is

    max over g >= 0, sum g <= 1 of  D(g) = sum_k g_k beta_k - 1/2 |sum_k g_k a_k|^2,      w = sum_k g_k a_k,

so D(g) is a lower bound of the whole problem for any such g. A method uses the bundle as follows:

    state.bundle = empty_bundle(n_weights, attached=(bytes_of_a_plane, np.uint8))
    state.bundle.add(normal, level, attached=row)    stores a row of the method's own data with the plane
    bound, w = state.bundle.solve()                  starts from the last g; drops planes that were long unused
    planes = state.bundle.active()                   numbers of the planes with g > 0, for
    state.bundle.multipliers[planes], state.bundle.attached[planes]

Instead of normals the bundle can store other vectors that are linear in them, such as the scores of all rows. Then
`add(vector, level, partner)` takes a partner whose products with the stored vectors equal the products of the normals.
`combine` returns sum_k g_k beta_k and sum_k g_k vector_k, and the caller computes |w|^2.

Plane 0 is the bound R >= 0. Its multiplier is 1 minus the sum of the others. It is never dropped and does not count as
active. The bundle keeps the Gram matrix of the normals; a new plane adds one row to it. The dual is solved by an
active-set method over the simplex. It takes Newton steps on the support, with an exact step length limited by the first
multiplier that reaches 0. Then the most violated plane enters. The Cholesky factor is used only for directions, so
equal or dependent planes do no harm.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.data.rows import read_only
from solvers.linalg.types import Array, Floats
from solvers.state import State

__all__ = ["IDLE_SOLVES", "Bundle", "empty_bundle", "sum_squares"]


IDLE_SOLVES = 50
"""Number of consecutive solutions with multiplier 0 after which a plane is dropped. Larger: more planes in memory and
in the reduced problem. Set by hand; no measurement is recorded."""
LEAST_CAPACITY, FIRST_BYTES = 16, 1 << 27
"""Number of planes for which memory is reserved at the start: LEAST_CAPACITY, or up to 8 times that number if their
vectors fit into FIRST_BYTES bytes. Larger: fewer copies when the bundle grows. Reserved memory takes no RAM until it is
used. Set by hand; no measurement is recorded."""
LARGEST_SQUARE = 1e300
"""Largest squared norm of a normal. Above it the bound is NaN, because sums of squares could overflow. Larger: closer
to overflow. The value is a factor of 1e8 below the largest double, 1.8e308."""
PRECISION = 1e-13
"""Relative duality gap at which the reduced problem counts as solved. Larger: shorter solves, weaker bounds. The value
is above the rounding error of D."""


@dataclass(slots=True)
class Bundle(State):
    """The planes of a run. The arrays have capacity for more than `count` planes; entries beyond `count` are unused."""

    count: int  # number of planes, plane 0 included
    vectors: Floats  # normals, or vectors in their place; one row per plane
    levels: Floats  # beta_k
    gram: Floats  # scalar products of the normals
    multipliers: Floats  # g_k
    idle: NDArray[np.int64]  # consecutive solutions with multiplier 0
    attached: Array  # the method's own data for each plane, one row per plane

    def active(self) -> NDArray[np.intp]:
        """Return the numbers of the planes with a positive multiplier, without plane 0."""
        return np.flatnonzero(self.multipliers[1 : self.count] > 0.0) + 1

    def add(self, vector: Floats, level: float, partner: Floats | None = None, attached: Array | None = None) -> None:
        """Add a plane with multiplier 0 and compute its row of the Gram matrix."""
        new = self.count
        if new == self.levels.size:
            self._grow()
        self.count = new + 1
        self.vectors[new] = vector
        self.levels[new] = level
        self.multipliers[new] = 0.0
        self.idle[new] = 0
        if attached is not None:
            self.attached[new] = attached
        products = self.gram[new, : new + 1]
        _multiply_rows(self.vectors[: new + 1], vector if partner is None else partner, products)
        self.gram[: new + 1, new] = products

    def solve(self) -> tuple[float, Floats]:
        """Maximise D, starting from the current multipliers. Return (D, w). D is a lower bound of the whole problem, or
        NaN if numbers overflow."""
        level, w = self.combine(IDLE_SOLVES)
        return level - 0.5 * sum_squares(read_only(w)), w

    def combine(self, idle_solves: int) -> tuple[float, Floats]:
        """Maximise D; return sum_k g_k beta_k (or NaN) and sum_k g_k vector_k.

        First drops the planes that had multiplier 0 in the last `idle_solves` solutions.
        """
        self._drop_idle(idle_solves)
        n = self.count
        g, levels, idle = self.multipliers[:n], self.levels[:n], self.idle[:n]
        combined = np.zeros(self.vectors.shape[1])
        if not (self.gram.diagonal()[:n] < LARGEST_SQUARE).all():
            return math.nan, combined
        # The whole matrix is passed. A part of it would be contiguous only if the bundle is full, so numba would
        # compile two versions.
        _maximise_dual(self.gram, levels, PRECISION, g, np.empty((n, n)), np.empty((5, n)))
        idle[:] = np.where(g > 0.0, 0, idle + 1)
        _combine_rows(self.vectors, self.active(), g, combined)
        return float((g * levels).sum()), combined

    def _grow(self) -> None:
        """Enlarge the arrays for more planes."""
        old = self.levels.size
        new = old + max(LEAST_CAPACITY, old // 2)
        self.vectors, self.levels = _enlarged(self.vectors, new), _enlarged(self.levels, new)
        self.multipliers, self.idle = _enlarged(self.multipliers, new), _enlarged(self.idle, new)
        self.attached = _enlarged(self.attached, new)
        gram = np.zeros((new, new))
        gram[:old, :old] = self.gram
        self.gram = gram

    def _drop_idle(self, idle_solves: int) -> None:
        for plane in range(self.count - 1, 0, -1):
            if self.idle[plane] >= idle_solves:
                self._drop(plane)

    def _drop(self, plane: int) -> None:
        """Remove a plane by moving the last plane to its place."""
        last = self.count - 1
        self.gram[:, plane] = self.gram[:, last]
        for array in (self.vectors, self.levels, self.gram, self.multipliers, self.idle, self.attached):
            array[plane] = array[last]
        self.count = last


def empty_bundle(n_weights: int, attached: tuple[int, type[np.generic]] = (0, np.uint8)) -> Bundle:
    """Return a bundle without planes; `attached` is the width and type of the method's own row for each plane."""
    room = min(8 * LEAST_CAPACITY, max(LEAST_CAPACITY, FIRST_BYTES // (8 * n_weights)))
    width, kind = attached
    bundle = Bundle(
        count=1,
        vectors=np.zeros((room, n_weights)),
        levels=np.zeros(room),
        gram=np.zeros((room, room)),
        multipliers=np.zeros(room),
        idle=np.zeros(room, dtype=np.int64),
        attached=np.zeros((room, width), dtype=kind),
    )
    bundle.multipliers[0] = 1.0
    return bundle


def _enlarged(array: Array, rows: int) -> Array:
    larger = np.zeros((rows, *array.shape[1:]), dtype=array.dtype)
    larger[: array.shape[0]] = array
    return larger


# --- kernels of long vectors -----------------------------------------------------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate
_STRETCH = 1024  # columns that are combined at a time, so that they stay in the cache
_LEAST_RIDGE = 1e-200  # too small to change a result, but large enough to divide by
_DEPENDENT = 1e-13  # fraction of a diagonal entry below which a plane counts as linearly dependent on the others


@njit(cache=True, nogil=True, fastmath=_SUM)
def sum_squares(vector: Array) -> float:
    """Return |vector|^2 without a temporary array."""
    total = 0.0
    for j in range(vector.size):
        total += vector[j] * vector[j]
    return total


@njit(cache=True, nogil=True, fastmath=_SUM)
def _multiply_rows(rows: Array, vector: Array, out: Array) -> None:
    """Write the product of each row with the vector."""
    for k in range(rows.shape[0]):
        row = rows[k]
        total = 0.0
        for j in range(vector.size):
            total += row[j] * vector[j]
        out[k] = total


@njit(cache=True, nogil=True)
def _combine_rows(rows: Array, planes: Array, g: Array, out: Array) -> None:
    """Add g_k rows[k] of the given planes to out."""
    for first in range(0, out.size, _STRETCH):
        part = out[first : first + _STRETCH]
        for plane in planes:
            row, multiplier = rows[plane, first : first + _STRETCH], g[plane]
            for j in range(part.size):
                part[j] += multiplier * row[j]


# --- kernels of the reduced problem ----------------------------------------------------------------------------------


class _Reduced(NamedTuple):
    """The reduced problem and the work space of its solver. H can have more rows than there are planes."""

    H: Array
    """The Gram matrix."""
    levels: Array
    g: Array
    c: Array
    """The gradient Hg - beta of -D."""
    S: Array
    """The support in the order of the factor."""
    L: Array
    """The Cholesky factor of H + ridge ee' on the support. On the simplex the ridge only adds a constant."""
    p: Array
    """The direction of a step on the support."""
    u: Array
    v: Array


@njit(cache=True, nogil=True)
def _maximise_dual(H: Array, levels: Array, precision: float, g: Array, L: Array, work: Array) -> None:
    """Maximise D over the simplex, from a g in it."""
    n = levels.size
    barred = work[4]
    S, size = np.empty(n, np.int64), 0
    q = _Reduced(H, levels, g, work[0], S, L, work[1], work[2], work[3])
    c = q.c
    ridge = 0.0
    for k in range(n):
        if g[k] > 0.0:
            ridge = max(ridge, H[k, k])
    for k in range(n):
        ridge = ridge if ridge > 0.0 else H[k, k]
    ridge = max(ridge, _LEAST_RIDGE)
    for k in range(n):
        if g[k] > 0.0:
            _append_plane(q, ridge, size, k)
            size += 1
    barred[:] = 0.0
    refinements = 0
    for _ in range(50 * n + 200):
        value, middle = _find_gradient(q, size)
        blocked, moved = _step_on_support(q, size, middle)
        if moved:
            barred[:] = 0.0
        if blocked >= 0:
            if not moved:
                barred[S[blocked]] = 1.0  # rounding kept this plane from moving: do not try it again
            g[S[blocked]] = 0.0
            _remove_plane(q, size, blocked)
            size -= 1
            continue
        value, middle = _find_gradient(q, size)
        entering = -1
        for k in range(n):
            if barred[k] == 0.0 and (entering < 0 or c[k] < c[entering]):
                entering = k
        if entering < 0 or middle - c[entering] <= precision * abs(value):
            break
        inside = False
        for k in range(size):
            inside = inside or S[k] == entering
        if inside:
            refinements += 1
            if refinements > 3:
                break
            continue
        refinements = 0
        _append_plane(q, ridge, size, entering)
        size += 1
    total = 0.0
    for k in range(n):
        total += g[k]
    for k in range(n):
        g[k] /= total


@njit(cache=True, nogil=True)
def _find_gradient(q: _Reduced, size: int) -> tuple[float, float]:
    """Write c; return (D(g), g . c). If g is optimal, c equals g . c on the support and is at least g . c elsewhere."""
    H, levels, g, c, S = q.H, q.levels, q.g, q.c, q.S
    c[:] = -levels
    for k in range(size):
        multiplier, row = g[S[k]], H[S[k]]
        for j in range(c.size):
            c[j] += multiplier * row[j]
    value = middle = 0.0
    for k in range(size):
        value += 0.5 * g[S[k]] * (levels[S[k]] - c[S[k]])
        middle += g[S[k]] * c[S[k]]
    return value, middle


@njit(cache=True, nogil=True)
def _step_on_support(q: _Reduced, size: int, middle: float) -> tuple[int, bool]:
    """Take a Newton step on the support. If a multiplier would become negative, shorten the step so that it becomes 0.

    Returns (the position of that multiplier in S, or -1; whether g moved).
    """
    H, g, c, S, L, p, u, v = q.H, q.g, q.c, q.S, q.L, q.p, q.u, q.v
    for k in range(size):
        u[k] = middle - c[S[k]]
        v[k] = 1.0
    _solve_factored(L, size, u)
    _solve_factored(L, size, v)
    sum_u = sum_v = 0.0
    for k in range(size):
        sum_u += u[k]
        sum_v += v[k]
    if not sum_v > 0.0:
        return -1, False
    slope = curvature = 0.0
    for k in range(size):
        p[k] = u[k] - sum_u / sum_v * v[k]
        slope += (c[S[k]] - middle) * p[k]
    if not slope < 0.0:
        return -1, False
    for k in range(size):
        row, total = H[S[k]], 0.0
        for j in range(size):
            total += row[S[j]] * p[j]
        curvature += p[k] * total
    step = -slope / curvature if curvature > 0.0 else np.inf
    blocked = -1
    for k in range(size):
        if p[k] < 0.0 and g[S[k]] <= -step * p[k]:
            blocked = k
            step = g[S[k]] / -p[k]
    if step == np.inf:
        return -1, False
    for k in range(size):
        g[S[k]] = max(g[S[k]] + step * p[k], 0.0)
    return blocked, step > 0.0


@njit(cache=True, nogil=True)
def _solve_factored(L: Array, size: int, x: Array) -> None:
    """Solve LL' x = x in place."""
    for i in range(size):
        row, total = L[i], x[i]
        for j in range(i):
            total -= row[j] * x[j]
        x[i] = total / row[i]
    for i in range(size - 1, -1, -1):
        row = L[i]
        x[i] /= row[i]
        for j in range(i):
            x[j] -= row[j] * x[i]


@njit(cache=True, nogil=True)
def _append_plane(q: _Reduced, ridge: float, size: int, plane: int) -> None:
    """Append a row to the factor. A plane that depends on the others gets a small diagonal entry."""
    H, S, L = q.H, q.S, q.L
    row = L[size]
    square = H[plane, plane] + ridge
    rest = square
    for i in range(size):
        earlier, total = L[i], H[plane, S[i]] + ridge
        for j in range(i):
            total -= earlier[j] * row[j]
        row[i] = total / earlier[i]
        rest -= row[i] * row[i]
    row[size] = np.sqrt(max(rest, _DEPENDENT * square))
    S[size] = plane


@njit(cache=True, nogil=True)
def _remove_plane(q: _Reduced, size: int, place: int) -> None:
    """Delete a row of the factor and make it triangular again by rotations of two columns at a time."""
    S, L = q.S, q.L
    for i in range(place, size - 1):
        S[i] = S[i + 1]
        L[i, : i + 2] = L[i + 1, : i + 2]
    for j in range(place, size - 1):
        length = np.hypot(L[j, j], L[j, j + 1])
        cosine, sine = L[j, j] / length, L[j, j + 1] / length
        for i in range(j, size - 1):
            left, right = L[i, j], L[i, j + 1]
            L[i, j] = cosine * left + sine * right
            L[i, j + 1] = cosine * right - sine * left
