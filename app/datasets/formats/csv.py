"""CSV: pyarrow converts; where it refuses, a slow second pass finds the places of the faults.

Column names come from the header or not at all; every feature is a finite decimal number; labels are
numbers if all of them are, else strings exactly as given. Blank lines are skipped. Spaces and tabs
around a number are no part of it. Nothing is changed or guessed without a warning.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from .csv_layout import NOT_FINITE, NUMBER, Layout, find_faults, find_layout, read_records
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
from .text import TextScan, scan_text

__all__ = ["read_csv"]

BLOCK_BYTES = 1 << 20
LARGEST_BLOCK_BYTES = 32 << 20
BLOCK_RECORDS = 128
WIDE = 10_000  # columns; from about here on pyarrow's cost of a column in a block outweighs its speed


@dataclass(frozen=True)
class _Columns:
    """The converted columns. `target` holds numbers, or codes where `labels` tells the code of each label."""

    X: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64] | None
    target: npt.NDArray[Any]
    labels: dict[str, int] | None

    @classmethod
    def empty(cls, layout: Layout, max_rows: int, labels: dict[str, int] | None) -> Self:
        weight = None if layout.weight is None else np.empty(max_rows)
        target = np.empty(max_rows, dtype=np.float64 if labels is None else np.int32)
        return cls(np.empty((max_rows, len(layout.features))), weight, target, labels)

    def cut(self, n_rows: int, layout: Layout) -> Self:
        if n_rows == 0:
            detail = "The file has no rows of data" + (" behind its header." if layout.names else ".")
            raise InvalidFile([FileError(layout.body_line, None, "no_rows", detail)])
        weight = None if self.weight is None else self.weight[:n_rows]
        return replace(self, X=self.X[:n_rows], weight=weight, target=self.target[:n_rows])


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
    # A record without a fault has this many bytes at least, so blank lines cannot make the arrays large.
    least_bytes = layout.n_columns + len(layout.numbers) + 1
    max_rows = min(scan.max_lines, path.stat().st_size // least_bytes + 1)
    columns = _convert(path, layout, max_rows, scan)
    y, labels = _encode_labels(columns)
    if not np.isfinite(y).all():
        find_faults(path, layout, numeric_labels=True).raise_if_any()
    if labels is None:
        counts, hint, label_warnings = summarize_numbers(y)
    else:
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


def _convert(path: Path, layout: Layout, max_rows: int, scan: TextScan) -> _Columns:
    # pyarrow 26 loses the line feed of a quoted CR LF where two of its blocks meet.
    if layout.n_columns > WIDE or scan.has_quoted_return:
        return _convert_records(path, layout, max_rows)
    block_bytes = max(BLOCK_BYTES, min(BLOCK_RECORDS * layout.first_record_bytes, LARGEST_BLOCK_BYTES))
    # Numbers are tried first: a real-valued target has about as many labels as rows.
    for labels in (None, dict[str, int]()):
        try:
            return _convert_blocks(path, layout, max_rows, scan.has_quotes, block_bytes, labels)
        except _Refused as refusal:
            good_rows = refusal.good_rows
    find_faults(path, layout, skip_rows=good_rows).raise_if_any()
    # Nothing is wrong with any cell, so pyarrow met a record that is longer than its block.
    return _convert_records(path, layout, max_rows)


def _convert_blocks(
    path: Path, layout: Layout, max_rows: int, has_quotes: bool, block_bytes: int, labels: dict[str, int] | None
) -> _Columns:
    """By pyarrow: fast, but each block costs time for each column, and must hold a whole record."""
    columns = _Columns.empty(layout, max_rows, labels)
    n_rows = 0
    try:
        for batch in _open_batches(path, layout, has_quotes, block_bytes, numeric_target=labels is None):
            rows = slice(n_rows, n_rows + batch.num_rows)
            target = batch.columns[len(layout.features)]
            if labels is None:
                columns.target[rows] = _checked(target.to_numpy(), n_rows)
            else:
                columns.target[rows] = _encode_batch(target, labels, n_rows)
            for j, column in enumerate(batch.columns[: len(layout.features)]):
                columns.X[rows, j] = column.to_numpy()
            _checked(columns.X[rows], n_rows)
            if columns.weight is not None:
                columns.weight[rows] = _checked(batch.columns[-1].to_numpy(), n_rows, lowest=0)
            n_rows += batch.num_rows
    except pa.ArrowInvalid:
        raise _Refused(n_rows) from None  # its message quotes the file
    return columns.cut(n_rows, layout)


def _checked(values: npt.NDArray[np.float64], good_rows: int, lowest: float = -np.inf) -> npt.NDArray[np.float64]:
    if not np.isfinite(values).all() or values.min(initial=np.inf) < lowest:
        raise _Refused(good_rows)
    return values


def _encode_batch(target: Any, labels: dict[str, int], good_rows: int) -> npt.NDArray[np.int32]:
    in_batch = target.dictionary.to_pylist()
    if not all(label.strip(" \t") for label in in_batch):
        raise _Refused(good_rows)
    codes = np.array([labels.setdefault(label, len(labels)) for label in in_batch], dtype=np.int32)
    encoded: npt.NDArray[np.int32] = codes[target.indices.to_numpy()]
    return encoded


def _convert_records(path: Path, layout: Layout, max_rows: int) -> _Columns:
    """By Python's own reader: the same result, for what pyarrow reads slowly, wrongly or not at all."""
    find_faults(path, layout).raise_if_any()
    labels: dict[str, int] = {}
    columns = _Columns.empty(layout, max_rows, labels)
    n_rows = 0
    for _, record in read_records(path, layout):
        columns.X[n_rows] = [float(record[j]) for j in layout.features]
        if layout.weight is not None and columns.weight is not None:
            columns.weight[n_rows] = float(record[layout.weight])
        columns.target[n_rows] = labels.setdefault(record[layout.target], len(labels))
        n_rows += 1
    return columns.cut(n_rows, layout)


def _open_batches(path: Path, layout: Layout, has_quotes: bool, block_bytes: int, numeric_target: bool) -> Any:
    """Record batches whose columns are the features, the target and, if there is one, the weight."""
    body_bytes = path.stat().st_size - layout.body_start
    if body_bytes == 0:
        return []
    # Not mapped: pyarrow reads ahead in a thread that may outlive this call, and with it the file.
    body = pa.OSFile(str(path)).get_stream(layout.body_start, body_bytes)
    keys = [str(j) for j in range(layout.n_columns)]  # free of the user's names, which may clash
    types = {keys[j]: pa.float64() for j in layout.numbers}
    types[keys[layout.target]] = pa.float64() if numeric_target else pa.dictionary(pa.int32(), pa.string())
    wanted = [*layout.features, layout.target]
    if layout.weight is not None:
        wanted.append(layout.weight)
    return pyarrow.csv.open_csv(
        body,
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


def _encode_labels(columns: _Columns) -> tuple[npt.NDArray[Any], list[str] | None]:
    """The array y, and the sorted labels if not all of them spell numbers (finite or not)."""
    if columns.labels is None:
        return columns.target, None
    seen = list(columns.labels)
    if all(NUMBER.fullmatch(label) or NOT_FINITE.fullmatch(label) for label in seen):
        return np.array([float(label) for label in seen])[columns.target], None
    labels = sorted(seen)
    rank = {label: k for k, label in enumerate(labels)}
    return np.array([rank[label] for label in seen], dtype=np.int32)[columns.target], labels


def _warn_mixed_labels(labels: list[str]) -> list[FileWarning]:
    words = [label for label in labels if not NUMBER.fullmatch(label)]
    if len(words) == len(labels):
        return []
    detail = (
        f"{len(words)} of the {len(labels)} distinct labels are not numbers, such as {excerpt(words[0])}; "
        "all labels are taken as strings."
    )
    return [FileWarning("mixed_labels", detail)]
