"""Splits rows into training and held-out rows, once or by folds."""

import numpy as np

from app.jobs.schemas import SplitByShare
from app.tabular.types import Array


def split_rows(
    y: Array, split: SplitByShare, *, group: Array | None = None, has_classes: bool = True
) -> tuple[Array, Array]:
    """Return (training rows, held-out rows), both ascending. The same seed gives the same split.

    Stratified: the same share of each class is held out, rounded; a class of one row stays in training. By group: whole
    groups are held out, until their rows are as close to the share as possible.
    """
    random = np.random.default_rng(split.seed)
    held_out = np.zeros(len(y), dtype=bool)
    if group is not None:
        held_out = _draw_groups(group, split.test, random)
    else:
        is_stratified = split.stratify and has_classes
        strata = [np.flatnonzero(y == value) for value in np.unique(y)] if is_stratified else [np.arange(len(y))]
        for rows in strata:
            count = min(round(split.test * len(rows)), len(rows) - 1)
            held_out[random.permutation(rows)[:count]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def draw_folds(y: Array, folds: int, seed: int, *, group: Array | None = None, has_classes: bool = True) -> Array:
    """Return the fold of each row, from 0.

    By group: whole groups are assigned, the largest first, each to the fold with the fewest rows so far. Otherwise the
    sizes of the folds differ by at most one row. If there are classes, the rows of each class per fold also differ by
    at most one.
    """
    random = np.random.default_rng(seed)
    if group is not None:
        return _deal_groups(group, folds, random)
    order = random.permutation(len(y))
    if has_classes:
        order = order[np.argsort(y[order], kind="stable")]
    fold_of_row = np.empty(len(y), dtype=np.int64)
    fold_of_row[order] = np.arange(len(y)) % folds
    return fold_of_row


def _draw_groups(group: Array, share: float, random: np.random.Generator) -> Array:
    _, number, sizes = np.unique(group, return_inverse=True, return_counts=True)
    order = random.permutation(len(sizes))
    misses = np.abs(np.cumsum(sizes[order]) - share * len(group))
    drawn = np.zeros(len(sizes), dtype=bool)
    drawn[order[: min(int(misses.argmin()) + 1, len(sizes) - 1)]] = True
    held_out: Array = drawn[number]
    return held_out


def _deal_groups(group: Array, folds: int, random: np.random.Generator) -> Array:
    _, number, sizes = np.unique(group, return_inverse=True, return_counts=True)
    order = random.permutation(len(sizes))
    fold_of_group = np.empty(len(sizes), dtype=np.int64)
    rows_of_fold = np.zeros(folds, dtype=np.int64)
    for one in order[np.argsort(-sizes[order], kind="stable")]:
        fold = int(rows_of_fold.argmin())
        fold_of_group[one] = fold
        rows_of_fold[fold] += sizes[one]
    dealt: Array = fold_of_group[number]
    return dealt
