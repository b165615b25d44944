"""The values of a column, from stored rows or from a request, in one of three forms.

numbers   numeric and boolean columns, dates as seconds since 1970; NaN: missing
levels    categorical columns: numbers of categories; -1: missing
texts     text columns; empty: missing
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from app.preprocess.preprocess_error import PreprocessError, called
from app.tabular import cells
from app.tabular.cell_format import PLAIN, CellFormat, example_of, read_number
from app.tabular.date_text import EPOCH, read_date
from app.tabular.frame import Frame, Kind, Strings
from app.tabular.types import Array, Floats

WHOLE = 2.0**53
"""Largest integer that is written without a decimal point. float64 represents every integer up to it exactly."""
CONVERSIONS = {
    ("numeric", "categorical"),
    ("numeric", "text"),
    ("boolean", "categorical"),
    ("boolean", "numeric"),
    ("categorical", "text"),
    ("text", "categorical"),
}
"""Allowed conversions (stored kind, requested kind). The stored kind itself is always allowed."""
EXPECTED: dict[str, str] = {
    "numeric": "a finite number",
    "boolean": "true or false",
    "date": "a date such as 2024-05-31 or 2024-05-31T12:00:00Z",
}


@dataclass(frozen=True)
class Levels:
    codes: npt.NDArray[np.int64]
    names: Sequence[str]


@dataclass(frozen=True)
class Texts:
    texts: Strings | Sequence[str]
    missing: npt.NDArray[np.bool_]


Values = Floats | Levels | Texts


def missing_rows(values: Values) -> npt.NDArray[np.bool_]:
    if isinstance(values, Levels):
        return values.codes < 0
    return values.missing if isinstance(values, Texts) else np.isnan(values)


def number_text(number: float) -> str:
    """Return a number as the name of a category. Integers have no decimal point."""
    return str(int(number)) if number == math.trunc(number) and abs(number) <= WHOLE else repr(float(number))


def check_kind(name: str, stored: Kind, wanted: Kind) -> None:
    if stored != wanted and (stored, wanted) not in CONVERSIONS:
        message = f"column {called(name)} is {stored} and cannot be used as {wanted}"
        raise PreprocessError("kind_mismatch", message, name)


def stored_values(frame: Frame, position: int, name: str, stored: Kind, wanted: Kind) -> Values:
    """Read a column of stored rows and convert it from the kind `stored` to the kind `wanted`."""
    check_kind(name, stored, wanted)
    numbers = np.asarray(frame.X[:, position], dtype=np.float64)
    if stored == "text":
        texts = Texts(frame.texts[position], np.isnan(numbers))
        return texts if wanted == "text" else _levels_of_texts(texts)
    if stored == "categorical":
        codes = np.where(np.isnan(numbers), -1.0, numbers).astype(np.int64)
        levels = frame.columns[position].levels
        assert levels is not None
        return Levels(codes, levels.to_list()) if wanted == "categorical" else _texts_of_levels(codes, levels)
    if wanted in ("numeric", "boolean", "date"):
        return numbers
    written = _levels_of_numbers(numbers, stored)
    return written if wanted == "categorical" else _texts_of_levels(written.codes, Strings.of(written.names))


def given_values(values: Any, n_rows: int, name: str, stored: Kind, wanted: Kind, format: CellFormat = PLAIN) -> Values:
    """Read a column of a request: a sequence of Python values, in which None is missing, a numpy array or an Arrow
    array.

    If the column itself is None, all its values are missing. Values are read as the kind `stored`, as in training, and
    converted to the kind `wanted`. `format` is how the training file writes numbers and dates.
    """
    if stored in ("numeric", "boolean", "date"):
        numbers = given_numbers(values, n_rows, name, stored, format)
        if wanted in ("numeric", "boolean", "date"):
            return numbers
        written = _levels_of_numbers(numbers, stored)
        if wanted == "categorical":
            return written
        return Texts([written.names[code] if code >= 0 else "" for code in written.codes], written.codes < 0)
    words = [_word(value, name, row) for row, value in enumerate(_plain(values, n_rows, name))]
    if wanted == "text":
        missing = np.array([word is None for word in words], dtype=bool)
        return Texts([word or "" for word in words], missing)
    numbered: dict[str, int] = {}
    codes = [-1 if word is None else numbered.setdefault(word, len(numbered)) for word in words]
    return Levels(np.array(codes, dtype=np.int64), list(numbered))


def given_numbers(values: Any, n_rows: int, name: str, stored: Kind, format: CellFormat = PLAIN) -> Floats:
    """Read numbers, booleans, or dates as seconds. Missing values are NaN. If the column itself is None, all its values
    are missing."""
    if values is None:
        return np.full(n_rows, np.nan)
    numbers: Floats | None = None
    if isinstance(values, np.ndarray) and len(values) == n_rows:
        if values.dtype.kind in "fiub" and stored != "date":
            numbers = values.astype(np.float64)
        elif values.dtype.kind == "M" and stored == "date":
            ticks = values.astype("datetime64[us]")
            numbers = np.where(np.isnat(ticks), np.nan, ticks.astype(np.int64) / 1e6)
    if numbers is None:
        read, plain = READERS[stored], _plain(values, n_rows, name)
        numbers = np.array([read(value, name, row, format) for row, value in enumerate(plain)], dtype=np.float64)
    refused = np.isinf(numbers)
    if stored == "boolean":
        refused |= ~np.isin(numbers, (0.0, 1.0)) & ~np.isnan(numbers)
    if refused.any():
        raise _bad_value(name, int(refused.argmax()), EXPECTED[stored])
    return numbers


def _read_number(value: Any, name: str, row: int, format: CellFormat, expected: str = EXPECTED["numeric"]) -> float:
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if _is_nothing(value):
        return math.nan
    if isinstance(value, str):
        if format == PLAIN and cells.NUMBER.fullmatch(value):
            return float(value)
        if format != PLAIN and (number := read_number(value, format)) is not None:
            return number
    if format != PLAIN:
        expected += f", or text such as {example_of(format)!r}"
    raise _bad_value(name, row, expected)


def _read_boolean(value: Any, name: str, row: int, format: CellFormat) -> float:
    truth = cells.read_boolean(value) if isinstance(value, str) else None
    return _read_number(value, name, row, format, EXPECTED["boolean"]) if truth is None else truth


def _read_date(value: Any, name: str, row: int, format: CellFormat) -> float:
    if _is_nothing(value):
        return math.nan
    if isinstance(value, str):
        seconds = read_date(value, format.date_order)
        if seconds is not None:
            return seconds
    elif isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH).total_seconds()
    expected = EXPECTED["date"]
    if format.date_order != "ymd":
        expected += f", or {'31.05.2024' if format.date_order == 'dmy' else '05/31/2024'}"
    raise _bad_value(name, row, expected)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and (cells.is_blank(value) or cells.is_mark(value)))


READERS: dict[str, Callable[[Any, str, int, CellFormat], float]] = {
    "numeric": _read_number,
    "boolean": _read_boolean,
    "date": _read_date,
}


def _word(value: Any, name: str, row: int) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and (isinstance(value, int) or math.isfinite(value)):
        return str(value) if isinstance(value, int) else number_text(value)
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, date):
        return value.isoformat()
    raise _bad_value(name, row, "text")


def _plain(values: Any, n_rows: int, name: str) -> Sequence[Any]:
    """Convert any kind of column to Python values."""
    if values is None:
        return [None] * n_rows
    convert = getattr(values, "to_pylist", None) or getattr(values, "tolist", None)
    plain: Sequence[Any] = values if convert is None else convert()
    if len(plain) != n_rows:
        raise PreprocessError(
            "wrong_length", f"column {called(name)} has {len(plain)} values; there are {n_rows} rows", name
        )
    return plain


def _bad_value(name: str, row: int, expected: str) -> PreprocessError:
    return PreprocessError("bad_value", f"row {row}, column {called(name)}: must be {expected}", name, row)


def _levels_of_numbers(numbers: Floats, stored: Kind) -> Levels:
    present = ~np.isnan(numbers)
    values, inverse = np.unique(numbers[present], return_inverse=True)
    codes = np.full(len(numbers), -1, dtype=np.int64)
    codes[present] = inverse
    write = number_text if stored == "numeric" else lambda truth: "true" if truth else "false"
    return Levels(codes, [write(value) for value in values.tolist()])


def _levels_of_texts(texts: Texts) -> Levels:
    numbered: dict[str, int] = {}
    codes = np.empty(len(texts.missing), dtype=np.int64)
    for row, missing in enumerate(texts.missing.tolist()):
        codes[row] = -1 if missing else numbered.setdefault(texts.texts[row], len(numbered))
    return Levels(codes, list(numbered))


def _texts_of_levels(codes: Array, levels: Strings) -> Texts:
    """Return the texts of categories without copying them."""
    missing = codes < 0
    if not len(levels):
        return Texts(Strings(levels.bytes, np.zeros(len(codes), np.int64), np.zeros(len(codes), np.int64)), missing)
    chosen = np.where(missing, 0, codes)
    ends = np.where(missing, levels.starts[chosen], levels.ends[chosen])
    return Texts(Strings(levels.bytes, levels.starts[chosen], ends), missing)
