"""What every reader takes and gives: options in, arrays and a `Summary` out, or an error that names its place.

    Exception
      ValueError
        InvalidFile     the bytes are wrong; carries FileError entries (line, column, code, detail)
        InvalidOption   the request is wrong for this file; carries the field's name
        TooLarge        the file expands to more than is allowed

All of them travel between processes, so all of them can be pickled.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from app.tabular.frame import Kind
from app.tabular.types import Array

__all__ = [
    "COUNTED_ERRORS",
    "LISTED_ERRORS",
    "Array",
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
"""The name of a format: one that `file_formats()` lists."""
Encoding = Literal["identity", "gzip", "zstd"]
Label = int | str
Role = Literal["feature", "target", "weight", "group", "ignored"]
TaskHint = Literal["binary", "multiclass", "regression"]

LISTED_ERRORS = 20
COUNTED_ERRORS = 1000
MAX_EXCERPT = 40


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file. A reader refuses an option that has no meaning for its format.

    Columns are named, or numbered from 0 (from the end: -1). `missing` lists the cells, exactly as
    written, that stand for a value that is not there; a blank cell always does.
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


@dataclass(frozen=True)
class FileError:
    """One fault of a file. `line` and `column` count from 1 and are None where no place applies.

    `line` is the row in formats without lines. `column` is the field's number, but the byte's number
    in its line in libsvm text and where a line of ndjson is not JSON.
    """

    line: int | None
    column: int | None
    code: str
    detail: str


@dataclass(frozen=True)
class FileWarning:
    """Something the reader decided or noticed that the owner of the data should know."""

    code: str
    detail: str
    features: tuple[int, ...] = ()
    """The first of the features that it is about, from 0."""
    count: int | None = None
    """How many features it is about; None: it is about something else."""


class InvalidFile(ValueError):
    """The file cannot be read. `errors` holds the first 20 faults, `more` counts the others found.

    Counting stops at 1000 faults in all: a file that is wrong on every line is answered soon.
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
    """An option that does not fit the file or its format; `field` is the option's name."""

    def __init__(self, field: str, detail: str) -> None:
        self.field = field
        self.detail = detail
        super().__init__(field, detail)

    def __str__(self) -> str:
        return f"{self.field}: {self.detail}"


class TooLarge(ValueError):
    """What the file holds is larger than is allowed, or expands suspiciously much."""


@dataclass(frozen=True)
class ColumnSummary:
    """One column of a file: what it is for, what it holds, and why that is thought."""

    name: str
    role: Role
    kind: Kind | None = None
    missing: int | None = None
    levels: int | None = None
    reason: str | None = None


@dataclass(kw_only=True)
class Summary:
    """What is known of a table beside its arrays.

    `nnz` counts the non-zeros of X, or the stored entries of a CSR (explicit zeros are kept as they came).
    `class_counts` is empty for a real-valued target: numeric labels that are not all integers, or
    take more than 100 values. `columns` is empty if they have no names and all hold numbers; otherwise the
    features come first.
    """

    storage: Literal["dense", "csr"]
    n_rows: int
    n_features: int
    nnz: int
    label_kind: Literal["number", "string"]
    task_hint: TaskHint
    feature_names: list[str] | None = None
    target: str | None = None
    labels: list[str] | None = None
    class_counts: list[tuple[Label, int]] = field(default_factory=list)
    columns: list[ColumnSummary] = field(default_factory=list)
    warnings: list[FileWarning] = field(default_factory=list)


@dataclass(kw_only=True)
class Table(Summary):
    """A data set in memory.

    `arrays` holds, dense: X (C order); csr: data, indices (int32, ascending in a row), indptr (int64);
    X and data are float32 where the file has them so, or is text and has only numbers that are
    exact in it, else float64. Always y: float64 for numeric
    labels, int32 positions in `labels` for strings. Where the file has them: weight (float64), group
    (int64, numbered from 0 in order of appearance). What X holds of feature j that is no number is said in
    `app/tabular/frame.py`; beside it are levels.j.bytes and levels.j.offsets, or text.j.bytes and text.j.offsets.
    """

    arrays: dict[str, Array]


class ErrorLog:
    """Collects the faults of one file: the first 20 in full, then only their number."""

    def __init__(self) -> None:
        self._listed: list[FileError] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        """True when looking for further faults is of no more use."""
        return self._count >= COUNTED_ERRORS

    def add(self, line: int | None, column: int | None, code: str, detail: str) -> None:
        self._count += 1
        if len(self._listed) < LISTED_ERRORS:
            self._listed.append(FileError(line, column, code, detail))

    def add_unlisted(self, count: int) -> None:
        """Count faults that lie behind those that a list has room for."""
        self._count = min(self._count + count, COUNTED_ERRORS)

    def extend(self, other: "ErrorLog") -> None:
        """Add what another log has: faults that lie behind those of this one."""
        self.add_unlisted(other._count)
        self._listed += other._listed[: LISTED_ERRORS - len(self._listed)]

    def raise_if_any(self) -> None:
        if self._count:
            raise InvalidFile(self._listed, self._count - len(self._listed))


def excerpt(raw: str | bytes) -> str:
    """A short quotation of the input that is safe to print: at most 40 characters, escaped."""
    text = raw[: 4 * MAX_EXCERPT]
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    cut = len(raw) > 4 * MAX_EXCERPT or len(safe) > MAX_EXCERPT
    return f"'{safe[: MAX_EXCERPT - 1]}…'" if cut else f"'{safe}'"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
