"""Finds columns each of which determines the label. Makes one pass over the mapped rows, or two if there are
categorical columns."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from app.datasets.inspection.findings import TINY_CLASS, Facts, Finding, columns_of, finding
from app.datasets.inspection.stored_blocks import (
    BLOCK_ENTRIES,
    ArrayFiles,
    DenseBlock,
    Integers,
    Places,
    SparseBlock,
    dense_blocks,
    sparse_blocks,
)
from app.tabular.types import Array, Floats

LEAKING_CORRELATION = 0.9999
"""Absolute correlation with the label from which a column is reported. Larger: fewer reports. Set by hand; no
measurement is recorded."""


class _Labels:
    """The labels of a dataset, read block by block."""

    def __init__(self, y: Array, classes: int) -> None:
        self._y = y
        self._top = y.max()
        self.binary = classes == 2
        sums, upper = 0.0, 0
        for block in self._blocks():
            sums += float(block.sum())
            upper += int(np.count_nonzero(block == self._top))
        self._mean = sums / len(y)
        self.std = float(np.sqrt(sum(np.square(block - self._mean).sum() for block in self._blocks()) / len(y)))
        self.counts = np.array([len(y) - upper, upper] if self.binary else [len(y), 0])

    def of(self, rows: slice) -> tuple[Integers, Floats]:
        """Return the class of each row, 0 or 1, and its label minus the mean of all labels. If there are not two
        classes, each class is 0."""
        block = np.asarray(self._y[rows], dtype=np.float64)
        codes = (block == self._top) if self.binary else np.zeros(len(block))
        return codes.astype(np.int64), block - self._mean

    def _blocks(self) -> Iterator[Floats]:
        for first in range(0, len(self._y), BLOCK_ENTRIES):
            yield np.asarray(self._y[first : first + BLOCK_ENTRIES], dtype=np.float64)


def find_leaks(files: ArrayFiles, facts: Facts, figures: Array) -> Iterator[Finding]:
    """Report columns each of which determines the label. Such a column was probably recorded after the label."""
    y = files.map("y")
    if y is None:  # the file has no labels
        return
    labels = _Labels(y, len(facts.classes))
    leaking = _leaking_numbers(files, facts, figures, labels)
    leaking &= facts.of_kind(figures["column"], "numeric", "boolean", "date")
    if facts.classes and not files.sparse:
        leaking |= _leaking_levels(files, y)
    if leaking.any():
        found = np.asarray(figures["column"])[leaking]
        detail = f"{len(found)} column(s) predict the label (nearly) perfectly without any other column."
        remedy = "Check that the values are known before the label. If not, leave the columns out (`ignore`)."
        yield finding("warning", "leaking_columns", detail, remedy, **columns_of(found, facts))


def _leaking_numbers(files: ArrayFiles, facts: Facts, figures: Array, labels: "_Labels") -> npt.NDArray[np.bool_]:
    """Return for each column whether it correlates fully with the label, or separates two classes."""
    width = len(figures)
    covariances = np.zeros(width)
    low, high = np.full((2, width), np.inf), np.full((2, width), -np.inf)
    seen = np.zeros((2, width), dtype=np.int64)
    if files.sparse:
        places = Places(np.asarray(figures["column"]), every=width == files.n_features)
        for block in sparse_blocks(files):
            _add_sparse(block, places, *labels.of(block.rows), covariances, low, high, seen)
        has_zero = seen < labels.counts[:, None]
        low[has_zero], high[has_zero] = np.minimum(low[has_zero], 0), np.maximum(high[has_zero], 0)
        seen[:] = labels.counts[:, None]
    else:
        for dense in dense_blocks(files):
            _add_dense(dense, *labels.of(dense.rows), figures["mean"], covariances, low, high, seen)
    leaking = np.zeros(width, dtype=np.bool_)
    if not facts.labels_are_text:
        correlation = covariances / files.n_rows / (figures["std"] * labels.std)
        # Exclude nearly constant columns, in which rounding or missing values can cause such a correlation.
        judged = (figures["min"] < figures["max"]) & (figures["missing"] == 0)
        leaking |= judged & (np.abs(np.nan_to_num(correlation)) >= LEAKING_CORRELATION)
    if labels.binary:
        apart = (high[0] < low[1]) | (high[1] < low[0])
        leaking |= apart & (seen.min(axis=0) >= TINY_CLASS)
    return leaking


def _leaking_levels(files: ArrayFiles, y: Array) -> npt.NDArray[np.bool_]:
    """Return for each column whether it is categorical and the rows of every category have the same label, although
    categories have several rows."""
    leaking = np.zeros(files.n_features, dtype=np.bool_)
    levels = {j: len(strings) for j in range(files.n_features) if (strings := files.strings(f"levels.{j}"))}
    low = {j: np.full(count, np.inf) for j, count in levels.items()}
    high = {j: np.full(count, -np.inf) for j, count in levels.items()}
    n_seen = dict.fromkeys(levels, 0)
    for block in dense_blocks(files) if levels else ():
        labels = np.asarray(y[block.rows], dtype=np.float64)
        for j in levels:
            present = ~np.isnan(block.values[:, j])
            codes = block.values[present, j].astype(np.int64)
            np.minimum.at(low[j], codes, labels[present])
            np.maximum.at(high[j], codes, labels[present])
            n_seen[j] += len(codes)
    for j, count in levels.items():
        if n_seen[j] >= TINY_CLASS * count:
            used = low[j] <= high[j]
            leaking[j] = np.array_equal(low[j][used], high[j][used]) and np.ptp(low[j][used]) > 0
    return leaking


def _add_dense(
    block: DenseBlock,
    codes: Integers,
    centered: Floats,
    means: Floats,
    covariances: Floats,
    low: Floats,
    high: Floats,
    seen: Integers,
) -> None:
    covariances += centered @ (block.values - means)
    for code in (0, 1):
        values = block.values[codes == code]
        if len(values):
            np.fmin(low[code], np.fmin.reduce(values), out=low[code])
            np.fmax(high[code], np.fmax.reduce(values), out=high[code])
            seen[code] += len(values) - np.isnan(values).sum(axis=0)


def _add_sparse(
    block: SparseBlock,
    places: Places,
    codes: Integers,
    centered: Floats,
    covariances: Floats,
    low: Floats,
    high: Floats,
    stored: Integers,
) -> None:
    width = low.shape[1]
    # the labels minus their mean sum to zero, so subtracting the mean of a column would not change this sum
    columns = places.of_columns(block.columns)
    covariances += np.bincount(columns, block.values * centered[block.row_numbers], minlength=width)
    of_class = columns + width * codes[block.row_numbers]
    np.fmin.at(low.reshape(-1), of_class, block.values)
    np.fmax.at(high.reshape(-1), of_class, block.values)
    stored += np.bincount(of_class, minlength=2 * width).reshape(2, width)
