"""What a cell of text spells: a number, true or false, a date, or that there is no value.

Readers of files guess by it what a column holds; whoever reads single rows later must understand the same
spellings in the same way. Imports nothing but the standard library.

Every pattern here takes time in proportion to the cell, whatever the cell holds: no run of characters can be split
between two parts of a pattern.
"""

import re
from datetime import UTC, datetime

__all__ = ["DECIMAL", "MARKS", "NOT_FINITE", "NUMBER", "is_blank", "is_mark", "read_boolean", "read_date", "truth_pair"]

BLANKS = " \t"
DECIMAL = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
"""The one grammar of a number in text, for every format that spells numbers; Python's `re` and RE2 both read it."""
NUMBER = re.compile(rf"[ \t]*+(?>{DECIMAL})[ \t]*+")
NOT_FINITE = re.compile(r"[ \t]*[+-]?(?:nan|inf|infinity)[ \t]*", re.IGNORECASE)
MARKS = frozenset({"na", "n/a", "nan", "null", "none", "?", "-"})  # where numbers are expected: there is no value
DAY, TIME, ZONE = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?", r"(?:Z|[+-]\d\d:?\d\d)"
DATE = re.compile(f"{DAY}(?:[T ]{TIME}{ZONE}?)?", re.ASCII)
TRUTHS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0}
TRUTH_PAIRS = {word: pair for pair in (("true", "false"), ("yes", "no"), ("t", "f")) for word in pair}
LONGEST_DATE = 40
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_blank(cell: str) -> bool:
    return not cell.strip(BLANKS)


def is_mark(cell: str) -> bool:
    """Whether it is one of the well-known ways to write that a number is not there."""
    return len(cell) < 16 and cell.strip(BLANKS).lower() in MARKS


def truth_pair(cell: str) -> tuple[str, str] | None:
    """Which words for true and false this one belongs to."""
    return TRUTH_PAIRS.get(cell.strip(BLANKS).lower())


def read_boolean(cell: str) -> float | None:
    """1 or 0; None: it spells neither."""
    return TRUTHS.get(cell.strip(BLANKS).lower())


def read_date(cell: str) -> float | None:
    """Seconds since 1970-01-01 UTC of an ISO date or date-time (without a zone: UTC); None: it is none."""
    bare = cell.strip(BLANKS)
    if len(bare) > LONGEST_DATE or not DATE.fullmatch(bare):
        return None
    try:
        moment = datetime.fromisoformat(bare)
    except ValueError:  # the 30th of February
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH).total_seconds()
