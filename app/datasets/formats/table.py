"""What every reader takes and gives: options in, a `Table` out, or an error that names its place.

    Exception
      ValueError
        InvalidFile     the bytes are wrong; carries FileError entries (line, column, code, detail)
        InvalidOption   the request is wrong for this file; carries the field's name

Both travel between processes, so both can be pickled.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = [
    "COUNTED_ERRORS",
    "LISTED_ERRORS",
    "ErrorLog",
    "FileError",
    "FileWarning",
    "InvalidFile",
    "InvalidOption",
    "Label",
    "ReadOptions",
    "Table",
    "TaskHint",
    "excerpt",
    "plural",
    "summarize_codes",
    "summarize_numbers",
]

Label = int | str
TaskHint = Literal["binary", "multiclass", "regression"]
Array = npt.NDArray[Any]

LISTED_ERRORS = 20
COUNTED_ERRORS = 1000
MAX_EXCERPT = 40
MAX_NUMERIC_CLASSES = 100


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file. A reader refuses an option that has no meaning for its format."""

    target: str | None = None
    weight: str | None = None
    ignore: tuple[str, ...] = ()
    index_base: Literal["auto", "0", "1"] = "auto"
    n_features: int | None = None
    delimiter: str | None = None
    header: Literal["auto", "true", "false"] = "auto"


@dataclass(frozen=True)
class FileError:
    """One fault of a file. `line` and `column` count from 1 and are None where no place applies.

    `column` is the field's number in CSV and the byte's number in its line in libsvm text.
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
        place = "" if first.line is None else f"line {first.line}, column {first.column}: "
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


@dataclass
class Table:
    """A data set as arrays.

    `arrays` holds, dense: X (float64, C order); csr: data (float64), indices (int32, ascending in a
    row), indptr (int64). Always y: float64 for numeric labels, int32 positions in `labels` for
    strings. Where the file has them: weight (float64), group (int64). `nnz` counts the non-zeros of
    X, or the stored entries of a CSR (explicit zeros are kept as they came).

    `class_counts` is empty for a real-valued target: numeric labels that are not all integers, or
    take more than 100 values.
    """

    storage: Literal["dense", "csr"]
    arrays: dict[str, Array]
    n_rows: int
    n_features: int
    nnz: int
    label_kind: Literal["number", "string"]
    task_hint: TaskHint
    feature_names: list[str] | None = None
    target: str | None = None
    labels: list[str] | None = None
    class_counts: list[tuple[Label, int]] = field(default_factory=list)
    warnings: list[FileWarning] = field(default_factory=list)


class ErrorLog:
    """Collects the faults of one file: the first 20 in full, then only their number."""

    def __init__(self) -> None:
        self._listed: list[FileError] = []
        self._count = 0

    @property
    def full(self) -> bool:
        """True when looking for further faults is of no more use."""
        return self._count >= COUNTED_ERRORS

    def add(self, line: int | None, column: int | None, code: str, detail: str) -> None:
        self._count += 1
        if len(self._listed) < LISTED_ERRORS:
            self._listed.append(FileError(line, column, code, detail))

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


def summarize_numbers(
    y: npt.NDArray[np.float64],
) -> tuple[list[tuple[Label, int]], TaskHint, list[FileWarning]]:
    """Class counts, task and warnings of numeric labels."""
    if _is_real_valued(np.unique(y[:10_000])):  # spares real-valued targets the sort of the whole column
        return [], "regression", []
    values, counts = np.unique(y, return_counts=True)
    if _is_real_valued(values):
        return [], "regression", []
    pairs: list[tuple[Label, int]] = [(int(v), int(c)) for v, c in zip(values, counts, strict=True)]
    return pairs, *_judge_classes(pairs)


def summarize_codes(
    codes: npt.NDArray[np.int32], labels: list[str]
) -> tuple[list[tuple[Label, int]], TaskHint, list[FileWarning]]:
    """Class counts, task and warnings of string labels; `codes` are positions in `labels`."""
    counts = np.bincount(codes, minlength=len(labels))
    pairs: list[tuple[Label, int]] = [(v, int(c)) for v, c in zip(labels, counts, strict=True)]
    return pairs, *_judge_classes(pairs)


def _is_real_valued(distinct: npt.NDArray[np.float64]) -> bool:
    return len(distinct) > MAX_NUMERIC_CLASSES or not np.array_equal(distinct, np.trunc(distinct))


def _judge_classes(pairs: list[tuple[Label, int]]) -> tuple[TaskHint, list[FileWarning]]:
    if len(pairs) > 2:
        return "multiclass", []
    if len(pairs) == 2:
        return "binary", []
    label = excerpt(str(pairs[0][0]))
    return "binary", [FileWarning("one_class", f"Every row has the label {label}; no classifier can be trained.")]
