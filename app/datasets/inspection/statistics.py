"""Computes the statistics of every column in two passes over the mapped rows. Runs in a child process with limits.

The statistics of a text column describe the lengths of its texts. The statistics of a categorical column describe the
codes of its categories; only `top`, the most frequent categories, has a meaning.

In a sparse dataset, only columns with an entry have a record. All other columns have the record `of_zeros`. Column
numbers can be far larger than the file, so a record for each would need too much space.

Counts, range, mean, standard deviation and histogram are exact up to rounding. Quantiles are estimated from a sample of
20,000 rows, one from each of 20,000 equal parts of the file. With probability 0.99, the rank of a quantile is wrong by
at most 1.2 % of the rows (Dvoretzky-Kiefer-Wolfowitz inequality). Files with fewer rows give exact quantiles.
"""

import warnings
from typing import Any

import numpy as np

from app.datasets.formats import TooLarge
from app.datasets.inspection.stored_blocks import ArrayFiles, Integers, Places, dense_blocks, sparse_blocks
from app.storage import BlobStore
from app.tabular.types import Array, Floats

TOP = 10
"""Number of most frequent categories that are stored per column. Larger: larger statistics files. Set by hand; no
measurement is recorded."""
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
BINS = 10
"""Number of bins of a histogram. Larger: finer histograms, larger statistics files. Set by hand; no measurement is
recorded."""
SAMPLE_ROWS = 20_000
"""Number of rows in the sample for quantiles. Larger: more exact quantiles, more time. The docstring of this module
gives the error that follows from the value."""
SAMPLE_ENTRIES = 1 << 22
"""Maximum stored entries in the sample of a sparse dataset. Larger: more exact quantiles of datasets with long rows,
more memory. Set by hand; no measurement is recorded."""
SEED = 0

MOST_BYTES = 64 << 20
"""Maximum size of the stored statistics of a small dataset, in bytes. MOST_RATIO allows more for large datasets.
Larger: a client with read access can fill more of the disk. Set by hand; no measurement is recorded."""
MOST_RATIO = 8
"""Maximum ratio of the stored statistics to the dataset's arrays, in bytes. Statistics up to MOST_BYTES are always
allowed. Larger: a client with read access can fill more of the disk. Files with fewer than 23 rows exceed the ratio
8."""

# The stored array has one record per column, so a page of statistics is a slice of the mapped array.
_FIELDS: list[tuple[Any, ...]] = [
    ("column", np.int64),  # ascending
    ("count", np.int64),
    ("missing", np.int64),
    ("zeros", np.int64),
    ("min", np.float64),
    ("max", np.float64),
    ("mean", np.float64),
    ("std", np.float64),
    ("quantiles", np.float64, len(SHARES)),
    ("histogram", np.int64, BINS),
]
NUMERIC_RECORD = np.dtype(_FIELDS)
RECORD = np.dtype([*_FIELDS, ("top", np.int64, TOP), ("top_counts", np.int64, TOP)])
"""Dtype of the statistics of one column, in a dataset with categorical columns. A column with fewer than TOP categories
has zeros at the end of `top_counts`."""


def is_current(records: Array) -> bool:
    """Return whether stored statistics have the current dtype. Earlier versions stored a record for every column."""
    return records.dtype in (NUMERIC_RECORD, RECORD)


def of_zeros(n_rows: int) -> Array:
    """Return the record of a column of zeros."""
    record = np.zeros(1, dtype=NUMERIC_RECORD)
    record["count"], record["zeros"] = n_rows, n_rows
    record["histogram"][0, 0] = n_rows
    return record


def compute(files: ArrayFiles) -> tuple[str, int]:
    """Compute the statistics of a dataset and store them as a blob. Returns the SHA-256 and the size in bytes of the
    blob."""
    has_levels = any(name.startswith("levels.") for name in files.arrays)
    places = Places.of(files)
    figures = np.zeros(places.count, dtype=RECORD if has_levels else NUMERIC_RECORD)
    figures["column"] = places.numbers
    # the API returns a statistic that overflows as null
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if files.sparse:
            _describe_sparse(files, figures, places)
        else:
            _describe_dense(files, figures)
        deviations = np.sqrt(figures["std"] / figures["count"])
        figures["std"] = np.where(np.isnan(figures["mean"]), np.nan, deviations)
    blobs = BlobStore(files.blob_root, create=False)
    if files.sparse:
        figures = figures[figures["zeros"] < files.n_rows]
    most_bytes = max(MOST_BYTES, MOST_RATIO * sum(blobs.size(sha256) for sha256 in set(files.arrays.values())))
    if figures.nbytes > most_bytes:
        detail = f"The statistics of {len(figures)} columns need {figures.nbytes} bytes; the limit is {most_bytes}"
        raise TooLarge(f"{detail} for data of this size. Remove columns, or add rows.")
    sha256 = blobs.put_array(figures)
    return sha256, blobs.size(sha256)


def _describe_dense(files: ArrayFiles, figures: Array) -> None:
    sums = np.zeros(files.n_features)
    low, high = _empty_range(files.n_features)
    levels = {j: strings for j in range(files.n_features) if (strings := files.strings(f"levels.{j}"))}
    counts = {j: np.zeros(len(strings), dtype=np.int64) for j, strings in levels.items()}
    for block in dense_blocks(files):
        values = block.values
        figures["missing"] += np.isnan(values).sum(axis=0)
        figures["zeros"] += (values == 0).sum(axis=0)
        low, high = np.fmin(low, np.fmin.reduce(values)), np.fmax(high, np.fmax.reduce(values))
        sums += np.nansum(values, axis=0)
        for j, of_level in counts.items():
            codes = values[~np.isnan(values[:, j]), j].astype(np.int64)
            of_level += np.bincount(codes, minlength=len(of_level))
    for j, of_level in counts.items():
        top = np.argsort(-of_level, kind="stable")[:TOP]
        figures["top"][j, : len(top)], figures["top_counts"][j, : len(top)] = top, of_level[top]
    _set_range(figures, files.n_rows, low, high, sums)
    numbers = np.arange(files.n_features)
    for block in dense_blocks(files):
        present = ~np.isnan(block.values)
        figures["std"] += np.nansum(np.square(block.values - figures["mean"]), axis=0)
        bins = _bins(figures, numbers, block.values)
        figures["histogram"] += _count_bins(bins[present], np.broadcast_to(numbers, bins.shape)[present], len(numbers))
    figures["quantiles"] = _dense_quantiles(files, has_missing=bool(figures["missing"].any()))


def _describe_sparse(files: ArrayFiles, figures: Array, places: Places) -> None:
    width = places.count
    sums, stored = np.zeros(width), np.zeros(width, dtype=np.int64)
    low, high = _empty_range(width)
    for block in sparse_blocks(files):
        present = ~np.isnan(block.values)
        figures["missing"] += np.bincount(places.of_columns(block.columns[~present]), minlength=width)
        columns, values = places.of_columns(block.columns[present]), block.values[present]
        stored += np.bincount(columns, minlength=width)
        sums += np.bincount(columns, weights=values, minlength=width)
        np.minimum.at(low, columns, values)
        np.maximum.at(high, columns, values)
    figures["zeros"] = files.n_rows - stored - figures["missing"]
    has_zero = figures["zeros"] > 0
    low[has_zero], high[has_zero] = np.minimum(low[has_zero], 0), np.maximum(high[has_zero], 0)
    _set_range(figures, files.n_rows, low, high, sums)
    for block in sparse_blocks(files):
        present = ~np.isnan(block.values)
        columns, values = places.of_columns(block.columns[present]), block.values[present]
        figures["std"] += np.bincount(columns, np.square(values - figures["mean"][columns]), minlength=width)
        figures["histogram"] += _count_bins(_bins(figures, columns, values), columns, width)
    figures["std"] += figures["zeros"] * np.square(figures["mean"])
    every = np.arange(width)
    figures["histogram"][every, _bins(figures, every, np.zeros(width))] += figures["zeros"]
    figures["quantiles"] = _sparse_quantiles(files, places)


def _empty_range(width: int) -> tuple[Floats, Floats]:
    return np.full(width, np.inf), np.full(width, -np.inf)


def _set_range(figures: Array, n_rows: int, low: Floats, high: Floats, sums: Floats) -> None:
    figures["count"] = n_rows - figures["missing"]
    figures["min"], figures["max"] = low, high
    # rounding must not move the mean outside of the range
    means = np.clip(sums / figures["count"], low, high)
    figures["mean"] = np.where(np.isfinite(sums), means, np.nan)


def _bins(figures: Array, columns: Integers, values: Floats) -> Integers:
    """Return the bin of each value. Dividing by the width before multiplying avoids overflow for tiny ranges."""
    low, high = figures["min"][columns], figures["max"][columns]
    share = np.nan_to_num((values - low) / (high - low), nan=0.0, posinf=0.0, neginf=0.0)
    bins: Integers = np.clip((share * BINS).astype(np.int64), 0, BINS - 1)
    return bins


def _count_bins(bins: Integers, columns: Integers, width: int) -> Integers:
    return np.bincount(columns * BINS + bins, minlength=width * BINS).reshape(width, BINS)


def _sample_rows(n_rows: int, wanted: int) -> Integers:
    """Choose one row from each of `wanted` equal parts of the file, so that a sorted file is sampled evenly."""
    if n_rows <= wanted:
        return np.arange(n_rows)
    within = np.random.default_rng(SEED).random(wanted)
    return np.minimum(((np.arange(wanted) + within) * (n_rows / wanted)).astype(np.int64), n_rows - 1)


def _dense_quantiles(files: ArrayFiles, has_missing: bool) -> Floats:
    X = files.map("X")
    assert X is not None
    quantile = np.nanquantile if has_missing else np.quantile  # nanquantile is far slower
    rows = _sample_rows(files.n_rows, SAMPLE_ROWS)
    found = np.empty((files.n_features, len(SHARES)))
    at_once = max(1, SAMPLE_ENTRIES // len(rows))
    for first in range(0, files.n_features, at_once):
        some = slice(first, min(first + at_once, files.n_features))
        # numpy warns about columns without values
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            found[some] = quantile(np.asarray(X[rows, some], dtype=np.float64), SHARES, axis=0).T
    return found


def _sparse_quantiles(files: ArrayFiles, places: Places) -> Floats:
    """Compute the quantiles of mostly zero columns. Zeros are not stored; their ranks lie between those of the negative
    and the positive values."""
    values, columns, height = _sparse_sample(files)
    columns = places.of_columns(columns)
    order = np.lexsort((values, columns))
    values, columns = values[order], columns[order]
    width = places.count
    stored = np.bincount(columns, minlength=width)
    negatives = np.bincount(columns[values < 0], minlength=width)
    starts = np.concatenate([[0], np.cumsum(stored)[:-1]])
    zeros = height - stored
    padded = np.append(values, 0.0)  # an index that np.where discards must still be valid

    def value_at(rank: Integers) -> Floats:
        skipped = np.where(rank >= negatives + zeros, zeros, 0)
        is_zero = (rank >= negatives) & (rank < negatives + zeros)
        return np.where(is_zero, 0.0, padded[np.where(is_zero, len(values), starts + rank - skipped)])

    found = np.empty((width, len(SHARES)))
    for number, share in enumerate(SHARES):
        place = share * (height - 1)
        below = np.full(width, int(place))
        low, high = value_at(below), value_at(np.minimum(below + 1, height - 1))
        found[:, number] = low + (high - low) * (place - int(place))
    return found


def _sparse_sample(files: ArrayFiles) -> tuple[Floats, Integers, int]:
    """Return the values and columns of the entries of the sampled rows, and the number of sampled rows. The sample has
    fewer rows if they are long (SAMPLE_ENTRIES)."""
    data, indices, indptr = (files.map(name) for name in ("data", "indices", "indptr"))
    assert data is not None
    assert indices is not None
    assert indptr is not None
    mean_length = max(1.0, float(indptr[-1]) / files.n_rows)
    rows = _sample_rows(files.n_rows, max(1, min(SAMPLE_ROWS, int(SAMPLE_ENTRIES / mean_length))))
    starts = np.asarray(indptr[rows])
    lengths = np.asarray(indptr[rows + 1]) - starts
    entries = np.arange(int(lengths.sum())) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    values = np.asarray(data[entries], dtype=np.float64)
    kept = values != 0
    return values[kept], np.asarray(indices[entries], dtype=np.int64)[kept], len(rows)
