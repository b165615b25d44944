"""The bundle of cutting planes and its reduced problem, for every method that works with cutting planes.

R(w) is the whole loss of a problem, its costs inside. A plane (normal a_k, level beta_k) says for every w

    R(w) >= beta_k - a_k . w,        cut at w':   a = -(a subgradient of R at w'),  beta = R(w') + a . w'

and the reduced problem, with R replaced by its planes and by R >= 0, has the dual

    max over g >= 0, sum g <= 1 of  D(g) = sum_k g_k beta_k - 1/2 |sum_k g_k a_k|^2,      w = sum_k g_k a_k,

so D(g) is a lower bound of the whole problem for any such g. How a method uses it:

    state = {..., **empty_bundle(n_weights, marks=(bytes_of_a_plane, np.uint8))}    all of it lies in the state
    bundle = Bundle(state)                          a handle, made anew in every step
    bundle.add(normal, level, marks=row)            `marks`, or any names, are rows that a plane carries along
    bound, w = bundle.solve()                       g from where it was; planes idle for long are dropped first
    planes = bundle.active()                        numbers of the planes with g > 0, for
    bundle.multipliers[planes], bundle.carried("marks")[planes]

A normal may be given by another vector in its place that is linear in it, such as the scores of all rows at it, with
a partner whose products with those vectors are those of the normals: `add(vector, level, partner)`; then `combine`
gives sum_k g_k beta_k and sum_k g_k vector_k, and |w|^2 is the caller's to know.

Plane 0 is R >= 0 itself, which takes what is left of sum g = 1; it is never dropped and never active. The Gram matrix
is kept, a new plane costs one row of it. The dual is solved by an active-set method over the simplex: Newton steps on
the support with exact steps, cut off where a multiplier reaches 0, then the plane that is violated most enters. Its
factor is only ever used for directions, so planes that are equal or depend on each other do no harm.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.data.rows import read_only
from solvers.linalg.types import Array, Floats
from solvers.state import StoredState as State

__all__ = ["IDLE_SOLVES", "Bundle", "empty_bundle", "sum_squares"]


IDLE_SOLVES = 50
"""A plane that so many solutions in a row did not use is dropped."""
LEAST_CAPACITY, FIRST_BYTES = 16, 1 << 27
"""Room for planes at the start: so many, or, of short ones, up to 128 planes and this much memory. Room that is not
used yet costs nothing; making more of it means copying all planes."""
LARGEST_SQUARE = 1e300
"""Of a normal: beyond, sums of squares would overflow, and there is no bound."""
PRECISION = 1e-13
"""Of D(g): the duality gap of the reduced problem, over D, at which it counts as solved."""


def empty_bundle(n_weights: int, **carried: tuple[int, type[np.generic]]) -> State:
    """The state's entries of a bundle without planes; `carried` says width and type of what goes with each plane."""
    room = min(8 * LEAST_CAPACITY, max(LEAST_CAPACITY, FIRST_BYTES // (8 * n_weights)))
    state: State = {
        "plane_count": 1,
        "plane_vectors": np.zeros((room, n_weights)),
        "plane_levels": np.zeros(room),
        "plane_gram": np.zeros((room, room)),
        "plane_multipliers": np.zeros(room),
        "plane_idle": np.zeros(room, dtype=np.int64),
    }
    state["plane_multipliers"][0] = 1.0
    for name, (width, dtype) in carried.items():
        state[f"plane_{name}"] = np.zeros((room, width), dtype=dtype)
    return state


class Bundle:
    """The planes that lie in a state."""

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def count(self) -> int:
        """With plane 0."""
        return int(self._state["plane_count"])

    @property
    def levels(self) -> Floats:
        return self.carried("levels")

    @property
    def multipliers(self) -> Floats:
        """g, with plane 0."""
        return self.carried("multipliers")

    def carried(self, name: str) -> Array:
        """One row for each plane, with plane 0."""
        return np.asarray(self._state[f"plane_{name}"][: self.count])

    def active(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.multipliers[1:] > 0.0) + 1

    def add(self, vector: Floats, level: float, partner: Floats | None = None, **carried: Array) -> None:
        """One more plane, with multiplier 0; its row of the Gram matrix is computed."""
        new = self.count
        if new == self._state["plane_levels"].size:
            self._grow()
        state = self._state
        state["plane_count"] = new + 1
        state["plane_vectors"][new] = vector
        state["plane_levels"][new] = level
        state["plane_multipliers"][new] = 0.0
        state["plane_idle"][new] = 0
        for name, row in carried.items():
            state[f"plane_{name}"][new] = row
        products = state["plane_gram"][new, : new + 1]
        _multiply_rows(state["plane_vectors"][: new + 1], vector if partner is None else partner, products)
        state["plane_gram"][: new + 1, new] = products

    def solve(self) -> tuple[float, Floats]:
        """(D, w): maximises D from the multipliers as they are; D is a bound of the whole problem, or NaN."""
        level, w = self.combine(IDLE_SOLVES)
        return level - 0.5 * sum_squares(read_only(w)), w

    def combine(self, idle_solves: int) -> tuple[float, Floats]:
        """As `solve`, but (sum_k g_k beta_k or NaN, sum_k g_k vector_k), and planes idle for so long are dropped."""
        self._drop_idle(idle_solves)
        n, g = self.count, self.multipliers
        gram, combined = self._state["plane_gram"], np.zeros(self._state["plane_vectors"].shape[1])
        if not (gram.diagonal()[:n] < LARGEST_SQUARE).all():
            return math.nan, combined
        # whole: its part would be contiguous only where it is full, and numba would compile for both
        _maximise_dual(gram, self.levels, PRECISION, g, np.empty((n, n)), np.empty((5, n)))
        idle = self.carried("idle")
        idle[:] = np.where(g > 0.0, 0, idle + 1)
        _combine_rows(self._state["plane_vectors"], self.active(), g, combined)
        return float((g * self.levels).sum()), combined

    def _names(self) -> list[str]:
        return [name for name in self._state if name.startswith("plane_") and name != "plane_count"]

    def _grow(self) -> None:
        old = self._state["plane_levels"].size
        new = old + max(LEAST_CAPACITY, old // 2)
        for name in self._names():
            before = self._state[name]
            shape = (new, new) if name == "plane_gram" else (new, *before.shape[1:])
            self._state[name] = np.zeros(shape, dtype=before.dtype)
            self._state[name][tuple(slice(0, extent) for extent in before.shape)] = before

    def _drop_idle(self, idle_solves: int) -> None:
        for plane in range(self.count - 1, 0, -1):
            if self._state["plane_idle"][plane] >= idle_solves:
                self._drop(plane)

    def _drop(self, plane: int) -> None:
        """The last plane takes its place."""
        last = self.count - 1
        gram = self._state["plane_gram"]
        gram[:, plane] = gram[:, last]
        for name in self._names():
            self._state[name][plane] = self._state[name][last]
        self._state["plane_count"] = last


# --- kernels. H: Gram matrix, g: multipliers, c: gradient Hg - beta of -D, L: Cholesky factor of the support's part of
# --- H + ridge ee' (which is the same on the simplex), S: the support in the order of the factor ----------------------

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity
_STRETCH = 1024
_LEAST_RIDGE = 1e-200  # so that nothing divided by it or its root overflows
_DEPENDENT = 1e-13  # the share of a diagonal entry below which a plane depends on the ones before


@njit(cache=True, nogil=True, fastmath=_SUM)
def sum_squares(vector: Array) -> float:
    """Without the copy that an expression would make of a long vector."""
    total = 0.0
    for j in range(vector.size):
        total += vector[j] * vector[j]
    return total


@njit(cache=True, nogil=True, fastmath=_SUM)
def _multiply_rows(rows: Array, vector: Array, out: Array) -> None:
    for k in range(rows.shape[0]):
        row = rows[k]
        total = 0.0
        for j in range(vector.size):
            total += row[j] * vector[j]
        out[k] = total


@njit(cache=True, nogil=True)
def _combine_rows(rows: Array, planes: Array, g: Array, out: Array) -> None:
    """Adds g_k rows[k] of the given planes, a stretch of columns at a time that stays in the cache."""
    for first in range(0, out.size, _STRETCH):
        part = out[first : first + _STRETCH]
        for plane in planes:
            row, multiplier = rows[plane, first : first + _STRETCH], g[plane]
            for j in range(part.size):
                part[j] += multiplier * row[j]


@njit(cache=True, nogil=True)
def _maximise_dual(H: Array, levels: Array, precision: float, g: Array, L: Array, work: Array) -> None:
    """Over the simplex, from a g in it; H may be larger than there are planes."""
    n = levels.size
    c, p, u, v, barred = work[0], work[1], work[2], work[3], work[4]
    S, size = np.empty(n, np.int64), 0
    ridge = 0.0
    for k in range(n):
        if g[k] > 0.0:
            ridge = max(ridge, H[k, k])
    for k in range(n):
        ridge = ridge if ridge > 0.0 else H[k, k]
    ridge = max(ridge, _LEAST_RIDGE)
    for k in range(n):
        if g[k] > 0.0:
            _append_plane(H, ridge, L, S, size, k)
            size += 1
    barred[:] = 0.0
    refinements = 0
    for _ in range(50 * n + 200):
        value, middle = _find_gradient(H, levels, g, S, size, c)
        blocked, moved = _step_on_support(H, c, middle, L, S, size, g, p, u, v)
        if moved:
            barred[:] = 0.0
        if blocked >= 0:
            if not moved:
                barred[S[blocked]] = 1.0  # entered and could not move: rounding decides here, so not again
            g[S[blocked]] = 0.0
            _remove_plane(L, S, size, blocked)
            size -= 1
            continue
        value, middle = _find_gradient(H, levels, g, S, size, c)
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
        _append_plane(H, ridge, L, S, size, entering)
        size += 1
    total = 0.0
    for k in range(n):
        total += g[k]
    for k in range(n):
        g[k] /= total


@njit(cache=True, nogil=True)
def _find_gradient(H: Array, levels: Array, g: Array, S: Array, size: int, c: Array) -> tuple[float, float]:
    """(D(g), g . c); where g is optimal, c is g . c on the support and not less elsewhere."""
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
def _step_on_support(
    H: Array,
    c: Array,
    middle: float,
    L: Array,
    S: Array,
    size: int,
    g: Array,
    p: Array,
    u: Array,
    v: Array,
) -> tuple[int, bool]:
    """(the place in S whose multiplier became 0 and ended the step or -1, whether g moved)"""
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
def _append_plane(H: Array, ridge: float, L: Array, S: Array, size: int, plane: int) -> None:
    """One more row of the factor; where it has no length of its own it gets a small one."""
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
def _remove_plane(L: Array, S: Array, size: int, place: int) -> None:
    """Deletes a row of the factor; rotations of two columns at a time make it triangular again."""
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
