"""Dates in text: the shapes that are recognised, and the reading of one cell. Imports only the standard library.

A shape is a regular expression with named groups that both Python's `re` and RE2 accept. `date_cells` applies the same
shapes to whole columns.
"""

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta

from app.tabular.cell_format import DateOrder

__all__ = ["EPOCH", "LONGEST_DATE", "LONGEST_SECOND", "MONTHS", "PIVOT_YEAR", "SHAPES", "read_date"]

LONGEST_DATE = 40
"""Maximum characters of a date. Longer cells are not parsed as dates."""
LONGEST_SECOND = 9
"""Characters of the seconds that are read: two digits and six decimals, because a float64 cannot hold more."""
PIVOT_YEAR = 69
"""Two-digit years from this number on are in the 20th century, as in POSIX."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BLANKS = " \t"

MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan january januar",
            "feb february februar",
            "mar march mär märz mrz",
            "apr april",
            "may mai",
            "jun june juni",
            "jul july juli",
            "aug august",
            "sep sept september",
            "oct october okt oktober",
            "nov november",
            "dec december dez dezember",
        ),
        1,
    )
    for name in names.split()
}
"""Numbers of months by their English and German names and abbreviations, in lower case."""
_NAMES = "|".join(sorted(MONTHS, key=len, reverse=True))
_TIME = (
    r"(?:(?:T|,? )(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}(?:[.,][0-9]{1,9})?))?"
    r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?(?: ?(?P<zone>Z|UTC|GMT|[-+][0-9]{2}:?[0-9]{2}))?)?"
)
_MONTH = f"(?P<name>(?i:{_NAMES}))"
SHAPES: dict[str, str] = {
    "ymd": rf"^(?P<year>[0-9]{{4}})[-/.](?P<month>[0-9]{{1,2}})[-/.](?P<day>[0-9]{{1,2}}){_TIME}$",
    "numeric": r"^(?P<first>[0-9]{1,2})(?P<mark>[-/.])(?P<second_part>[0-9]{1,2})[-/.](?P<year>[0-9]{4})" + _TIME + "$",
    "short": r"^(?P<first>[0-9]{2})(?P<mark>[/.])(?P<second_part>[0-9]{2})[/.](?P<year>[0-9]{2})" + _TIME + "$",
    "day_name": rf"^(?P<day>[0-9]{{1,2}})\.?[- ]?{_MONTH}\.?[-, ]{{1,2}}(?P<year>[0-9]{{4}}){_TIME}$",
    "name_day": rf"^{_MONTH}\.? (?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?,? (?P<year>[0-9]{{4}}){_TIME}$",
}
"""Recognised shapes of dates. In `numeric` and `short`, `date_order` says which of the two parts is the day."""
_COMPILED = {shape: re.compile(pattern) for shape, pattern in SHAPES.items()}


def read_date(cell: str, order: DateOrder = "ymd") -> float | None:
    """Return the seconds since 1970-01-01 UTC of a date or time, or None if the cell is neither. A time without a zone
    is UTC. `order` applies to dates of three numbers that do not begin with the year."""
    bare = cell.strip(BLANKS)
    if len(bare) > LONGEST_DATE:
        return None
    for shape, pattern in _COMPILED.items():
        if match := pattern.fullmatch(bare):
            return _seconds(shape, match.groupdict(), order)
    return None


def _seconds(shape: str, parts: dict[str, str | None], order: DateOrder) -> float | None:
    year = int(parts["year"] or 0)
    if shape == "short":
        year += 1900 if year >= PIVOT_YEAR else 2000
    if shape in ("numeric", "short"):
        if order == "ymd":
            return None
        first, second = int(parts["first"] or 0), int(parts["second_part"] or 0)
        day, month = (first, second) if order == "dmy" else (second, first)
    else:
        day = int(parts["day"] or 0)
        month = int(parts["month"] or 0) if shape == "ymd" else MONTHS[(parts["name"] or "").lower()]
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]):
        return None
    clock = _clock(parts)
    if clock is None:
        return None
    return (datetime(year, month, day, tzinfo=UTC) - EPOCH) / timedelta(seconds=1) + clock


def _clock(parts: dict[str, str | None]) -> float | None:
    """Return the seconds since midnight UTC, or None if the time does not exist."""
    if parts["hour"] is None:
        return 0.0
    hour, minute = int(parts["hour"]), int(parts["minute"] or 0)
    second = float((parts["second"] or "0").replace(",", ".")[:LONGEST_SECOND])
    if half := parts["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half in "pP" else 0)
    if hour > 23 or minute > 59 or second >= 60:
        return None
    offset = 0
    zone = parts["zone"]
    if zone is not None and zone[0] in "+-":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        if hours > 23 or minutes > 59:
            return None
        offset = (hours * 3600 + minutes * 60) * (1 if zone[0] == "+" else -1)
    return hour * 3600 + minute * 60 + second - offset
