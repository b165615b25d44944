"""Folds: which rows are held out together. They are given, or drawn once or several times, by class, by group or
freely."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.checks import whole_number
from solvers.errors import InvalidProblem
from solvers.linalg.types import Array
from solvers.problem.labels import Labels

__all__ = ["REFIT", "SEARCH", "Fold", "draw_outer", "folds_within", "read_folds"]

MOST_FOLDS = 1000
"""Maximum number of folds of one repeat. Larger: longer searches. Leave-one-out has its own bounds (leave_one_out.py).
Set by hand; no measurement is recorded."""
SEARCH = -1
"""Value of `outer` for trainings of the search itself, which belong to no outer fold."""
REFIT = -1
"""Value of `fold` for a training on all training rows of an outer fold."""
OUTER_DRAW = 10**6
"""Index of the random stream that draws the outer folds. Repeats use the indices from 0, so it must exceed their
number."""


class Fold(NamedTuple):
    """One split: the training rows and the held-out rows, both ascending."""

    number: int
    training: NDArray[np.int64]
    held_out: NDArray[np.int64]
    outer: int = SEARCH


def read_folds(folds: Any, labels: Labels, *, groups: Any, repeats: Any, seed: int, has_ranks: bool) -> list[Fold]:
    """Return the folds. `folds` is their number, or the fold of each row.

    With a number, rows of one group stay together; without `groups`, classes are spread evenly, and a class of one row
    stays in training. Each of the `repeats`
    draws new folds. `has_ranks`: labels are ranks, and a fold may lack some of them.
    """
    n_rows = labels.n_rows
    repeats = whole_number(repeats, "repeats", InvalidProblem, low=1, high=100)
    if _is_number(folds):
        count = whole_number(folds, "folds", InvalidProblem, low=2, high=MOST_FOLDS)
        kept = None if groups is None else _codes(groups, "groups", n_rows)
        _require_enough("folds", count, n_rows, kept)
        drawn = [
            _draw(labels, count, kept, np.random.default_rng([seed, repeat]), has_ranks=has_ranks)
            for repeat in range(repeats)
        ]
    else:
        if repeats != 1:
            raise InvalidProblem("repeats", "is only used if folds is a number; leave it out")
        if groups is not None:
            raise InvalidProblem("groups", "is only used if folds is a number; leave it out")
        drawn = [_codes(folds, "folds", n_rows)]
        if not 2 <= int(drawn[0].max()) + 1 <= MOST_FOLDS:
            raise InvalidProblem("folds", f"has {int(drawn[0].max()) + 1} values; 2 to {MOST_FOLDS} are allowed")
    found = list(_numbered(drawn))
    if not has_ranks:
        _require_classes("folds", found, labels)
    return found


def draw_outer(count: Any, labels: Labels, *, groups: Any, seed: int, has_ranks: bool) -> list[Fold]:
    """Return the outer folds: each is held out from a whole search."""
    count = whole_number(count, "outer_folds", InvalidProblem, low=2, high=MOST_FOLDS)
    kept = None if groups is None else _codes(groups, "groups", labels.n_rows)
    _require_enough("outer_folds", count, labels.n_rows, kept)
    found = list(
        _numbered([_draw(labels, count, kept, np.random.default_rng([seed, OUTER_DRAW]), has_ranks=has_ranks)])
    )
    if not has_ranks:
        _require_classes("outer_folds", found, labels)
    return found


def folds_within(
    outer: Fold, folds: Any, labels: Labels, *, groups: Any, repeats: Any, seed: int, has_ranks: bool
) -> list[Fold]:
    """Return the folds of the search on the training rows of an outer fold, with the row numbers of all rows. `labels`:
    of these training rows."""
    rows = outer.training
    inner = read_folds(
        folds if _is_number(folds) else np.asarray(folds)[rows],
        labels,
        groups=None if groups is None else np.asarray(groups)[rows],
        repeats=repeats,
        seed=seed,
        has_ranks=has_ranks,
    )
    return [Fold(one.number, rows[one.training], rows[one.held_out], outer.number) for one in inner]


def _numbered(drawn: Sequence[Array]) -> Iterator[Fold]:
    number = 0
    for fold_of_row in drawn:
        for one in range(int(fold_of_row.max()) + 1):
            is_held_out = fold_of_row == one
            yield Fold(number, np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out))
            number += 1


def _draw(labels: Labels, folds: int, groups: Array | None, random: np.random.Generator, *, has_ranks: bool) -> Array:
    """Return the fold of each row; -1: the row is never held out, because it is the only one of its class."""
    if groups is not None:
        return _deal_groups(groups, folds, random)
    order = random.permutation(labels.n_rows)
    if labels.values is None:
        order = order[np.argsort(labels.codes[order], kind="stable")]
    fold_of_row = np.empty(labels.n_rows, dtype=np.int64)
    fold_of_row[order] = np.arange(labels.n_rows) % folds
    if labels.values is None and not has_ranks:
        counts = np.bincount(labels.codes, minlength=labels.classes.size)
        fold_of_row[counts[labels.codes] == 1] = -1
    return fold_of_row


def _deal_groups(groups: Array, folds: int, random: np.random.Generator) -> Array:
    """Deal whole groups, the largest first, each to the fold with the fewest rows so far."""
    sizes = np.bincount(groups)
    order = random.permutation(sizes.size)
    fold_of_group, rows_of_fold = np.empty(sizes.size, dtype=np.int64), np.zeros(folds, dtype=np.int64)
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        fold_of_group[group] = rows_of_fold.argmin()
        rows_of_fold[fold_of_group[group]] += sizes[group]
    return np.asarray(fold_of_group[groups])


def _codes(column: Any, argument: str, n_rows: int) -> Array:
    values = np.asarray(column)
    if values.shape != (n_rows,):
        raise InvalidProblem(argument, f"has shape {values.shape}; one value for each of the {n_rows} rows is needed")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise InvalidProblem(argument, f"row {row} (counted from 0) is NaN or infinite")
    try:
        return np.unique(values, return_inverse=True)[1]
    except TypeError:
        raise InvalidProblem(argument, "mixes values that cannot be sorted; give all of them one type") from None


def _is_number(folds: Any) -> bool:
    return np.ndim(folds) == 0


def _require_enough(argument: str, folds: int, n_rows: int, groups: Array | None) -> None:
    count, things = (n_rows, "rows") if groups is None else (int(groups.max()) + 1, "groups")
    if count < folds:
        raise InvalidProblem(argument, f"is {folds}, but there are {count} {things}; use at most {count}")


def _require_classes(argument: str, folds: Sequence[Fold], labels: Labels) -> None:
    """Refuse folds whose training rows lack a class."""
    if labels.values is not None:
        return
    for fold in folds:
        counts = np.bincount(labels.codes[fold.training], minlength=labels.classes.size)
        if counts.min() == 0:
            label = labels.classes[counts.argmin()]
            raise InvalidProblem(
                argument,
                f"leave class {str(label)[:60]!r} no row to train on when fold {fold.number + 1} is held out; "
                "use other folds or fewer of them",
            )
