"""Passes the rows of a file to a sink block by block, and computes the summary of the file."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from app.datasets.formats.array_checks import all_finite
from app.datasets.formats.column_roles import Roles, Source, nameless_detail
from app.datasets.formats.column_warnings import LEFT_OUT_INDEX
from app.datasets.formats.column_watch import ColumnWatch, is_identifier_name, is_index_name
from app.datasets.formats.feature_columns import Features
from app.datasets.formats.guess import Conventions
from app.datasets.formats.label_column import LabelColumn
from app.datasets.formats.labels import Codes, Encoded, Verdict, check_storable
from app.datasets.formats.table import ColumnSummary, FileError, FileWarning, InvalidFile, ReadOptions, Summary, plural
from app.datasets.formats.words import WordCells
from app.tabular.types import Array

__all__ = ["Block", "Collector", "MemorySink", "Sink", "SparseRows", "is_clean"]

FEWEST_ROWS = 20
"""Minimum rows of a file from which columns are left out. In fewer rows, all values of a column can differ by
chance. Larger: fewer columns are left out. Set by hand; no measurement is recorded."""
MAX_ID_COLUMNS = 4
"""Maximum columns with the name of an identifier whose values are compared. Larger: more memory."""


class Sink(Protocol):
    """Stores the growing arrays of a table. A sink copies rows, so the caller can overwrite them after each call."""

    def append(self, name: str, rows: Array) -> None:
        """Append rows to an array. The first call creates it with this dtype and width."""

    def store(self, name: str, rows: Array) -> None:
        """Store a complete array. Fast enough to be called for thousands of small arrays."""

    def rewrite(self, name: str, change: Callable[[Array], Array]) -> None:
        """Replace the rows of an array by the result of `change`, block by block."""

    def rename(self, name: str, new_name: str) -> None:
        """Change the name of an array that rows were appended to."""

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
        self._arrays[name] = change(self._arrays[name][: self._n_rows[name]].copy())

    def rename(self, name: str, new_name: str) -> None:
        self._arrays[new_name] = self._arrays.pop(name)
        self._n_rows[new_name] = self._n_rows.pop(name)

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
    """A block of rows. The target holds numbers (float64) or encoded strings; None: the file has no labels.

    Three mappings are by feature number. `words` has the cells of text columns; their columns of X are filled later.
    `missing` has the number of missing values (NaN in X). `marks` has the texts that stood for missing values.
    """

    X: Array | SparseRows
    target: Array | Encoded | None
    weight: Array | None = None
    group: Encoded | None = None
    words: Mapping[int, WordCells] = field(default_factory=dict)
    missing: Mapping[int, int] = field(default_factory=dict)
    marks: Mapping[int, Counter[str]] = field(default_factory=dict)
    dropped: int = 0
    """Number of rows that were left out because they have no label."""

    def rows(self, keep: Array) -> "Block":
        """Return the rows of a dense block where `keep` is true. `missing` is counted again."""
        assert isinstance(self.X, np.ndarray)
        X = self.X[keep]
        gone = {number: int(np.count_nonzero(np.isnan(X[:, number]))) for number in self.missing}
        return replace(
            self,
            X=X,
            weight=None if self.weight is None else self.weight[keep],
            group=None if self.group is None else (self.group[0], self.group[1][keep]),
            words={number: cells._replace(places=cells.places[keep]) for number, cells in self.words.items()},
            missing={number: count for number, count in gone.items() if count},
        )


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
        self.labels = LabelColumn()
        self._id_columns: list[int] = []
        self.clear()

    def prepare(
        self,
        options: ReadOptions,
        conventions: Conventions,
        roles: Roles,
        names: Sequence[str] | None,
        *,
        may_be_numbers: bool,
    ) -> None:
        """Set what the read options and the names of the columns say. `may_be_numbers`: whether text can be numbers, as
        in CSV."""
        self.features.conventions = conventions
        forced = None if roles.target is None else roles.choices.get(roles.target)
        self.labels.prepare(options, conventions, forced, may_be_numbers=may_be_numbers)
        named = enumerate(roles.features)
        self._id_columns = [k for k, j in named if names is not None and is_identifier_name(names[j])][:MAX_ID_COLUMNS]
        self.clear()

    def clear(self) -> None:
        """Discard all rows, but keep the kinds of features that were found so far."""
        self.n_rows = 0
        self.nnz = 0
        self._sparse = False
        self._dtype: np.dtype[np.floating[Any]] | None = None
        self._is_labelled = False
        self._watch = ColumnWatch(self._id_columns)
        self._groups = Codes()
        self.labels.clear()
        self.features.clear()
        self._sink.clear()

    def add(self, block: Block) -> None:
        y = None
        if block.target is not None:
            self._is_labelled = True
            y, keep = self.labels.add(block.target)
            self.labels.n_dropped += block.dropped
            block = block if keep is None else block.rows(keep)
        if isinstance(block.X, SparseRows):
            self._add_sparse(block.X)
            n_rows = len(block.X.indptr) - 1
        else:
            n_rows = len(block.X)
            self._add_dense(block.X, block)
            if self.features.spoilt:
                self.n_rows += n_rows
                return
        if block.weight is not None:
            self._sink.append("weight", block.weight)
        if block.group is not None:
            self._sink.append("group", self._groups.encode(block.group))
        if y is not None:
            self._sink.append("y", y)
        self.n_rows += n_rows

    def settled(self) -> bool:
        """Return whether labels and features are stored as what they are. If not, the file must be read again."""
        labels = self.labels.settled()
        return self.features.settled() and labels

    def _add_dense(self, X: Array, block: Block) -> None:
        if block.words or block.missing:
            self.features.add(X, block.words, block.missing, block.marks)
            self.nnz -= int(np.count_nonzero(np.isnan(X)))
        if not self.features.spoilt:
            self._watch.add(X)
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

    def shift_indices(self, by: int) -> None:
        """Add `by` to the column indices of all rows stored so far."""
        if self._sparse:
            self._sink.rewrite("indices", lambda indices: indices + np.int32(by))

    def finish(self, n_features: int, warnings: list[FileWarning], source: Source | None = None) -> Summary:
        """Finish the table and return its summary. `source` describes the columns of the file; None for libsvm and
        npz."""
        words, (counts, hint, label_warnings) = self.labels.words, self._judge_labels(source)
        if (ranks := self.labels.ranks) is not None:
            self._sink.rewrite("y", lambda codes: ranks[codes])
        left_out = {} if source is None else self._left_out(source)
        kept_nnz = self.features.finish(left_out)
        self.nnz = self.nnz if kept_nnz is None else kept_nnz
        n_features -= len(left_out)
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

    def _judge_labels(self, source: Source | None) -> Verdict:
        if not self._is_labelled:
            return [], None, []
        return self.labels.judge(None if source is None or source.roles.target is None else source.target)

    def _left_out(self, source: Source) -> dict[int, str]:
        """Return the features to leave out, with the reason: identifiers and row numbers. Raises InvalidFile for a
        column without a name that does not number the rows."""
        nameless = [k for k, j in enumerate(source.roles.features) if j in source.nameless]
        indexes = {k for k in self._watch.sequence if is_index_name(source.feature_name(k)) and self._watch.starts(k)}
        for number in nameless:
            if number not in indexes:
                column = source.roles.features[number]
                raise InvalidFile([FileError(source.header_line, column + 1, "missing_name", nameless_detail(column))])
        found = dict.fromkeys(indexes, LEFT_OUT_INDEX)
        if source.names is not None and self._is_labelled and self.n_rows >= FEWEST_ROWS:
            reasons = self.features.identifiers(self._watch)
            found = {k: reason for k, reason in reasons.items() if not source.is_chosen(k)} | found
        if len(found) < len(source.roles.features):
            return found
        return {k: found[k] for k in indexes} if len(indexes) < len(source.roles.features) else {}

    def _describe(self, summary: Summary, source: Source) -> None:
        summary.target = source.target
        summary.warnings += self.features.warnings(source)
        if source.names is None and self.features.plain:
            return
        features = self.features.describe(source, self.n_rows)
        summary.feature_names = [column.name for column in features if column.role == "feature"]
        others = sorted(set(range(source.n_columns)).difference(source.roles.features))
        summary.columns = [
            *(column for column in features if column.role == "feature"),
            *(self._describe_other(j, summary, source) for j in others),
            *(column for column in features if column.role == "ignored"),
        ]
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
        reason, form = f"all {self.n_rows} cells are numbers", None
        if role == "target" and self.labels.format is not None:
            reason, form = self.labels.format.reason, self.labels.format.format.to_dict() or None
        return ColumnSummary(name, role, "numeric", 0, None, reason, form)
