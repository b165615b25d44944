"""Reads Parquet files and Arrow streams in bounded blocks of rows.

Features are stored as float32 if all of them are float32 and no value is missing, else as float64. Integers and
booleans become float64. Dates and times become seconds since 1970. The kind of a string column is guessed. The type of
the target column decides whether labels are numbers, strings or booleans (the classes `false` and `true`). Groups are
integers or strings. In errors, `line` is the number of the row.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.datasets.formats.array_checks import BlockFaults, name_column, rows_a_block
from app.datasets.formats.collect import Block, Collector
from app.datasets.formats.columnar_types import Columns, is_string, seconds_of
from app.datasets.formats.compressed import Ceiling, is_of_the_disk
from app.datasets.formats.labels import MISSING_LABEL_CURE, Encoded, encode_integers, without
from app.datasets.formats.mapped import forget_pages, map_file
from app.datasets.formats.table import ErrorLog, FileError, InvalidFile, ReadOptions, Summary
from app.datasets.formats.words import WordCells, encode_cells
from app.tabular.types import Array

__all__ = ["read_arrow", "read_parquet"]

BUFFER_BYTES = 1 << 16
"""Bytes of the read buffer of each column. Larger: fewer reads, more memory for files with many columns. Set by hand;
no measurement is recorded."""
NOT_A_NUMBER = "NaN"


class _FoundMissing(Exception):
    """Raised when a value is missing and the features are stored as float32 so far: read the file again as float64."""


def read_parquet(path: Path, options: ReadOptions, collector: Collector, ceiling: Ceiling) -> Summary:
    with _readable("Parquet file"):
        with pq.ParquetFile(path) as file:
            columns = Columns(file.schema_arrow, options)
        collector.prepare(options, columns.conventions, columns.roles, columns.names, may_be_numbers=False)
        return _read_settled(partial(_walk_parquet, path), columns, collector, partial(_check, path, ceiling))


def read_arrow(path: Path, options: ReadOptions, collector: Collector, ceiling: Ceiling) -> Summary:
    with _readable("Arrow stream"):
        with pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(map_file(path)))) as stream:
            columns = Columns(stream.schema, options)
        collector.prepare(options, columns.conventions, columns.roles, columns.names, may_be_numbers=False)
        return _read_settled(partial(_walk_arrow, path), columns, collector, partial(_check, path, ceiling))


def _check(path: Path, ceiling: Ceiling, n_bytes: int) -> None:
    ceiling.check(n_bytes, path.stat().st_size)


def _read_settled(
    walk: Callable[["_ColumnReader"], None], columns: Columns, collector: Collector, check: Callable[[int], None]
) -> Summary:
    """Read the file. Start again whenever a column turns out to have another kind than assumed."""
    collector.features.limit_texts = check
    dtype = columns.dtype
    while True:
        reader = _ColumnReader(columns, collector, dtype, check)
        try:
            walk(reader)
        except _FoundMissing:
            dtype = np.dtype(np.float64)
        else:
            reader.raise_faults()
            if collector.settled():
                return collector.finish(len(columns.roles.features), list(columns.roles.warnings), columns.source)
        collector.clear()


def _walk_parquet(path: Path, reader: "_ColumnReader") -> None:
    # The defaults of pyarrow read whole row groups ahead and expand dictionaries of long texts, which needs more
    # memory.
    bounded = {"pre_buffer": False, "buffer_size": BUFFER_BYTES, "read_dictionary": reader.columns.string_names}
    with pq.ParquetFile(path, **bounded) as file:
        n_rows = file.metadata.num_rows
        reader.admit(n_rows)
        names = [reader.columns.names[j] for j in reader.columns.wanted]
        row_bytes = reader.row_bytes + _text_bytes(file, reader.columns.string_names) // max(1, n_rows)
        n_seen = 0
        for batch in file.iter_batches(rows_a_block(row_bytes), columns=names, use_threads=False):
            reader.add(batch.select(names))
            n_seen += batch.num_rows
    if n_seen != n_rows:
        detail = f"The file declares {n_rows} rows, but has {n_seen}; write it again."
        raise InvalidFile([FileError(None, None, "wrong_row_count", detail)])


def _text_bytes(file: pq.ParquetFile, names: list[str]) -> int:
    """Return the declared uncompressed bytes of the string columns."""
    if not names:
        return 0
    wanted = set(names)
    places = [place for place in range(len(file.schema)) if file.schema.column(place).path in wanted]
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    return sum(max(0, group.column(place).total_uncompressed_size) for group in groups for place in places)


def _walk_arrow(path: Path, reader: "_ColumnReader") -> None:
    mapped = map_file(path)  # a batch can be as large as the file
    source = pa.BufferReader(pa.py_buffer(mapped))
    with pa.ipc.open_stream(source) as stream:
        n_rows = 0
        start = 0
        for batch in stream:
            batch.validate(full=True)
            n_rows += batch.num_rows
            reader.admit(n_rows)
            wanted = batch.select(reader.columns.wanted)
            texts = sum(column.nbytes for column in wanted.columns if is_string(column.type))
            step = rows_a_block(reader.row_bytes + texts // max(1, batch.num_rows))
            for first in range(0, batch.num_rows, step):
                reader.add(wanted.slice(first, step))
            forget_pages(mapped, start, source.tell())
            start = source.tell()


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Turn errors of pyarrow about a damaged file into InvalidFile. Their messages are dropped, because they quote the
    file."""
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        if is_of_the_disk(error):
            raise
        detail = f"The file is not a complete and valid {what}; write it again."
        raise InvalidFile([FileError(None, None, "unreadable_file", detail)]) from None


class _ColumnReader:
    """Converts batches of the needed columns and passes their rows to the collector, until the first error."""

    def __init__(
        self, columns: Columns, collector: Collector, dtype: np.dtype[Any], check: Callable[[int], None]
    ) -> None:
        self.columns = columns
        self._collector = collector
        self._dtype = dtype
        self._check = check
        self._faults = ErrorLog()
        self._n_rows = 0

    @property
    def row_bytes(self) -> int:
        return self._dtype.itemsize * len(self.columns.wanted)

    def admit(self, n_rows: int) -> None:
        self._check(n_rows * self.row_bytes)

    def add(self, batch: Any) -> None:
        if self._faults.full or batch.num_rows == 0:
            return
        roles, found = self.columns.roles, BlockFaults()
        arrays = iter(batch.columns)
        make = np.zeros if self.columns.word_names else np.empty
        X = make((batch.num_rows, len(roles.features)), dtype=self._dtype)
        words: dict[int, WordCells] = {}
        missing: dict[int, int] = {}
        marks: dict[int, Counter[str]] = {}
        for number, j in enumerate(roles.features):
            column = next(arrays)
            if is_string(self.columns.types[j]):
                column.validate(full=True)
                words[number] = encode_cells(column)
                continue
            X[:, number], n_missing = self._feature(column, j, found)
            if n_missing:
                missing[number] = n_missing
                if n_missing > column.null_count:
                    marks[number] = Counter({NOT_A_NUMBER: n_missing - column.null_count})
        if missing and self._dtype != np.float64:
            raise _FoundMissing
        labels: Any = None
        keep: Array | None = None
        if roles.target is not None:
            label_type = self.columns.types[roles.target]
            is_words = is_string(label_type) or pa.types.is_boolean(label_type)
            convert: Callable[..., Any] = self._encode if is_words else self._float64
            labels = convert(next(arrays), roles.target, found)
            if is_words and self.columns.drops_missing and (gone := _blanks(labels[0])):
                labels, keep = without(labels, gone)
        weight = None if roles.weight is None else self._float64(next(arrays), roles.weight, found)
        group = None if roles.group is None else self._encode(next(arrays), roles.group, found)
        found.log(self._faults, self._n_rows)
        self._n_rows += batch.num_rows
        if not self._faults:
            block = Block(X, None, weight, group, words, missing, marks)
            if keep is not None:
                block = replace(block.rows(keep), dropped=len(X) - int(np.count_nonzero(keep)))
            self._collector.add(replace(block, target=labels))

    def raise_faults(self) -> None:
        self._faults.raise_if_any()
        if self._n_rows == 0:
            raise InvalidFile([FileError(None, None, "no_rows", "The file has no rows of data; add rows.")])

    def _feature(self, column: Any, j: int, found: BlockFaults) -> tuple[Array, int]:
        """Return the numbers of a feature (NaN: missing) and the number of missing values."""
        if self.columns.is_date(j):
            return seconds_of(column), column.null_count
        if column.null_count or not pa.types.is_primitive(column.type):
            column = column.cast(pa.float64(), safe=False)
        values: Array = column.to_numpy(zero_copy_only=False)
        if values.dtype.kind != "f" or np.isfinite(values).all():
            return values, 0
        missing = np.isnan(values)
        found.check_numbers(values, j + 1, name_column(j, self.columns.names[j]), missing)
        return values, int(np.count_nonzero(missing))

    def _note_missing(self, missing: Array, j: int, found: BlockFaults) -> None:
        if j == self.columns.roles.target and self.columns.drops_missing:
            return
        detail = f"{name_column(j, self.columns.names[j])} is null; {self._cure(j)}."
        found.add_rows(missing, j + 1, "missing_value", detail)

    def _cure(self, j: int) -> str:
        if j == self.columns.roles.target:
            return MISSING_LABEL_CURE
        return "fill it in or leave the row out"

    def _float64(self, column: Any, j: int, found: BlockFaults) -> Array:
        """Return the numbers of the target or the weight, which must not be missing."""
        missing: Array | None = None
        if column.null_count:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            self._note_missing(missing, j, found)
        if missing is not None or not pa.types.is_primitive(column.type):
            column = column.cast(pa.float64(), safe=False)
        values: Array = column.to_numpy(zero_copy_only=False)
        name = name_column(j, self.columns.names[j])
        if j == self.columns.roles.target and self.columns.drops_missing and values.dtype.kind == "f":
            missing = np.isnan(values)
        found.check_numbers(values, j + 1, name, missing)
        if j == self.columns.roles.weight:
            found.check_weights(values, j + 1, name)
        return values.astype(np.float64, copy=False)

    def _encode(self, column: Any, j: int, found: BlockFaults) -> Encoded:
        """Encode labels or groups as codes. Dictionaries are not expanded, because one long string can occur in every
        row."""
        column.validate(full=True)
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.string())
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        used, places = encode_integers(encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy())
        values = encoded.dictionary.take(pa.array([k if k >= 0 else None for k in used], pa.int64())).to_pylist()
        if nothing := [k for k, value in enumerate(values) if value is None]:
            self._note_missing(np.isin(places, nothing), j, found)
        blank = [k for k, value in enumerate(values) if isinstance(value, str) and not value.strip(" \t")]
        if blank and not (j == self.columns.roles.target and self.columns.drops_missing):
            detail = f"{name_column(j, self.columns.names[j])} is empty; {self._cure(j)}."
            found.add_rows(np.isin(places, blank), j + 1, "missing_value", detail)
        return values, places


def _blanks(values: Sequence[Any]) -> list[int]:
    """Return the positions of missing and blank texts."""
    return [k for k, value in enumerate(values) if value is None or (isinstance(value, str) and not value.strip(" \t"))]
