"""Determines the meaning of a text cell: a plain number, true or false, or a missing value. `cell_format` reads numbers
in other formats, `date_text` reads dates.

File readers use this module to guess the kind of a column, and predict uses it to read single rows, so both interpret a
cell in the same way. Imports only the standard library.

Every regular expression here takes time linear in the length of the cell, because no two adjacent parts of it can match
the same characters.
"""

import re

__all__ = ["DECIMAL", "MARKS", "NOT_FINITE", "NUMBER", "is_blank", "is_mark", "read_boolean", "truth_pair"]

BLANKS = " \t"
DECIMAL = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
"""Regular expression of a number in all text formats. Both Python's `re` and RE2 accept it."""
NUMBER = re.compile(rf"[ \t]*+(?>{DECIMAL})[ \t]*+")
NOT_FINITE = re.compile(r"[ \t]*[+-]?(?:nan|inf|infinity)[ \t]*", re.IGNORECASE)
MARKS = frozenset({"na", "n/a", "#n/a", "nan", "null", "none", "?", "-"})
"""Texts, in lower case, that mean a missing value in a numeric column."""
TRUTHS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0, "y": 1.0, "n": 0.0}
TRUTH_PAIRS = {
    **dict.fromkeys(("true", "false", "t", "f"), ("true", "false")),
    **dict.fromkeys(("yes", "no", "y", "n"), ("yes", "no")),
}
"""The pair of each word. A column can mix a word and its first letter."""


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
