"""The types that all readers share: read options, the resulting table and its `Summary`, and errors with their places.

    Exception
      ValueError
        InvalidFile     the bytes are wrong; carries FileError entries (line, column, code, detail)
        InvalidOption   the request is wrong for this file; carries the field's name
        TooLarge        the file expands beyond a limit

All of them can be pickled, because they are sent between processes.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from app.tabular.frame import Kind
from app.tabular.types import Array

__all__ = [
    "COLUMN_CHOICES",
    "COUNTED_ERRORS",
    "DELIMITER",
    "DELIMITERS",
    "LISTED_ERRORS",
    "NO_TARGET",
    "Array",
    "Charset",
    "ColumnSummary",
    "Encoding",
    "ErrorLog",
    "FileError",
    "FileWarning",
    "Format",
    "InvalidFile",
    "InvalidOption",
    "Label",
    "ReadOptions",
    "Role",
    "Summary",
    "Table",
    "TaskHint",
    "TooLarge",
    "excerpt",
    "plural",
]

Format = str
"""Name of a format in `file_formats()`."""
Encoding = Literal["identity", "gzip", "zstd"]
Charset = Literal["utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "windows-1252"]
NO_TARGET = "none"
"""Value of the option `target` for a file without labels."""
COLUMN_CHOICES = ("numeric", "boolean", "date", "categorical", "text", "feature", "ignored")
"""Values of the option `columns`: a kind, `feature` to keep a column that would be left out, or `ignored`."""
Label = int | str
Role = Literal["feature", "target", "weight", "group", "ignored"]
TaskHint = Literal["binary", "multiclass", "regression"]

DELIMITERS = "'tab' or one ASCII character other than a letter, digit, quote, sign, dot or line end"
DELIMITER = re.compile(r"tab|[\x01-\x09\x0b\x0c\x0e-!#-*,/:-@\[-`{-\x7f]")
LISTED_ERRORS = 20
"""Maximum number of errors of a file that the response lists. Larger: longer responses. Set by hand; no measurement is
recorded."""
COUNTED_ERRORS = 1000
"""Number of errors at which a reader stops. Larger: a file with errors on every line takes longer. Set by hand; no
measurement is recorded."""
MAX_EXCERPT = 40
"""Maximum characters of a quotation from a file in an error message. Larger: longer messages. Set by hand; no
measurement is recorded."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file. Options that the format does not accept are refused.

    A column is given by its name or by its number from 0; -1 is the last column. `missing` lists texts that mean a
    missing value; a cell must equal such a text exactly. A blank cell is always missing. `target` is NO_TARGET for a
    file without labels. `encoding` is the compression, `charset` the character encoding (the parameter `encoding`).
    `columns` has pairs of a column and its kind or role (COLUMN_CHOICES). None means: recognise it.
    """

    target: str | None = None
    weight: str | None = None
    ignore: tuple[str, ...] = ()
    index_base: Literal["auto", "0", "1"] = "auto"
    n_features: int | None = None
    delimiter: str | None = None
    header: Literal["auto", "true", "false"] = "auto"
    group: str | None = None
    missing: tuple[str, ...] = ()
    encoding: Encoding = "identity"
    charset: Charset | None = None
    decimal: Literal[".", ","] | None = None
    thousands: Literal[",", ".", "space", "apostrophe", "none"] | None = None
    date_order: Literal["ymd", "dmy", "mdy"] | None = None
    columns: tuple[tuple[str, str], ...] = ()
    on_missing_target: Literal["error", "drop"] = "error"


@dataclass(frozen=True)
class FileError:
    """An error in a file. `line` and `column` count from 1; None if the error has no place.

    In formats without lines, `line` is the number of the row. `column` is the number of the field, with two exceptions:
    in libsvm text, and in a line of ndjson that is not JSON, it is the number of the byte in the line.
    """

    line: int | None
    column: int | None
    code: str
    detail: str


@dataclass(frozen=True)
class FileWarning:
    """A decision or observation of the reader that the owner of the data should know."""

    code: str
    detail: str
    features: tuple[int, ...] = ()
    """Numbers, from 0, of the first affected features."""
    count: int | None = None
    """Number of affected features; None if the warning is not about features."""


class InvalidFile(ValueError):
    """Raised for an invalid file. `errors` has the first LISTED_ERRORS errors, and `more` is the number of the others.

    Reading stops at COUNTED_ERRORS errors, so that a file with errors on every line is refused soon.
    """

    def __init__(self, errors: Iterable[FileError], more: int = 0) -> None:
        self.errors = list(errors)
        self.more = more
        super().__init__(self.errors, more)

    def __str__(self) -> str:
        first = self.errors[0]
        places = (("line", first.line), ("column", first.column))
        place = ", ".join(f"{name} {number}" for name, number in places if number is not None)
        place += ": " if place else ""
        others = len(self.errors) - 1 + self.more
        return f"{place}{first.detail}" + (f" ({others} more)" if others else "")


class InvalidOption(ValueError):
    """Raised for an option that does not fit the file or its format. `field` is the name of the option."""

    def __init__(self, field: str, detail: str) -> None:
        self.field = field
        self.detail = detail
        super().__init__(field, detail)

    def __str__(self) -> str:
        return f"{self.field}: {self.detail}"


class TooLarge(ValueError):
    """Raised when the decompressed content of a file exceeds a limit."""


@dataclass(frozen=True)
class ColumnSummary:
    """A column of a file: its role, its kind, and the reason for the kind."""

    name: str
    role: Role
    kind: Kind | None = None
    missing: int | None = None
    levels: int | None = None
    reason: str | None = None
    format: dict[str, Any] | None = None
    """How numbers and dates are written, if not as 1234.5 and 2024-05-31: the fields of CellFormat that differ."""


@dataclass(kw_only=True)
class Summary:
    """The description of a table without its arrays.

    `nnz` is the number of non-zeros of a dense X, or of the stored entries of a CSR matrix, explicit zeros included.
    `class_counts` is empty for a real-valued target: numeric labels that are not all integers, or have more than 100
    different values. `columns` is empty if the columns have no names and are all numeric. Otherwise it lists the
    features first.
    """

    storage: Literal["dense", "csr"]
    n_rows: int
    n_features: int
    nnz: int
    label_kind: Literal["number", "string"]
    task_hint: TaskHint | None
    """None if the file has no labels."""
    feature_names: list[str] | None = None
    target: str | None = None
    labels: list[str] | None = None
    class_counts: list[tuple[Label, int]] = field(default_factory=list)
    columns: list[ColumnSummary] = field(default_factory=list)
    warnings: list[FileWarning] = field(default_factory=list)


@dataclass(kw_only=True)
class Table(Summary):
    """A dataset in memory.

    `arrays` holds:

    - dense: X (C order); csr: data, indices (int32, ascending in a row) and indptr (int64). X and data are float32 if
      the file stores float32, or is text whose numbers are all exact in float32; else float64.
    - y: float64 for numeric labels; for strings, their positions in `labels` (int32); absent without labels.
    - weight (float64) and group (int64, numbered from 0 in order of appearance), if the file has them.
    - levels.j.bytes and levels.j.offsets: the category names of a categorical feature j.
    - text.j.bytes and text.j.offsets: the texts of a text feature j.

    `app/tabular/frame.py` defines how X encodes a non-numeric feature.
    """

    arrays: dict[str, Array]


class ErrorLog:
    """Collects the errors of a file: the first 20 in full, then only their number."""

    def __init__(self) -> None:
        self._listed: list[FileError] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        """Return whether COUNTED_ERRORS errors were found, so that reading can stop."""
        return self._count >= COUNTED_ERRORS

    def add(self, line: int | None, column: int | None, code: str, detail: str) -> None:
        self._count += 1
        if len(self._listed) < LISTED_ERRORS:
            self._listed.append(FileError(line, column, code, detail))

    def add_unlisted(self, count: int) -> None:
        """Count further errors that are not listed."""
        self._count = min(self._count + count, COUNTED_ERRORS)

    def extend(self, other: "ErrorLog") -> None:
        """Append the errors of another log."""
        self.add_unlisted(other._count)
        self._listed += other._listed[: LISTED_ERRORS - len(self._listed)]

    def raise_if_any(self) -> None:
        if self._count:
            raise InvalidFile(self._listed, self._count - len(self._listed))


def excerpt(raw: str | bytes) -> str:
    """Quote input for an error message: at most MAX_EXCERPT characters, with escapes."""
    text = raw[: 4 * MAX_EXCERPT]
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    cut = len(raw) > 4 * MAX_EXCERPT or len(safe) > MAX_EXCERPT
    return f"'{safe[: MAX_EXCERPT - 1]}…'" if cut else f"'{safe}'"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
