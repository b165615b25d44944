"""The format of the numbers and dates of a column, and the reading of one cell. Imports only the standard library.

File readers determine the format of a column from all its cells (app/datasets/formats/number_cells.py, date_cells.py)
and read them with Arrow. Predict reads single cells with the functions of this module. Both use the same patterns.
A model stores the formats of its columns, so that it reads the cells of a request as those of its training file.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal

__all__ = [
    "AFTER",
    "BEFORE",
    "DATE_ORDERS",
    "DECIMALS",
    "PLAIN",
    "SPACE",
    "STYLES",
    "THOUSANDS",
    "CellFormat",
    "core_pattern",
    "example_of",
    "number_pattern",
    "read_number",
    "separator_class",
]

Decimal = Literal[".", ","]
Thousands = Literal["", ",", ".", " ", "'"]
DateOrder = Literal["ymd", "dmy", "mdy"]
DECIMALS: tuple[Decimal, ...] = (".", ",")
THOUSANDS: tuple[Thousands, ...] = ("", ",", ".", " ", "'")
DATE_ORDERS: tuple[DateOrder, ...] = ("ymd", "dmy", "mdy")
STYLES: tuple[tuple[Decimal, Thousands], ...] = tuple(
    (decimal, thousands) for thousands in THOUSANDS for decimal in DECIMALS if decimal != thousands
)
"""All pairs of a decimal sign and a thousands separator. Plain numbers come first."""

LONGEST = 64
"""Maximum characters of a number. Longer cells are not parsed as numbers in a format. Larger: a hostile cell takes
longer, because `re` can backtrack within a cell. Numbers that people write are shorter."""
SPACE = "[ \t\u00a0\u202f]"
"""Regular expression of a space: blank, tab, no-break space or narrow no-break space."""
SIGN = "[-+\u2212\u2013]"
CODES = (
    "EUR|USD|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|TRY|SGD|HKD|RON|BGN|ILS|THB|AED"
)
"""Currency codes (ISO 4217) of the most traded currencies. Other words beside a number are not a currency."""
CURRENCY = f"[$€£¥₹]|(?i:{CODES})"
BEFORE, AFTER = f"(?:{CURRENCY})", f"(?:{CURRENCY}|%)"
SEPARATORS = {"": "", ",": ",", ".": r"\.", " ": "[ \u00a0\u202f]", "'": "['\u2019]"}


@dataclass(frozen=True)
class CellFormat:
    """How the numbers and dates of a column are written. The default is that of a plain column: 1234.5, 2024-05-31."""

    decimal: Decimal = "."
    thousands: Thousands = ""
    unit: str | None = None
    """Currency or percent sign beside the numbers. It is not needed in a cell, and does not change the number."""
    date_order: DateOrder = "ymd"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from the default."""
        return {name: value for name, value in asdict(self).items() if value != getattr(PLAIN, name)}

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> "CellFormat":
        return cls(**(stored or {}))


PLAIN = CellFormat()


def example_of(format: CellFormat) -> str:
    """Return a number in this format, for messages."""
    return f"1{format.thousands}234{format.decimal}5"


def separator_class(separator: str) -> str:
    """Return the regular expression of a separator. A space stands for all kinds of spaces."""
    return SEPARATORS[separator]


def core_pattern(decimal: str, thousands: str) -> str:
    """Return the regular expression of an unsigned number without a unit. Python's `re` and RE2 accept it."""
    whole = "[0-9]+"
    if thousands:
        whole = f"(?:[0-9]{{1,3}}(?:{SEPARATORS[thousands]}[0-9]{{3}})+|{whole})"
    point = SEPARATORS[decimal]
    return rf"(?:{whole}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][-+]?[0-9]+)?"


def number_pattern(decimal: str, thousands: str) -> str:
    """Return the regular expression of a cell: a number with an optional sign and unit, or a negative in parentheses.

    At most one space separates the parts, so the pattern takes linear time.
    """
    core, gap = core_pattern(decimal, thousands), f"{SPACE}?"
    start = f"(?:{SIGN}{gap}(?:{BEFORE}{gap})?|{BEFORE}{gap}{SIGN}?)?"
    bare = f"{start}{core}(?:{gap}{AFTER})?"
    enclosed = rf"\({gap}(?:{BEFORE}{gap})?{core}(?:{gap}{AFTER})?{gap}\)"
    return f"^(?:{bare}|{enclosed})$"


@cache
def _compiled(decimal: str, thousands: str) -> re.Pattern[str]:
    return re.compile(number_pattern(decimal, thousands))


_UNIT = re.compile(AFTER)
_SPACES = re.compile(SPACE)


def read_number(cell: str, format: CellFormat) -> float | None:
    """Return the number of a cell in this format, or None if the cell is not such a number."""
    bare = cell.strip(" \t\u00a0\u202f")
    if not bare or len(bare) > LONGEST or not _compiled(format.decimal, format.thousands).fullmatch(bare):
        return None
    text = _SPACES.sub("", _UNIT.sub("", bare)).replace("\u2212", "-").replace("\u2013", "-")
    is_negative = text.startswith("(")
    text = text.strip("()")
    for separator in {"": "", "'": "'\u2019"}.get(format.thousands, format.thousands):
        text = text.replace(separator, "")
    if format.decimal == ",":
        text = text.replace(",", ".")
    number = float(text)
    return -number if is_negative else number
