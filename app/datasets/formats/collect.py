"""Passes the rows of a file to a sink block by block, and computes the summary of the file."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from app.datasets.formats.array_checks import all_finite
from app.datasets.formats.column_roles import Source
from app.datasets.formats.feature_columns import Features
from app.datasets.formats.labels import Codes, Encoded, NumberCounts, WordCounts, check_storable
from app.datasets.formats.table import ColumnSummary, FileWarning, Summary, plural
from app.datasets.formats.words import WordCells
from app.tabular.types import Array

__all__ = ["Block", "Collector", "MemorySink", "Sink", "SparseRows", "is_clean"]


class Sink(Protocol):
    """Stores the growing arrays of a table. A sink copies rows, so the caller can overwrite them after each call."""

    def append(self, name: str, rows: Array) -> None:
        """Append rows to an array. The first call creates it with this dtype and width."""

    def store(self, name: str, rows: Array) -> None:
        """Store a complete array. Fast enough to be called for thousands of small arrays."""

    def rewrite(self, name: str, change: Callable[[Array], Array]) -> None:
        """Replace the rows of an array by the result of `change`, block by block."""

    def clear(self) -> None:
        """Remove all arrays, before the reader starts again at the first row."""


class MemorySink:
    """Stores the arrays in memory, for small files."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}  # longer than their content, so that rows can be appended without a copy
        self._n_rows: dict[str, int] = {}

    def append(self, name: str, rows: Array) -> None:
        first = self._n_rows.get(name, 0)
        past = self._n_rows[name] = first + len(rows)
        if name not in self._arrays:
            self._arrays[name] = np.empty_like(rows)
        if past > len(self._arrays[name]):
            larger = np.empty((2 * past, *rows.shape[1:]), dtype=rows.dtype)
            larger[:first] = self._arrays[name][:first]
            self._arrays[name] = larger
        self._arrays[name][first:past] = rows

    def store(self, name: str, rows: Array) -> None:
        self.append(name, rows)

    def rewrite(self, name: str, change: Callable[[Array], Array]) -> None:
        self._arrays[name] = change(self._arrays[name][: self._n_rows[name]])

    def clear(self) -> None:
        self._arrays.clear()
        self._n_rows.clear()

    def arrays(self) -> dict[str, Array]:
        return {name: array[: self._n_rows[name]] for name, array in self._arrays.items()}


class SparseRows(NamedTuple):
    """Rows in CSR form; `indptr` begins with 0."""

    data: Array
    indices: npt.NDArray[np.int32]
    indptr: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Block:
    """A block of rows. The target holds numbers (float64) or encoded strings.

    Three mappings are by feature number. `words` has the cells of text columns; their columns of X are filled later.
    `missing` has the number of missing values (NaN in X). `marks` has the texts that stood for missing values.
    """

    X: Array | SparseRows
    target: Array | Encoded
    weight: Array | None = None
    group: Encoded | None = None
    words: Mapping[int, WordCells] = field(default_factory=dict)
    missing: Mapping[int, int] = field(default_factory=dict)
    marks: Mapping[int, Counter[str]] = field(default_factory=dict)


def is_clean(block: Block) -> bool:
    """Return whether dense rows have only finite numbers, no blank labels or groups, and no negative weights."""
    numbers = [part for part in (block.target, block.weight) if isinstance(part, np.ndarray)]
    if isinstance(block.X, np.ndarray):
        if not block.missing:
            numbers.append(block.X)
        elif np.count_nonzero(np.isfinite(block.X)) != block.X.size - sum(block.missing.values()):
            return False
    words = [word for part in (block.target, block.group) if isinstance(part, tuple) for word in part[0]]
    return (
        all(all_finite(part) for part in numbers)
        and (block.weight is None or block.weight.min() >= 0)
        and all(word.strip(" \t") for word in words if isinstance(word, str))
    )


class Collector:
    """Passes blocks of rows to a sink in order, and collects the facts for the summary."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.features = Features(sink)
        self.clear()

    def clear(self) -> None:
        """Discard all rows, but keep the kinds of features that were found so far."""
        self.n_rows = 0
        self.nnz = 0
        self._sparse = False
        self._dtype: np.dtype[np.floating[Any]] | None = None
        self._labels: NumberCounts | WordCounts | None = None
        self._groups = Codes()
        self.features.clear()
        self._sink.clear()

    def add(self, block: Block) -> None:
        if isinstance(block.X, SparseRows):
            self._add_sparse(block.X)
        else:
            self._add_dense(block.X, block)
            if self.features.spoilt:
                return
        if block.weight is not None:
            self._sink.append("weight", block.weight)
        if block.group is not None:
            self._sink.append("group", self._groups.encode(block.group))
        y = self._encode_labels(block.target)
        self._sink.append("y", y)
        self.n_rows += len(y)

    def _add_dense(self, X: Array, block: Block) -> None:
        if block.words or block.missing:
            self.features.add(X, block.words, block.missing, block.marks)
            self.nnz -= int(np.count_nonzero(np.isnan(X)))
        if not self.features.spoilt:
            self._sink.append("X", self._as_before(X))
            self.nnz += int(np.count_nonzero(X))

    def _as_before(self, X: Array) -> Array:
        """Return X in the precision of the stored rows. If X needs double precision and they are single, convert them
        first."""
        if self._dtype is None:
            self._dtype = X.dtype
        if X.dtype == self._dtype:
            return X
        if self._dtype == np.float32:
            self._dtype = np.dtype(np.float64)
            self._sink.rewrite("X", lambda rows: rows.astype(np.float64))
        return X.astype(np.float64)

    def _add_sparse(self, rows: SparseRows) -> None:
        if not self._sparse:
            self._sparse = True
            self._sink.append("indptr", np.zeros(1, dtype=np.int64))
        self._sink.append("indptr", rows.indptr[1:] + self.nnz)
        self._sink.append("indices", rows.indices)
        self._sink.append("data", rows.data)
        self.nnz += len(rows.data)

    def _encode_labels(self, target: Array | Encoded) -> Array:
        if isinstance(target, tuple):
            self._labels = self._labels or WordCounts()
            assert isinstance(self._labels, WordCounts)
            return self._labels.encode(target)
        self._labels = self._labels or NumberCounts()
        assert isinstance(self._labels, NumberCounts)
        self._labels.add(target)
        return target

    def shift_indices(self, by: int) -> None:
        """Add `by` to the column indices of all rows stored so far."""
        if self._sparse:
            self._sink.rewrite("indices", lambda indices: indices + np.int32(by))

    def finish(self, n_features: int, warnings: list[FileWarning], source: Source | None = None) -> Summary:
        """Finish the table and return its summary. `source` describes the columns of the file; None for libsvm and
        npz."""
        assert self._labels is not None, "a table has rows"
        words: list[str] | None = None
        if isinstance(self._labels, WordCounts):
            words = sorted(self._labels.words)
            ranks = self._labels.ranks()
            if not np.array_equal(ranks, np.arange(len(ranks))):
                self._sink.rewrite("y", lambda codes: ranks[codes])
        self.nnz = self.features.finish() or self.nnz
        counts, hint, label_warnings = self._labels.judge()
        summary = Summary(
            storage="csr" if self._sparse else "dense",
            n_rows=self.n_rows,
            n_features=n_features,
            nnz=self.nnz,
            label_kind="number" if words is None else "string",
            task_hint=hint,
            labels=words,
            class_counts=counts,
            warnings=[*warnings, *label_warnings],
        )
        if source is not None:
            self._describe(summary, source)
        return summary

    def _describe(self, summary: Summary, source: Source) -> None:
        summary.target = source.name(source.roles.target)
        summary.warnings += self.features.warnings(source)
        if source.names is None and self.features.plain:
            return
        features = self.features.describe(source, self.n_rows)
        summary.feature_names = [column.name for column in features]
        others = sorted(set(range(source.n_columns)).difference(source.roles.features))
        summary.columns = [*features, *(self._describe_other(j, summary, source) for j in others)]
        check_storable([column.name for column in summary.columns])

    def _describe_other(self, column: int, summary: Summary, source: Source) -> ColumnSummary:
        name, role = source.name(column), source.role(column)
        if role == "target" and summary.labels is not None:
            levels = len(summary.labels)
            return ColumnSummary(name, role, "categorical", 0, levels, plural(levels, "distinct value"))
        if role == "group":
            levels = len(self._groups.known)
            return ColumnSummary(name, role, "categorical", 0, levels, plural(levels, "distinct value"))
        if role == "ignored":
            return ColumnSummary(name, role)
        return ColumnSummary(name, role, "numeric", 0, None, f"all {self.n_rows} cells are numbers")
