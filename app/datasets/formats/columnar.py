"""Parquet files and Arrow streams: typed columns, read in bounded blocks of rows.

Features are float32 where all of them are, else float64; integers and booleans become float64. Labels
are numbers or strings, as their column's type says; groups are integers or strings. A null is a fault.
In the place of a fault the line is the row.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .blocks import BlockFaults, name_column, rows_a_block
from .collect import Block, Collector
from .columns import Source, assign_roles
from .compressed import Ceiling, is_of_the_disk
from .labels import Encoded
from .mapped import forget_pages, map_file
from .table import Array, ErrorLog, FileError, InvalidFile, ReadOptions, Summary, excerpt

__all__ = ["read_arrow", "read_parquet"]

BUFFER_BYTES = 1 << 16  # of each column that is read


def read_parquet(path: Path, options: ReadOptions, collector: Collector, ceiling: Ceiling) -> Summary:
    # pyarrow would read whole row groups ahead.
    bounded = {"pre_buffer": False, "buffer_size": BUFFER_BYTES}
    with _readable("Parquet file"), pq.ParquetFile(path, **bounded) as file:
        reader = _ColumnReader(file.schema_arrow, options, collector)
        n_rows = file.metadata.num_rows
        reader.admit(n_rows, path, ceiling)
        names = [file.schema_arrow.names[j] for j in reader.wanted]
        n_seen = 0
        for batch in file.iter_batches(rows_a_block(reader.row_bytes), columns=names, use_threads=False):
            reader.add(batch.select(names))
            n_seen += batch.num_rows
    if n_seen != n_rows:
        detail = f"The file says that it has {n_rows} rows; it has {n_seen}."
        raise InvalidFile([FileError(None, None, "wrong_row_count", detail)])
    return reader.finish()


def read_arrow(path: Path, options: ReadOptions, collector: Collector, ceiling: Ceiling) -> Summary:
    mapped = map_file(path)  # a batch may be as large as the file
    source = pa.BufferReader(pa.py_buffer(mapped))
    with _readable("Arrow stream"), pa.ipc.open_stream(source) as stream:
        reader = _ColumnReader(stream.schema, options, collector)
        n_rows = 0
        start = 0
        for batch in stream:
            batch.validate(full=True)
            n_rows += batch.num_rows
            reader.admit(n_rows, path, ceiling)
            wanted = batch.select(reader.wanted)
            step = rows_a_block(reader.row_bytes)
            for first in range(0, batch.num_rows, step):
                reader.add(wanted.slice(first, step))
            forget_pages(mapped, start, source.tell())
            start = source.tell()
    return reader.finish()


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Turn what pyarrow says of a damaged file into a refusal; it quotes the file, so it is not passed on."""
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        if is_of_the_disk(error):
            raise
        detail = f"The file is not a whole and valid {what} that can be read here."
        raise InvalidFile([FileError(None, None, "unreadable_file", detail)]) from None


class _ColumnReader:
    """Takes batches of the wanted columns and passes their rows on, until the first fault."""

    def __init__(self, schema: Any, options: ReadOptions, collector: Collector) -> None:
        self._names: list[str] = schema.names
        self._types: list[Any] = schema.types
        self._collector = collector
        _check_names(self._names)
        self._roles = assign_roles(self._names, len(self._names), options)
        self._check_types()
        features = [self._types[j] for j in self._roles.features]
        self._dtype = np.dtype(np.float32 if all(map(_is_short_float, features)) else np.float64)
        self._faults = ErrorLog()
        self._n_rows = 0

    @property
    def wanted(self) -> list[int]:
        """The columns that `add` takes, in this order."""
        roles = self._roles
        others = (roles.target, roles.weight, roles.group)
        return [*roles.features, *(j for j in others if j is not None)]

    @property
    def row_bytes(self) -> int:
        return self._dtype.itemsize * len(self.wanted)

    def admit(self, n_rows: int, path: Path, ceiling: Ceiling) -> None:
        ceiling.check(n_rows * self.row_bytes, path.stat().st_size)

    def add(self, batch: Any) -> None:
        if self._faults.full or batch.num_rows == 0:
            return
        roles, found = self._roles, BlockFaults()
        columns = iter(batch.columns)
        X = np.empty((batch.num_rows, len(roles.features)), dtype=self._dtype)
        for k, j in enumerate(roles.features):
            X[:, k] = self._numbers(next(columns), j, found)
        target = next(columns)
        is_words = _is_string(self._types[roles.target])
        convert: Callable[..., Any] = self._encode if is_words else self._float64
        labels = convert(target, roles.target, found)
        weight = None if roles.weight is None else self._float64(next(columns), roles.weight, found)
        group = None if roles.group is None else self._encode(next(columns), roles.group, found)
        found.log(self._faults, self._n_rows)
        self._n_rows += batch.num_rows
        if self._faults:
            return
        self._collector.add(Block(X, labels, weight, group))

    def finish(self) -> Summary:
        self._faults.raise_if_any()
        if self._n_rows == 0:
            raise InvalidFile([FileError(None, None, "no_rows", "The file has no rows of data.")])
        names, roles = self._names, self._roles
        return self._collector.finish(len(roles.features), [], Source(names, len(names), roles))

    def _check_types(self) -> None:
        roles, log = self._roles, ErrorLog()
        for j in sorted(self.wanted):
            kind, wanted = self._types[j], "numbers"
            fine = _is_number(kind)
            if j == roles.target:
                fine, wanted = fine or _is_string(kind), "numbers or strings"
            elif j == roles.group:
                fine, wanted = pa.types.is_integer(kind) or _is_string(kind), "integers or strings"
            if not fine:
                name = name_column(j, self._names[j])
                detail = f"{name} is of the type {excerpt(str(kind))}; {wanted} are needed: convert it, or ignore it."
                log.add(None, j + 1, "unsupported_type", detail)
        log.raise_if_any()

    def _note_missing(self, column: Any, j: int, found: BlockFaults) -> Array:
        missing: Array = column.is_null().to_numpy(zero_copy_only=False)
        detail = f"{name_column(j, self._names[j])} is null; fill it in or leave the row out."
        found.add_rows(missing, j + 1, "missing_value", detail)
        return missing

    def _numbers(self, column: Any, j: int, found: BlockFaults) -> Array:
        missing = self._note_missing(column, j, found) if column.null_count else None
        if missing is not None:
            column = column.cast(pa.float64(), safe=False)
        values: Array = column.to_numpy(zero_copy_only=False)
        name = name_column(j, self._names[j])
        found.check_numbers(values, j + 1, name, missing)
        if j == self._roles.weight:
            found.check_weights(values, j + 1, name)
        return values

    def _float64(self, column: Any, j: int, found: BlockFaults) -> Array:
        return self._numbers(column, j, found).astype(np.float64, copy=False)

    def _encode(self, column: Any, j: int, found: BlockFaults) -> Encoded:
        if column.null_count:
            self._note_missing(column, j, found)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        encoded = column.dictionary_encode()
        values, places = encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy()
        blank = [k for k, value in enumerate(values) if isinstance(value, str) and not value.strip(" \t")]
        if blank:
            detail = f"{name_column(j, self._names[j])} is empty; fill it in or leave the row out."
            found.add_rows(np.isin(places, blank), j + 1, "missing_value", detail)
        return values, places


def _check_names(names: list[str]) -> None:
    log = ErrorLog()
    first_seen: dict[str, int] = {}
    for j, name in enumerate(names):
        k = first_seen.setdefault(name, j)
        if k != j:
            log.add(None, j + 1, "duplicate_name", f"Columns {k + 1} and {j + 1} are both named {excerpt(name)}.")
    if len(names) < 2:
        log.add(None, None, "one_column", "The file has less than two columns; a label and features are needed.")
    log.raise_if_any()


def _is_short_float(kind: Any) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float16(kind))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _is_string(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
