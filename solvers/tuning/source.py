"""The rows of a search: taken from X, or made for each fold by the caller's function, which learns its preprocessing
from the training rows alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.data.blocks import RowBlocks
from solvers.data.rows import Rows, as_rows
from solvers.errors import InvalidProblem, UnsupportedProblem
from solvers.linalg.types import Array
from solvers.problem.labels import Labels, read_labels
from solvers.tuning.folds import Fold

__all__ = ["FoldRows", "Prepare", "RowNumbers", "Source", "Subject", "read_source", "some_labels", "truth_of"]

RowNumbers = NDArray[np.int64]

Prepare = Callable[[int, RowNumbers, RowNumbers], tuple[Any, Any]]
"""(number of the variant, training rows, held-out rows) -> (X of the training rows, X of the held-out rows). The second
list of row numbers is empty for the training of all rows; its X is then not read."""


@dataclass(frozen=True, eq=False)
class Subject:
    """Rows to train on."""

    data: Rows
    labels: Labels
    sample_weight: Array | None
    query_groups: Array | None = None
    """Task ordinal: only rows of one group are compared."""

    @property
    def truth(self) -> Array:
        """The index of each row's class, or its target."""
        return truth_of(self.labels)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.data.flat())


class FoldRows(NamedTuple):
    """The rows of one fold."""

    fold: Fold
    training: Subject
    held_out: Rows
    truth: Array
    """Class index or target of each held-out row."""

    @property
    def nbytes(self) -> int:
        return self.training.nbytes + sum(part.nbytes for part in self.held_out.flat())


@dataclass(frozen=True, eq=False)
class Source:
    """All rows of a search."""

    data: Rows | None
    """None if `prepare` makes the rows."""
    labels: Labels
    sample_weight: Array | None
    query_groups: Array | None = None
    prepare: Prepare | None = None

    @property
    def truth(self) -> Array:
        """The index of each row's class, or its target."""
        return truth_of(self.labels)

    def rows_of(self, fold: Fold, variant: int) -> FoldRows:
        """Return the rows of a fold: copies, or what `prepare` makes for this variant."""
        if self.prepare is None:
            assert self.data is not None
            trained, held_out = self.data.taken(fold.training), self.data.taken(fold.held_out)
        else:
            trained, held_out = self._prepared(fold, variant)
        return FoldRows(fold, self._subject(trained, fold.training), held_out, self.truth[fold.held_out])

    def whole(self, variant: int) -> Subject:
        """Return all rows with the preprocessing of this variant."""
        if self.prepare is None:
            assert self.data is not None
            return Subject(self.data, self.labels, self.sample_weight, self.query_groups)
        everything = np.arange(self.labels.n_rows, dtype=np.int64)
        made = self.prepare(variant, everything, everything[:0])[0]
        return self._subject(_read_prepared(made, everything.size), everything)

    def _prepared(self, fold: Fold, variant: int) -> tuple[Rows, Rows]:
        assert self.prepare is not None
        made = self.prepare(variant, fold.training, fold.held_out)
        trained, held_out = (
            _read_prepared(one, rows.size) for one, rows in zip(made, (fold.training, fold.held_out), strict=True)
        )
        if held_out.n_features != trained.n_features:
            raise InvalidProblem(
                "prepare",
                f"gave {trained.n_features} columns of training rows and {held_out.n_features} of held-out rows",
            )
        return trained, held_out

    def _subject(self, data: Rows, rows: RowNumbers) -> Subject:
        weight, groups = self.sample_weight, self.query_groups
        return Subject(
            data,
            some_labels(self.labels, rows),
            None if weight is None else weight[rows],
            None if groups is None else groups[rows],
        )


def read_source(
    X: Any, y: Any, task: str, *, sample_weight: Any = None, query_groups: Any = None, prepare: Prepare | None = None
) -> Source:
    """Check the rows, labels and weights of a search."""
    if prepare is not None and not callable(prepare):
        raise InvalidProblem("prepare", "must be a function of a variant, training rows and held-out rows")
    if X is None and prepare is None:
        raise InvalidProblem("X", "is needed unless prepare makes the rows")
    data = None if prepare is not None else as_rows(X, compress=True)
    if isinstance(data, RowBlocks):
        raise UnsupportedProblem("X", "comes in blocks, and folds need row access; give an array or a CSR matrix")
    labels = read_labels(y, task)
    if data is not None and labels.n_rows != data.n_rows:
        raise InvalidProblem("y", f"has {labels.n_rows} labels for {data.n_rows} rows of X")
    weight, groups = (
        _column(one, name, labels.n_rows)
        for one, name in ((sample_weight, "sample_weight"), (query_groups, "query_groups"))
    )
    return Source(data, labels, weight, groups, prepare)


def some_labels(labels: Labels, rows: RowNumbers) -> Labels:
    """Return the labels of some rows; all classes stay, with or without rows."""
    codes = labels.codes[rows] if labels.values is None else labels.codes
    return Labels(labels.classes, codes, None if labels.values is None else labels.values[rows])


def truth_of(labels: Labels) -> Array:
    return labels.codes if labels.values is None else labels.values


def _column(values: Any, argument: str, n_rows: int) -> Array | None:
    if values is None:
        return None
    column = np.asarray(values)
    if column.shape != (n_rows,):
        raise InvalidProblem(argument, f"has shape {column.shape}; one value for each of the {n_rows} rows is needed")
    return column


def _read_prepared(made: Any, n_rows: int) -> Rows:
    rows = as_rows(made, compress=True)
    if isinstance(rows, RowBlocks) or rows.n_rows != n_rows:
        raise InvalidProblem("prepare", f"gave {rows.n_rows} rows for {n_rows} row numbers")
    return rows
