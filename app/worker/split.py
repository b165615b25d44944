"""Which rows are for training and which are held out."""

from typing import Any

import numpy as np

from app.jobs.schemas import SplitByShare

Array = np.ndarray[Any, Any]


def split_rows(y: Array, split: SplitByShare) -> tuple[Array, Array]:
    """(training rows, held-out rows), both ascending; the same for the same seed.

    Stratified: each class gives its share, rounded; a class of one row stays in training.
    """
    random = np.random.default_rng(split.seed)
    held_out = np.zeros(len(y), dtype=bool)
    groups = [np.flatnonzero(y == value) for value in np.unique(y)] if split.stratify else [np.arange(len(y))]
    for rows in groups:
        count = min(round(split.test * len(rows)), len(rows) - 1)
        held_out[random.permutation(rows)[:count]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
