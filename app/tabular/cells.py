"""Determines the meaning of a text cell: a number, true or false, a date, or a missing value.

File readers use this module to guess the kind of a column, and predict uses it to read single rows, so both interpret a
cell in the same way. Imports only the standard library.

Every regular expression here takes time linear in the length of the cell, because no two adjacent parts of it can match
the same characters.
"""

import re
from datetime import UTC, datetime

__all__ = ["DECIMAL", "MARKS", "NOT_FINITE", "NUMBER", "is_blank", "is_mark", "read_boolean", "read_date", "truth_pair"]

BLANKS = " \t"
DECIMAL = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
"""Regular expression of a number in all text formats. Both Python's `re` and RE2 accept it."""
NUMBER = re.compile(rf"[ \t]*+(?>{DECIMAL})[ \t]*+")
NOT_FINITE = re.compile(r"[ \t]*[+-]?(?:nan|inf|infinity)[ \t]*", re.IGNORECASE)
MARKS = frozenset({"na", "n/a", "nan", "null", "none", "?", "-"})
"""Texts, in lower case, that mean a missing value in a numeric column."""
DAY, TIME, ZONE = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?", r"(?:Z|[+-]\d\d:?\d\d)"
DATE = re.compile(f"{DAY}(?:[T ]{TIME}{ZONE}?)?", re.ASCII)
TRUTHS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0}
TRUTH_PAIRS = {word: pair for pair in (("true", "false"), ("yes", "no"), ("t", "f")) for word in pair}
LONGEST_DATE = 40
"""Maximum characters of a date. Longer cells are not parsed as dates."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_blank(cell: str) -> bool:
    return not cell.strip(BLANKS)


def is_mark(cell: str) -> bool:
    """Return whether a text is a common marker for a missing number, such as `NA` or `null`."""
    return len(cell) < 16 and cell.strip(BLANKS).lower() in MARKS


def truth_pair(cell: str) -> tuple[str, str] | None:
    """Return the pair of words for false and true that contains this word, or None."""
    return TRUTH_PAIRS.get(cell.strip(BLANKS).lower())


def read_boolean(cell: str) -> float | None:
    """Return 1 for true, 0 for false, None for anything else."""
    return TRUTHS.get(cell.strip(BLANKS).lower())


def read_date(cell: str) -> float | None:
    """Return the seconds since 1970-01-01 UTC of an ISO date or time, or None if the cell is neither. A time without a
    zone is UTC."""
    bare = cell.strip(BLANKS)
    if len(bare) > LONGEST_DATE or not DATE.fullmatch(bare):
        return None
    try:
        moment = datetime.fromisoformat(bare)
    except ValueError:  # such as 30 February
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH).total_seconds()
