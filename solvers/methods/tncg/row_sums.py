"""Sums over chosen rows, in one pass: the scores, gradients and Hessian products of truncated Newton.

A row h_i is x_i followed by the constant feature of a regularised bias. The chosen rows are cut into a fixed number of
parts. Each part has its own sum, and the sums are added in order, so the results are bit-identical for any number of
threads. Sparse sums add one entry after the other. A vectorised sum has to gather the weights and took 1.5 times as
long.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
from numba import njit

from solvers.linalg.prefetch import ask_ahead
from solvers.linalg.row import FlatRows, add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array, Floats
from solvers.problem.problems import Problem

__all__ = ["RowProducts"]


MOST_PARTS = 8
"""Maximum number of parts into which the rows are cut. Larger: more threads can work, but each part costs one more
vector of sums. Set by hand; no measurement is recorded."""
CACHED_NUMBERS = 2**17
"""Maximum total length of the sums of all parts, in numbers of 8 bytes. 2^17 numbers (1 MB) are about the cache of a
core. Data with longer sums has two parts. Larger: more parts for wide data, slower memory access. Set by hand; no
measurement is recorded."""
WORTH_PARTS = 200_000
"""Least number of stored entries for which the rows are cut into parts. A pass over fewer ends before threads have
started. Larger: fewer parts for small data. Set by hand; no measurement is recorded."""
WORTH_A_SUM = 32
"""Least number of stored entries, per number in a part's sum, for which the rows are cut into parts. With fewer, adding
the sums takes longer than reading the rows. Larger: fewer parts for wide data. Set by hand; no measurement is
recorded."""


class RowProducts:
    """Sums over the rows of one problem. `rows` are row numbers; the other arguments are indexed by row number."""

    def __init__(self, problem: Problem, vectors: int = 1) -> None:
        """Prepare sums for this number of weight vectors."""
        data = problem.data
        self._flat = data.flat()
        self._bias = problem.bias_feature
        self._size = (data.n_features + 1) * vectors
        large = data.stored_entries >= max(WORTH_PARTS, WORTH_A_SUM * self._size)
        parts = min(max(CACHED_NUMBERS // self._size, 2), MOST_PARTS) if large else 1
        self._sums = np.zeros((parts, 2 * self._size))
        """One sum per part; the second half is for sums of squares."""
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def threads(self, count: int) -> Iterator[None]:
        """Use `count` threads within this context, one part per thread at a time."""
        if count == 1 or len(self._sums) == 1:
            yield
            return
        with ThreadPoolExecutor(count) as pool:
            self._pool = pool
            try:
                yield
            finally:
                self._pool = None

    def scores(self, w: Floats, rows: Array, out: Floats) -> None:
        """Write h_i . w into out[i]."""
        self._read(rows, lambda part, _: _score_rows(self._flat, self._bias, part, w, out))

    def sums(self, weights: Floats, curvatures: Floats, rows: Array, out: Floats, squares: Floats) -> None:
        """Add sum_i weights_i h_i to out and sum_i curvatures_i h_i^2, feature by feature, to squares."""
        size = self._size
        self._read(
            rows,
            lambda part, total: _sum_rows(
                self._flat, self._bias, part, weights, curvatures, total[:size], total[size:]
            ),
        )
        self._gather(out, squares)

    def product(self, weights: Floats, scale: float, rows: Array, v: Floats, out: Floats) -> None:
        """Add scale sum_i weights_i h_i (h_i . v) to out."""
        self._read(
            rows,
            lambda part, total: _multiply_rows(self._flat, self._bias, part, weights, scale, v, total[: self._size]),
        )
        self._gather(out)

    def _read(self, rows: Array, read: Callable[[Array, Array], None]) -> None:
        parts = len(self._sums)
        if parts == 1:
            read(rows, self._sums[0])
            return
        edges = [rows.size * part // parts for part in range(parts + 1)]

        def read_part(part: int) -> None:
            read(rows[edges[part] : edges[part + 1]], self._sums[part])

        for _ in map(read_part, range(parts)) if self._pool is None else self._pool.map(read_part, range(parts)):
            pass

    def _gather(self, *outs: Floats) -> None:
        """Add the sums of the parts to `outs`, and clear them for the next pass."""
        for half, out in enumerate(outs):
            _add_and_clear(self._sums, half * self._size, out)


# --- kernels. weight: the factor of a row -----------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _score_rows(flat: FlatRows, bias: float, rows: Array, w: Array, out: Array) -> None:
    values, columns, starts = flat.values, flat.columns, flat.starts
    d = w.size - 1
    for k in range(rows.size):
        i = rows[k]
        if starts.size == 0:
            score = dot_dense(values[i * d : (i + 1) * d], w)
        else:
            ask_ahead(values, columns, starts, rows, k)
            score = dot_sparse(values, columns, np.uint64(starts[i]), np.uint64(starts[i + 1]), w)
        out[i] = score + bias * w[d]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _sum_rows(
    flat: FlatRows, bias: float, rows: Array, weights: Array, curvatures: Array, out: Array, squares: Array
) -> None:
    values, columns, starts = flat.values, flat.columns, flat.starts
    d = out.size - 1
    for k in range(rows.size):
        i = rows[k]
        weight, curvature = weights[i], curvatures[i]
        if starts.size == 0:
            x = values[i * d : (i + 1) * d]
            for j in range(d):
                out[j] += weight * x[j]
                squares[j] += curvature * x[j] * x[j]
        else:
            ask_ahead(values, columns, starts, rows, k)
            for e in range(np.uint64(starts[i]), np.uint64(starts[i + 1])):
                out[np.uint64(columns[e])] += weight * values[e]
                squares[np.uint64(columns[e])] += curvature * values[e] * values[e]
        out[d] += weight * bias
        squares[d] += curvature * bias * bias


@njit(cache=True, nogil=True)
def _multiply_rows(
    flat: FlatRows, bias: float, rows: Array, weights: Array, scale: float, v: Array, out: Array
) -> None:
    values, columns, starts = flat.values, flat.columns, flat.starts
    d = v.size - 1
    for k in range(rows.size):
        i = rows[k]
        if starts.size == 0:
            x = values[i * d : (i + 1) * d]
            weight = scale * weights[i] * (dot_dense(x, v) + bias * v[d])
            add_dense(x, weight, out)
        else:
            ask_ahead(values, columns, starts, rows, k)
            first, past = np.uint64(starts[i]), np.uint64(starts[i + 1])
            weight = scale * weights[i] * (dot_sparse(values, columns, first, past, v) + bias * v[d])
            add_sparse(values, columns, first, past, weight, out)
        out[d] += weight * bias


@njit(cache=True, nogil=True)
def _add_and_clear(sums: Array, first: int, out: Array) -> None:
    for part in range(sums.shape[0]):
        for j in range(out.size):
            out[j] += sums[part, first + j]
            sums[part, first + j] = 0.0
