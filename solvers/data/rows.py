"""Views of the rows of X, which provide every pass over the data.

A view holds X as it was given (float32 or float64, CSR or dense C-ordered, in memory or memory-mapped) without a copy.
It provides products of X with a vector and of a vector with X, in float64. Methods that work row by row use the arrays
of `CsrRows` and `DenseRows` directly. Arrays that are passed to kernels are read-only views: numba compiles separate
versions for read-only and writable arrays, so ordinary and memory-mapped data share one version. Column numbers are
unsigned, so kernels need no test for negative indices.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse

from solvers.data.compression import compressed
from solvers.data.inspection import (
    BAD_COLUMN,
    BAD_STARTS,
    DUPLICATE_COLUMN,
    are_columns_ordered,
    first_nonfinite_entry,
    inspect_csr,
    squared_norms_csr,
    squared_norms_dense,
)
from solvers.errors import InvalidProblem
from solvers.linalg.compensated import (
    compensated_column_sums_csr,
    compensated_column_sums_dense,
    compensated_margins_csr,
    compensated_margins_dense,
)
from solvers.linalg.gram import add_gram_csr, add_gram_rows, gram_room
from solvers.linalg.products import (
    add_column_sums_csr,
    add_column_sums_dense,
    add_pair_sums_csr,
    add_pair_sums_dense,
    both_products_csr,
    both_products_dense,
    class_scores_csr,
    class_scores_dense,
    copy_rows_csr,
    margins_csr,
    margins_dense,
)
from solvers.linalg.row import FlatRows
from solvers.linalg.types import Array, Floats

__all__ = ["CsrRows", "DenseRows", "Rows", "as_rows", "read_only"]

_SAMPLED = 20_000
_EPS, _LEAST = 2.0**-52, 2.0**-1074


class Rows(ABC):
    """A table of n_rows x n_features numbers that can be read in row order."""

    n_rows: int
    n_features: int
    stored_entries: int
    sparse: bool

    @abstractmethod
    def flat(self) -> FlatRows:
        """Return all rows as one record, for kernels that take dense and sparse rows."""

    @abstractmethod
    def margins(self, w: Floats, out: Floats) -> None:
        """Write x_i . w to out[i]."""

    @abstractmethod
    def add_weighted_column_sums(self, v: Floats, out: Floats) -> None:
        """Add sum_i v_i x_i to out."""

    def weighted_column_sums(self, v: Floats, out: Floats) -> None:
        """Write sum_i v_i x_i to out."""
        out[:] = 0.0
        self.add_weighted_column_sums(v, out)

    @abstractmethod
    def margins_and_column_sums(self, w: Floats, v: Floats, margins: Floats, sums: Floats) -> None:
        """Write x_i . w to margins[i] and add sum_i v_i x_i to sums, in one pass."""

    @abstractmethod
    def compensated_margins(self, w: Floats, high: Floats, low: Floats, size: Floats) -> None:
        """Write x_i . w to high[i] + low[i], in about twice the precision of a double, and sum_j |x_ij w_j| to
        size[i]."""

    @abstractmethod
    def add_compensated_column_sums(self, v: Floats, high: Floats, low: Floats, size: Floats) -> None:
        """Add sum_i v_i x_i to high + low, in about twice the precision of a double, and sum_i |v_i x_i| to size."""

    @abstractmethod
    def taken(self, rows: Array) -> "Rows":
        """Return a copy of these rows, in this order."""

    @property
    @abstractmethod
    def longest_row(self) -> int:
        """The largest number of stored entries in a row."""

    @abstractmethod
    def squared_norms(self) -> Floats:
        """Return |x_i|^2 of every row."""

    def lengths(self) -> Floats:
        """Return upper bounds of |x_i|, rounding and underflow included, too large by at most the fraction 2^-40."""
        entries = self.longest_row
        with np.errstate(over="ignore"):
            lengths: Floats = np.sqrt(self.squared_norms() * (1.0 + (entries + 4) * _EPS) + (entries + 1) * _LEAST)
            lengths *= 1.0 + 2.0 * _EPS
            (overflowed,) = np.nonzero(~np.isfinite(lengths))
            if overflowed.size:  # the square overflows, but the norm need not
                largest = float(np.abs(self.taken(overflowed).flat()[0]).max())
                lengths[overflowed] = largest * np.sqrt(entries) * (1.0 + 4.0 * _EPS)
        return lengths

    def usable_squared_norms(self) -> Floats:
        """Return |x_i|^2 for every row; raise an error that names the first row for which it overflows."""
        norms = self.squared_norms()
        if not np.isfinite(norms).all():
            row = int(np.flatnonzero(~np.isfinite(norms))[0])
            raise InvalidProblem("X", f"row {row} (counted from 0) is too large to be squared; rescale X")
        return norms

    @abstractmethod
    def mean_squared_norm(self) -> float:
        """Estimate the mean of |x_i|^2 from a sample of the stored entries."""

    @abstractmethod
    def add_gram(self, v: Floats, constant: float, out: Floats) -> None:
        """Add the upper triangle of sum_i v_i h_i h_i' to out, h_i = (x_i, constant). Rows with v_i = 0 are skipped."""

    @abstractmethod
    def class_scores(self, W: Floats, constant: float, out: Floats) -> None:
        """Write h_i . W[m] to out[i, m], with h_i = (x_i, constant)."""

    @abstractmethod
    def add_pair_sums(self, v: Floats, plus: Array, minus: Array, constant: float, out: Floats) -> None:
        """Add v_i h_i to out[plus_i] and subtract it from out[minus_i]; skip rows with v_i = 0 or plus_i = minus_i."""

    def _first_nonfinite_entry(self) -> int:
        """Return the index of the first NaN or infinity among the stored entries; -1 if there is none."""
        # Certificates and most methods need the norms anyway. If these are finite, all entries are.
        if np.isfinite(self.squared_norms()).all():
            return -1
        return int(first_nonfinite_entry(self.flat()[0]))

    @abstractmethod
    def _first_nonfinite(self) -> tuple[int, int]:
        """Return (row, column) of the first NaN or infinity, (-1, -1) if there is none."""

    def reject_unusable_values(self) -> None:
        """Raise an error that names the row and column of the first NaN or infinity."""
        row, column = self._first_nonfinite()
        if row >= 0:
            raise InvalidProblem(
                "X",
                f"row {row}, column {column} (counted from 0) is NaN or infinite; impute or drop such values first",
            )


class CsrRows(Rows):
    """Compressed sparse rows: entries `starts[i]` to `starts[i + 1]` of `values` and `columns` are row i."""

    sparse = True

    def __init__(self, values: Array, columns: Array, starts: Array, shape: tuple[int, int]) -> None:
        self.n_rows, self.n_features = shape
        self.stored_entries = values.size
        self.values = read_only(values)
        self.columns = read_only(columns.view(np.uint64 if columns.itemsize == 8 else np.uint32))
        self.starts = read_only(starts)
        self._norms: Floats | None = None
        self._longest = -1

    def flat(self) -> FlatRows:
        return FlatRows(self.values, self.columns, self.starts)

    def margins(self, w: Floats, out: Floats) -> None:
        margins_csr(self.values, self.columns, self.starts, read_only(w), out)

    def add_weighted_column_sums(self, v: Floats, out: Floats) -> None:
        add_column_sums_csr(self.values, self.columns, self.starts, read_only(v), out)

    def margins_and_column_sums(self, w: Floats, v: Floats, margins: Floats, sums: Floats) -> None:
        # The weight and the sum of a column are adjacent, so that an entry needs one cache line.
        pairs = np.zeros((self.n_features, 2))
        pairs[:, 0] = w
        both_products_csr(self.values, self.columns, self.starts, read_only(v), pairs.reshape(-1), margins)
        sums += pairs[:, 1]

    def compensated_margins(self, w: Floats, high: Floats, low: Floats, size: Floats) -> None:
        compensated_margins_csr(self.values, self.columns, self.starts, read_only(w), high, low, size)

    def add_compensated_column_sums(self, v: Floats, high: Floats, low: Floats, size: Floats) -> None:
        compensated_column_sums_csr(self.values, self.columns, self.starts, read_only(v), high, low, size)

    @property
    def longest_row(self) -> int:
        if self._longest < 0:
            self._longest = int(np.diff(self.starts).max(initial=0))
        return self._longest

    def taken(self, rows: Array) -> Rows:
        lengths = self.starts[rows + 1] - self.starts[rows]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        values, columns = (np.empty(starts[-1], dtype=one.dtype) for one in (self.values, self.columns))
        copy_rows_csr(self.values, self.columns, self.starts, read_only(rows), read_only(starts), values, columns)
        return CsrRows(values, columns, starts, (rows.size, self.n_features))

    def squared_norms(self) -> Floats:
        if self._norms is None:
            norms = np.empty(self.n_rows)
            self._longest = squared_norms_csr(self.values, self.starts, norms)
            self._norms = read_only(norms)
        return self._norms

    def mean_squared_norm(self) -> float:
        with np.errstate(over="ignore"):
            return float(self.squared_norms().mean())

    def add_gram(self, v: Floats, constant: float, out: Floats) -> None:
        add_gram_csr(self.values, self.columns, self.starts, read_only(v), constant, out)

    def class_scores(self, W: Floats, constant: float, out: Floats) -> None:
        transposed = np.ascontiguousarray(W.T)
        class_scores_csr(self.values, self.columns, self.starts, read_only(transposed), constant, out)

    def add_pair_sums(self, v: Floats, plus: Array, minus: Array, constant: float, out: Floats) -> None:
        pairs = read_only(v), read_only(plus), read_only(minus)
        add_pair_sums_csr(self.values, self.columns, self.starts, *pairs, constant, out)

    def _first_nonfinite(self) -> tuple[int, int]:
        entry = self._first_nonfinite_entry()
        if entry < 0:
            return -1, -1
        row = int(np.searchsorted(self.starts, entry, side="right")) - 1
        return row, int(self.columns[entry])


class DenseRows(Rows):
    """A C-ordered array."""

    sparse = False

    def __init__(self, values: Array) -> None:
        self.n_rows, self.n_features = values.shape
        self.stored_entries = values.size
        self.values = read_only(values)
        self._norms: Floats | None = None

    def flat(self) -> FlatRows:
        return FlatRows(self.values.reshape(-1), read_only(np.empty(0, np.uint32)), read_only(np.empty(0, np.int64)))

    def margins(self, w: Floats, out: Floats) -> None:
        margins_dense(self.values, read_only(w), out)

    def add_weighted_column_sums(self, v: Floats, out: Floats) -> None:
        add_column_sums_dense(self.values, read_only(v), out)

    def margins_and_column_sums(self, w: Floats, v: Floats, margins: Floats, sums: Floats) -> None:
        both_products_dense(self.values, read_only(w), read_only(v), margins, sums)

    def compensated_margins(self, w: Floats, high: Floats, low: Floats, size: Floats) -> None:
        compensated_margins_dense(self.values, read_only(w), high, low, size)

    def add_compensated_column_sums(self, v: Floats, high: Floats, low: Floats, size: Floats) -> None:
        compensated_column_sums_dense(self.values, read_only(v), high, low, size)

    @property
    def longest_row(self) -> int:
        return self.n_features

    def taken(self, rows: Array) -> Rows:
        return DenseRows(self.values[rows])

    def squared_norms(self) -> Floats:
        if self._norms is None:
            norms = np.empty(self.n_rows)
            squared_norms_dense(self.values, norms)
            self._norms = read_only(norms)
        return self._norms

    def mean_squared_norm(self) -> float:
        return _mean_square(self.values.reshape(-1)) * self.stored_entries / self.n_rows

    def add_gram(self, v: Floats, constant: float, out: Floats) -> None:
        rows = np.flatnonzero(v)
        add_gram_rows(*self.flat(), rows, v[rows], constant, *gram_room(out.shape[0]), out)

    def class_scores(self, W: Floats, constant: float, out: Floats) -> None:
        class_scores_dense(self.values, read_only(W), constant, out)

    def add_pair_sums(self, v: Floats, plus: Array, minus: Array, constant: float, out: Floats) -> None:
        add_pair_sums_dense(self.values, read_only(v), read_only(plus), read_only(minus), constant, out)

    def _first_nonfinite(self) -> tuple[int, int]:
        entry = self._first_nonfinite_entry()
        return (-1, -1) if entry < 0 else divmod(int(entry), self.n_features)


def read_only(array: Array) -> Array:
    """Return a view of the array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def as_rows(X: object, *, compress: bool = False) -> Rows:
    """Return a view of a numpy array or a scipy sparse matrix, and check every value. If X is already a view, return it
    unchanged.

    With `compress`, a table that is mostly zeros is copied as sparse rows, which makes repeated passes faster.
    """
    if isinstance(X, Rows):
        rows = X
    elif scipy.sparse.issparse(X):
        rows = _csr_rows(X)
    else:
        rows = _dense_rows(X)
    if compress and isinstance(rows, DenseRows) and rows.stored_entries > 0:
        parts = compressed(rows.values)
        rows = rows if parts is None else CsrRows(*parts, (rows.n_rows, rows.n_features))
    if rows.n_rows == 0:
        raise InvalidProblem("X", "has no rows; at least one row of each of two classes is needed")
    if rows.n_features == 0:
        raise InvalidProblem("X", "has no columns; at least one feature is needed")
    rows.reject_unusable_values()
    return rows


def _dense_rows(X: object) -> DenseRows:
    try:
        array = np.asarray(X)
        if array.dtype.kind in "OUS":
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidProblem("X", "is not a table of numbers; encode text and categories first") from None
    if array.dtype.kind not in "fiub":
        raise InvalidProblem("X", f"holds {array.dtype} values; real numbers are needed")
    if array.ndim != 2:
        raise InvalidProblem("X", f"has {array.ndim} dimensions; rows x features, that is 2, are needed")
    return DenseRows(np.require(array, dtype=_kept_dtype(array.dtype), requirements=["C", "A"]))


def _csr_rows(X: Any) -> CsrRows:
    if X.ndim != 2:
        raise InvalidProblem("X", f"has {X.ndim} dimensions; rows x features, that is 2, are needed")
    if X.dtype.kind not in "fiub":
        raise InvalidProblem("X", f"holds {X.dtype} values; real numbers are needed")
    matrix = X.tocsr()
    n_rows, n_features = map(int, matrix.shape)
    indices = matrix.indices
    # Wide indices are checked before they are narrowed: a wrong number could wrap around to a valid one.
    if indices.itemsize == 8 and indices.size and (indices.min() < 0 or indices.max() >= n_features):
        raise InvalidProblem("X", f"is not a valid CSR matrix: a column number is outside 0..{n_features - 1}")
    rows = _csr_arrays(matrix, n_rows, n_features)
    if are_columns_ordered(rows.columns, rows.starts, n_features):
        return rows
    last_seen = np.full(n_features, -1, dtype=np.int64)
    fault, row = inspect_csr(rows.columns, rows.starts, last_seen)
    if fault == BAD_STARTS:
        raise InvalidProblem("X", f"is not a valid CSR matrix: indptr is out of order at row {row}")
    if fault == BAD_COLUMN:
        raise InvalidProblem(
            "X", f"is not a valid CSR matrix: row {row} has a column number outside 0..{n_features - 1}"
        )
    if fault == DUPLICATE_COLUMN:
        # The norms of rows are wrong if a column occurs twice in a row. Such input is copied, and its duplicates are
        # added up.
        matrix = matrix.copy()
        matrix.sum_duplicates()
        rows = _csr_arrays(matrix, n_rows, n_features)
    return rows


def _csr_arrays(matrix: Any, n_rows: int, n_features: int) -> CsrRows:
    index_dtype = np.int32 if n_features <= np.iinfo(np.int32).max else np.int64
    # The slice drops unused capacity after the last entry, which scipy allows.
    stored = max(0, min(int(matrix.indptr[-1]), matrix.data.size, matrix.indices.size))
    return CsrRows(
        np.require(matrix.data, dtype=_kept_dtype(matrix.dtype), requirements=["C", "A"])[:stored],
        np.require(matrix.indices, dtype=index_dtype, requirements=["C", "A"])[:stored],
        np.require(matrix.indptr, dtype=np.int64, requirements=["C", "A"]),
        (n_rows, n_features),
    )


def _mean_square(values: Array) -> float:
    """Estimate the mean square from a sample. The step of the sample is odd, so that every column is sampled."""
    some = values[:: (values.size // _SAMPLED) | 1].astype(np.float64)
    with np.errstate(over="ignore"):
        return float((some * some).mean()) if some.size else 0.0


def _kept_dtype(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    return np.float32 if dtype == np.float32 else np.float64
