"""Reads npz archives: arrays X and y, or the CSR parts data, indices, indptr, shape and y; optionally weight and group.

float32 stays float32; other numbers become float64. Boolean labels become the classes `false` and `true`. CSR rows
whose indices do not ascend are sorted, with a warning. In errors, `line` is the number of the row, and both line and
column count from 1.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from app.datasets.formats.array_checks import BlockFaults, all_finite, rows_a_block
from app.datasets.formats.collect import Block, Collector, SparseRows
from app.datasets.formats.compressed import Ceiling
from app.datasets.formats.labels import encode_list
from app.datasets.formats.npz_members import Member, open_members, refuse
from app.datasets.formats.table import COUNTED_ERRORS, ErrorLog, FileWarning, ReadOptions, Summary, excerpt, plural
from app.tabular.types import Array

__all__ = ["read_npz"]

DENSE = {"X", "y"}
SPARSE = {"data", "indices", "indptr", "shape", "y"}
OPTIONAL = {"weight", "group"}
SCIPY_FORMAT = "format"
"""Name of the array in which scipy's save_npz stores the matrix format, such as csr or csc."""
NUMBERS, INTEGERS, WORDS = "fiub", "iu", "US"
MAX_FEATURES = 2**31 - 1
"""Maximum number of features, because indices are 32-bit integers."""
BLOCK_ROWS = 1 << 16
"""Rows of a CSR matrix per read. Larger: fewer calls, more memory. Set by hand; no measurement is recorded."""


def read_npz(path: Path, options: ReadOptions, collector: Collector, ceiling: Ceiling) -> Summary:
    with open_members(path, frozenset(options.ignore), ceiling, _check_names) as members:
        others = _Others(members)
        if "indptr" in members:
            return _SparseReader(members, others, collector).read()
        return _read_dense(members["X"], others, collector)


def _check_names(found: set[str]) -> None:
    needed = SPARSE if "indptr" in found else DENSE
    what = "X and y, or data, indices, indptr, shape and y; weight and group are optional"
    if missing := sorted(needed - found):
        raise refuse("missing_array", f"There is no array {excerpt(missing[0])} in the archive; it needs {what}.")
    extra = found - needed - OPTIONAL - ({SCIPY_FORMAT} if needed == SPARSE else set())
    if extra:
        name = excerpt(min(extra))
        raise refuse("unknown_array", f"The array {name} is not read; name it in ignore. An archive contains {what}.")


def _as_float(values: Array) -> Array:
    """Convert float16 to float32, keep float32, and convert all other types to float64."""
    if values.dtype.kind == "f" and values.dtype.itemsize <= 4:
        return values.astype(np.float32, copy=False)
    return values.astype(np.float64, copy=False)


def _read_dense(X: Member, others: "_Others", collector: Collector) -> Summary:
    X.check(2, NUMBERS, "numbers")
    n_features = X.shape[1]
    if n_features == 0:
        raise refuse("no_features", "The array 'X' has no columns; add at least one feature.")
    others.check_lengths("X", X.n_rows)
    faults = ErrorLog()
    step = rows_a_block(8 * n_features)
    for first in range(0, X.n_rows, step):
        rows = _as_float(X.read(min(step, X.n_rows - first)))
        found = BlockFaults()
        if not all_finite(rows):
            for j in np.flatnonzero(~np.isfinite(rows).all(axis=0)):
                found.check_numbers(rows[:, j], int(j) + 1, f"Column {j + 1} of X")
        block = others.read(rows, len(rows), n_features, found)
        found.log(faults, first)
        if faults.full:
            break
        if not faults:
            collector.add(block)
    faults.raise_if_any()
    return collector.finish(n_features, [])


class _Others:
    """Reads the arrays with one value per row: y, and weight and group if the archive has them."""

    def __init__(self, members: dict[str, Member]) -> None:
        self._y = members["y"]
        self._weight = members.get("weight")
        self._group = members.get("group")
        self._y.check(1, NUMBERS + WORDS, "numbers or strings")
        if self._weight is not None:
            self._weight.check(1, NUMBERS, "numbers")
        if self._group is not None:
            self._group.check(1, INTEGERS + WORDS, "integers or strings")

    def check_lengths(self, name: str, n_rows: int) -> None:
        for member in (self._y, self._weight, self._group):
            if member is not None and member.n_rows != n_rows:
                lengths = f"{excerpt(member.name)} has {plural(member.n_rows, 'row')}, {excerpt(name)} has {n_rows}"
                raise refuse("wrong_shape", f"The array {lengths}.")
        if n_rows == 0:
            raise refuse("no_rows", "The file has no rows of data; add rows.")

    def read(self, X: Array | SparseRows, n_rows: int, n_features: int, found: BlockFaults) -> Block:
        """Read the labels, weights and groups of the next rows and return them with their X. In errors, these arrays
        have the column numbers after the features."""
        y = _as_text(self._y.read(n_rows), "y")
        if y.dtype.kind == "b":
            y = np.where(y, "true", "false")
        if y.dtype.kind == "U":
            detail = "The label is empty; fill it in, or remove the row."
            found.add_rows(np.char.strip(y, " \t") == "", n_features + 1, "missing_value", detail)
        else:
            found.check_numbers(y, n_features + 1, "The array 'y'")
        weight = None if self._weight is None else self._weight.read(n_rows)
        if weight is not None:
            found.check_numbers(weight, n_features + 2, "The array 'weight'")
            found.check_weights(weight, n_features + 2, "The array 'weight'")
        group = None if self._group is None else _as_text(self._group.read(n_rows), "group")
        return Block(
            X,
            target=encode_list(y.tolist()) if y.dtype.kind == "U" else y.astype(np.float64),
            weight=None if weight is None else weight.astype(np.float64),
            group=None if group is None else encode_list(group.tolist()),
        )


def _as_text(values: Array, name: str) -> Array:
    if values.dtype.kind != "S":
        return values
    try:
        return np.char.decode(values, "utf-8")
    except UnicodeDecodeError:
        raise refuse(
            "not_utf8", f"The array {excerpt(name)} contains bytes that are not valid UTF-8; store strings."
        ) from None


class _SparseReader:
    """Reads CSR rows in blocks: first the row pointers of a block, then its data and indices."""

    def __init__(self, members: dict[str, Member], others: _Others, collector: Collector) -> None:
        self._data, self._indices, self._indptr = members["data"], members["indices"], members["indptr"]
        self._others = others
        self._collector = collector
        self._data.check(1, NUMBERS, "numbers")
        self._indices.check(1, INTEGERS, "integers")
        self._indptr.check(1, INTEGERS, "integers")
        if SCIPY_FORMAT in members:
            _check_format(members[SCIPY_FORMAT])
        self._n_rows, self._n_features = _read_shape(members["shape"])
        if self._indptr.n_rows != self._n_rows + 1:
            detail = f"The array 'indptr' has {self._indptr.n_rows} values; {self._n_rows} rows need one more."
            raise refuse("wrong_shape", detail)
        if self._data.n_rows != self._indices.n_rows:
            detail = f"The array 'data' has {self._data.n_rows} values, 'indices' has {self._indices.n_rows}."
            raise refuse("wrong_shape", detail)
        others.check_lengths("shape", self._n_rows)
        self._faults = ErrorLog()
        self._unsorted_rows = 0

    def read(self) -> Summary:
        end = int(self._indptr.read(1)[0])  # end of the rows read so far, as a position in data and indices
        if end != 0:
            raise refuse("bad_indptr", "The array 'indptr' must begin with 0.")
        row = 0
        while row < self._n_rows and not self._faults.full:
            pointers = self._indptr.read(min(BLOCK_ROWS, self._n_rows - row)).astype(np.int64)
            self._check_pointers(pointers, end, row)
            while len(pointers):
                n_rows = max(1, int(np.searchsorted(pointers, end + rows_a_block(12), side="right")))
                self._read_rows(np.concatenate([[end], pointers[:n_rows]]), row)
                end, row, pointers = int(pointers[n_rows - 1]), row + n_rows, pointers[n_rows:]
        self._faults.raise_if_any()
        if end != self._data.n_rows:
            detail = f"The array 'indptr' ends with {end}; 'data' has {self._data.n_rows} values."
            raise refuse("bad_indptr", detail)
        warnings = []
        if self._unsorted_rows:
            detail = f"The indices of {plural(self._unsorted_rows, 'row')} did not ascend and were sorted."
            warnings.append(FileWarning("unsorted_rows", detail))
        return self._collector.finish(self._n_features, warnings)

    def _check_pointers(self, pointers: npt.NDArray[np.int64], end: int, row: int) -> None:
        falls = np.flatnonzero(np.diff(pointers, prepend=end) < 0)
        if len(falls) or pointers[-1] > self._data.n_rows:
            at = row + int(falls[0] if len(falls) else np.argmax(pointers > self._data.n_rows)) + 1
            raise refuse(
                "bad_indptr", f"The array 'indptr' decreases, or exceeds the data, at row {at}; use save_npz of scipy."
            )

    def _read_rows(self, pointers: npt.NDArray[np.int64], row: int) -> None:
        indptr = pointers - pointers[0]
        data = _as_float(self._data.read(int(indptr[-1])))
        wide = self._indices.read(int(indptr[-1]))
        rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        found = BlockFaults()
        for k in np.flatnonzero((wide < 0) | (wide >= self._n_features))[:COUNTED_ERRORS]:
            detail = f"The index {wide[k]} is outside 0 to {self._n_features - 1}."
            found.add(rows[k], 1, "index_out_of_range", detail)
        indices, data = self._sort(wide.astype(np.int32), data, rows, found)
        for k in np.flatnonzero(~np.isfinite(data))[:COUNTED_ERRORS]:
            detail = f"Column {indices[k] + 1} has {data[k]}; only finite numbers are accepted."
            found.add(rows[k], indices[k] + 1, "not_finite", detail)
        block = self._others.read(SparseRows(data, indices, indptr), len(indptr) - 1, self._n_features, found)
        found.log(self._faults, row)
        if not self._faults:
            self._collector.add(block)

    def _sort(
        self, indices: npt.NDArray[np.int32], data: Array, rows: npt.NDArray[np.intp], found: BlockFaults
    ) -> tuple[npt.NDArray[np.int32], Array]:
        same_row = np.diff(rows) == 0
        falls = same_row & (np.diff(indices) < 0)
        if falls.any():
            self._unsorted_rows += len(np.unique(rows[1:][falls]))
            order = np.lexsort((indices, rows))
            indices, data = indices[order], data[order]
        for k in np.flatnonzero(same_row & (np.diff(indices) == 0))[:COUNTED_ERRORS]:
            found.add(rows[k], indices[k] + 1, "duplicate_index", f"The row has the index {indices[k]} twice.")
        return indices, data


def _read_shape(shape: Member) -> tuple[int, int]:
    shape.check(1, INTEGERS, "integers")
    if shape.n_rows != 2:
        raise refuse("wrong_shape", "The array 'shape' must contain two numbers.")
    n_rows, n_features = shape.read(2).tolist()
    if n_rows < 0 or not 1 <= n_features <= MAX_FEATURES:
        raise refuse(
            "wrong_shape", f"The array 'shape' has {n_rows} rows and {n_features} features; both must be valid sizes."
        )
    return n_rows, n_features


def _check_format(member: Member) -> None:
    is_short_text = member.shape == () and member.dtype.kind in WORDS and member.dtype.itemsize < 100
    if not is_short_text or _as_text(member.read(1), SCIPY_FORMAT)[0] != "csr":
        raise refuse("not_csr", "The array 'format' is not csr; convert the matrix with tocsr().")
