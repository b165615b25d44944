"""CSV: pyarrow converts; where it refuses, a slow second pass finds the places of the faults.

Column names come from the header or not at all; every feature is a finite decimal number; labels are
numbers if all of them are, else strings exactly as given. Blank lines are skipped. Spaces and tabs
around a number are no part of it. Nothing is changed or guessed without a warning.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from .csv_layout import NOT_FINITE, NUMBER, Layout, find_faults, find_layout
from .table import (
    FileError,
    FileWarning,
    InvalidFile,
    InvalidOption,
    ReadOptions,
    Table,
    excerpt,
    summarize_codes,
    summarize_numbers,
)
from .text import MAX_LINE_BYTES, scan_text

__all__ = ["read_csv"]

BLOCK_BYTES = 1 << 20
LARGEST_BLOCK_BYTES = 2 * MAX_LINE_BYTES


@dataclass(frozen=True)
class _Columns:
    """The converted columns of all rows; `codes` are positions in `labels`, in order of appearance."""

    X: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64] | None
    codes: npt.NDArray[np.int32]
    labels: list[str]


class _Refused(Exception):
    """The converter met something wrong after `good_rows` rows."""

    def __init__(self, good_rows: int) -> None:
        self.good_rows = good_rows
        super().__init__(good_rows)


def read_csv(path: Path, options: ReadOptions) -> Table:
    if options.index_base != "auto":
        raise InvalidOption("index_base", "Only libsvm text has an index base.")
    if options.n_features is not None:
        raise InvalidOption("n_features", "Only libsvm text takes it; a CSV has its columns.")
    delimiter = _check_delimiter(options.delimiter)
    scan = scan_text(path, delimiter)
    layout, warnings = find_layout(path, scan.start, delimiter, options)
    columns = _convert(path, layout, max_rows=scan.max_lines, has_quotes=scan.has_quotes)
    numbers = _labels_as_numbers(columns.labels)
    if any(not label.strip(" \t") for label in columns.labels) or not np.isfinite(numbers).all():
        find_faults(path, layout, numeric_labels=len(numbers) > 0).raise_if_any()
    y: npt.NDArray[Any]
    if len(numbers) > 0:
        labels = None
        y = numbers[columns.codes]
        counts, hint, label_warnings = summarize_numbers(y)
    else:
        labels = sorted(columns.labels)
        rank = {label: k for k, label in enumerate(labels)}
        y = np.array([rank[label] for label in columns.labels], dtype=np.int32)[columns.codes]
        counts, hint, label_warnings = summarize_codes(y, labels)
        label_warnings += _warn_mixed_labels(labels)
    arrays: dict[str, npt.NDArray[Any]] = {"X": columns.X, "y": y}
    if columns.weight is not None:
        arrays["weight"] = columns.weight
    names = layout.names
    return Table(
        storage="dense",
        arrays=arrays,
        n_rows=len(y),
        n_features=len(layout.features),
        nnz=int(np.count_nonzero(columns.X)),
        label_kind="number" if labels is None else "string",
        task_hint=hint,
        feature_names=None if names is None else [names[j] for j in layout.features],
        target=str(layout.target) if names is None else names[layout.target],
        labels=labels,
        class_counts=counts,
        warnings=warnings + label_warnings,
    )


def _check_delimiter(delimiter: str | None) -> str:
    if delimiter is None:
        return ","
    if delimiter == "tab":
        return "\t"
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter.isalnum() or delimiter in '"+-.\r\n\0':
        raise InvalidOption(
            "delimiter",
            "It must be 'tab' or one ASCII character that is no letter, digit, quote, sign, dot or line end.",
        )
    return delimiter


def _convert(path: Path, layout: Layout, max_rows: int, has_quotes: bool) -> _Columns:
    block_bytes = min(max(BLOCK_BYTES, 4 * layout.first_record_bytes), LARGEST_BLOCK_BYTES)
    while True:
        try:
            return _convert_blocks(path, layout, max_rows, has_quotes, block_bytes)
        except _Refused as refusal:
            find_faults(path, layout, skip_rows=refusal.good_rows).raise_if_any()
        if block_bytes == LARGEST_BLOCK_BYTES:
            detail = "The file could not be read as CSV."
            raise InvalidFile([FileError(None, None, "unreadable", detail)])
        # Nothing is wrong with any cell, so pyarrow met a record that is longer than its block.
        block_bytes = LARGEST_BLOCK_BYTES


def _convert_blocks(path: Path, layout: Layout, max_rows: int, has_quotes: bool, block_bytes: int) -> _Columns:
    X = np.empty((max_rows, len(layout.features)))
    weight = None if layout.weight is None else np.empty(max_rows)
    codes = np.empty(max_rows, dtype=np.int32)
    known: dict[str, int] = {}
    n_rows = 0
    try:
        for batch in _open_batches(path, layout, has_quotes, block_bytes):
            rows = slice(n_rows, n_rows + batch.num_rows)
            for j, column in enumerate(batch.columns[: len(layout.features)]):
                X[rows, j] = column.to_numpy()
            if not np.isfinite(X[rows]).all():
                raise _Refused(n_rows)
            if weight is not None:
                weight[rows] = batch.columns[-1].to_numpy()
                if not (np.isfinite(weight[rows]) & (weight[rows] >= 0)).all():
                    raise _Refused(n_rows)
            target = batch.columns[len(layout.features)]
            in_batch = [known.setdefault(label, len(known)) for label in target.dictionary.to_pylist()]
            codes[rows] = np.array(in_batch, dtype=np.int32)[target.indices.to_numpy()]
            n_rows += batch.num_rows
    except pa.ArrowInvalid as error:
        raise _Refused(n_rows) from error
    if n_rows == 0:
        detail = "The file has no rows of data" + (" behind its header." if layout.names else ".")
        raise InvalidFile([FileError(layout.body_line, None, "no_rows", detail)])
    return _Columns(X[:n_rows], None if weight is None else weight[:n_rows], codes[:n_rows], list(known))


def _open_batches(path: Path, layout: Layout, has_quotes: bool, block_bytes: int) -> Any:
    """Record batches whose columns are the features, the target and, if there is one, the weight."""
    with pa.memory_map(str(path)) as file:
        body = file.read_buffer()[layout.body_start :]
    if body.size == 0:
        return []
    keys = [str(j) for j in range(layout.n_columns)]  # free of the user's names, which may clash
    types = {keys[j]: pa.float64() for j in layout.numbers}
    types[keys[layout.target]] = pa.dictionary(pa.int32(), pa.string())
    wanted = [*layout.features, layout.target]
    if layout.weight is not None:
        wanted.append(layout.weight)
    return pyarrow.csv.open_csv(
        pa.BufferReader(body),
        read_options=pyarrow.csv.ReadOptions(column_names=keys, use_threads=False, block_size=block_bytes),
        parse_options=pyarrow.csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=has_quotes),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types,
            include_columns=[keys[j] for j in wanted],
            null_values=[],  # an empty cell is a fault, "NA" is a string: nothing turns into a missing value
            strings_can_be_null=False,
            check_utf8=False,  # done before
        ),
    )


def _labels_as_numbers(labels: list[str]) -> npt.NDArray[np.float64]:
    """The labels' values if all that are not blank spell numbers (finite or not), else an empty array."""
    values = []
    for label in labels:
        if NUMBER.fullmatch(label) or NOT_FINITE.fullmatch(label):
            values.append(float(label))
        elif label.strip(" \t"):
            return np.empty(0)
    return np.array(values)


def _warn_mixed_labels(labels: list[str]) -> list[FileWarning]:
    words = [label for label in labels if not NUMBER.fullmatch(label)]
    if len(words) == len(labels):
        return []
    detail = (
        f"{len(words)} of the {len(labels)} distinct labels are not numbers, such as {excerpt(words[0])}; "
        "all labels are taken as strings."
    )
    return [FileWarning("mixed_labels", detail)]
