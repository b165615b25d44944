"""Maps the types of a Parquet or Arrow schema to kinds of columns, and refuses unsupported types."""

from typing import Any

import numpy as np
import pyarrow as pa

from app.datasets.formats.array_checks import name_column
from app.datasets.formats.column_roles import Source, assign_roles
from app.datasets.formats.guess import Conventions
from app.datasets.formats.table import ErrorLog, ReadOptions, excerpt
from app.tabular.frame import Kind
from app.tabular.types import Array

__all__ = ["Columns", "is_string", "seconds_of"]

SECONDS_A_DAY = 86_400
TICKS_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Columns:
    """The checked columns of a schema: names, types and roles."""

    def __init__(self, schema: Any, options: ReadOptions) -> None:
        self.names: list[str] = schema.names
        self.types: list[Any] = schema.types
        _check_names(self.names)
        self.roles = assign_roles(self.names, len(self.names), options)
        self.drops_missing = options.on_missing_target == "drop"
        self.conventions = Conventions.of(options, "", self.roles.kinds)
        self._check_types()

    @property
    def wanted(self) -> list[int]:
        """Return the positions of the columns to read, in the order in which they are read."""
        return self.roles.used

    @property
    def word_names(self) -> list[str]:
        """Return the names of the string features."""
        return [self.names[j] for j in self.roles.features if is_string(self.types[j])]

    @property
    def string_names(self) -> list[str]:
        """Return the names of all string columns that are read."""
        return [self.names[j] for j in self.wanted if is_string(self.types[j])]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the dtype of X, as long as no value is missing."""
        features = [self.types[j] for j in self.roles.features]
        return np.dtype(np.float32 if all(map(_is_short_float, features)) else np.float64)

    @property
    def source(self) -> Source:
        typed: dict[int, tuple[Kind, str]] = {}
        for number, j in enumerate(self.roles.features):
            kind: Kind = "boolean" if pa.types.is_boolean(self.types[j]) else "date" if self.is_date(j) else "numeric"
            if kind != "numeric":
                typed[number] = kind, f"its type in the file is {excerpt(str(self.types[j]))}"
        return Source(self.names, len(self.names), self.roles, typed)

    def is_date(self, j: int) -> bool:
        return _is_date(self.types[j])

    def _check_types(self) -> None:
        roles, log = self.roles, ErrorLog()
        for j in sorted(self.wanted):
            kind, wanted = self.types[j], "numbers"
            fine = _is_number(kind)
            if j == roles.target:
                fine, wanted = fine or is_string(kind), "numbers or strings"
            elif j == roles.group:
                fine, wanted = pa.types.is_integer(kind) or is_string(kind), "integers or strings"
            elif j != roles.weight:
                fine = fine or is_string(kind) or _is_date(kind) or pa.types.is_null(kind)
                wanted = "numbers, strings, dates or times"
            if not fine:
                name = name_column(j, self.names[j])
                detail = (
                    f"{name} has the type {excerpt(str(kind))}; {wanted} are needed. Convert it, or name it in ignore."
                )
                log.add(None, j + 1, "unsupported_type", detail)
        log.raise_if_any()


def is_string(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def seconds_of(column: Any) -> Array:
    """Return the seconds since 1970 of a column of dates or times; NaN: missing."""
    kind = column.type
    ticks = column.view(pa.int32() if pa.types.is_date32(kind) else pa.int64()).fill_null(0).to_numpy()
    if pa.types.is_date32(kind):
        seconds: Array = ticks.astype(np.float64) * SECONDS_A_DAY
    else:
        a_second = TICKS_A_SECOND["ms" if pa.types.is_date64(kind) else kind.unit]
        # dividing the integers first keeps digits that a float would lose
        seconds = ticks // a_second + (ticks % a_second) / a_second
    seconds[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return seconds


def _check_names(names: list[str]) -> None:
    log = ErrorLog()
    first_seen: dict[str, int] = {}
    for j, name in enumerate(names):
        k = first_seen.setdefault(name, j)
        if k != j:
            log.add(
                None,
                j + 1,
                "duplicate_name",
                f"Columns {k + 1} and {j + 1} are both named {excerpt(name)}; rename one.",
            )
    if len(names) < 2:
        log.add(
            None,
            None,
            "one_column",
            "The file has fewer than two columns; a label and at least one feature are needed.",
        )
    log.raise_if_any()


def _is_short_float(kind: Any) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float16(kind))


def _is_number(kind: Any) -> bool:
    kinds = pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal
    return any(is_kind(kind) for is_kind in kinds)


def _is_date(kind: Any) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))
