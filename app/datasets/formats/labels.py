"""Counts the labels of a file block by block, and determines the task that they suggest."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from app.datasets.formats.table import FileError, FileWarning, InvalidFile, Label, TaskHint, excerpt
from app.tabular.types import Array

__all__ = [
    "MAX_NUMERIC_CLASSES",
    "MISSING_LABEL_CURE",
    "Codes",
    "Encoded",
    "NumberCounts",
    "Verdict",
    "WordCounts",
    "check_storable",
    "encode_integers",
    "encode_list",
    "without",
]

MAX_NUMERIC_CLASSES = 100
"""Maximum number of different integer labels that count as classes. With more, the suggested task is regression.
Larger: more integer targets suggest classification. Set by hand; no measurement is recorded."""
MAX_CLASSES = 65_536
"""Maximum number of different text labels. Larger: larger rows in the database, and more weights, one vector per class.
Set by hand; no measurement is recorded."""
MAX_LABEL_CHARACTERS = 16 << 20
"""Maximum total characters of all different labels. Larger: larger rows in the database, where the labels are stored.
Set by hand; no measurement is recorded."""

MISSING_LABEL_CURE = (
    "fill it in, or leave out the rows without a label with on_missing_target=drop; if the file has no labels, set "
    "target=none"
)

# distinct values in order of appearance, and for each row the position of its value among them
Encoded = tuple[Sequence[Any], Array]
Verdict = tuple[list[tuple[Label, int]], TaskHint | None, list[FileWarning]]


class NumberCounts:
    """Counts each numeric label as long as labels can be classes: integers with at most MAX_NUMERIC_CLASSES different
    values."""

    def __init__(self) -> None:
        self._counts: dict[float, int] | None = {}

    def add(self, y: npt.NDArray[np.float64]) -> None:
        if self._counts is None:
            return
        # most real-valued targets are recognized in the first part, so the rest is not sorted
        for part in (y[:10_000], y[10_000:]):
            values, counts = np.unique(part, return_counts=True)
            if len(values) > MAX_NUMERIC_CLASSES or not np.array_equal(values, np.trunc(values)):
                self._counts = None
                return
            for value, count in zip(values.tolist(), counts.tolist(), strict=True):
                self._counts[value] = self._counts.get(value, 0) + count
        if len(self._counts) > MAX_NUMERIC_CLASSES:
            self._counts = None

    def judge(self) -> Verdict:
        if self._counts is None:
            return [], "regression", []
        return _judge_classes(sorted((int(value), count) for value, count in self._counts.items()))


def encode_list(values: Sequence[Hashable]) -> Encoded:
    places: dict[Hashable, int] = {}
    codes = np.array([places.setdefault(value, len(places)) for value in values], dtype=np.int64)
    return list(places), codes


def without(encoded: Encoded, gone: Sequence[int]) -> tuple[Encoded, Array]:
    """Remove the values at these positions. Returns the encoded rest, and which rows it has."""
    values, places = encoded
    keep = ~np.isin(places, list(gone))
    rank = np.cumsum(~np.isin(np.arange(len(values)), list(gone))) - 1
    left = set(gone)
    return ([value for k, value in enumerate(values) if k not in left], rank[places[keep]]), keep


def encode_integers(values: npt.NDArray[np.int64]) -> Encoded:
    distinct, first, places = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return distinct[order].tolist(), rank[places]


class Codes:
    """Assigns numbers to values, from 0 in order of appearance."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}

    def encode(self, block: Encoded) -> npt.NDArray[np.int64]:
        values, places = block
        codes = [self.known.setdefault(value, len(self.known)) for value in values]
        encoded: npt.NDArray[np.int64] = np.array(codes, dtype=np.int64)[places]
        return encoded


class WordCounts:
    """Assigns numbers to labels that are strings, and counts the rows of each."""

    def __init__(self) -> None:
        self._codes = Codes()
        self._counts = np.zeros(0, dtype=np.int64)
        self._characters = 0

    @property
    def words(self) -> list[str]:
        """Return the labels in order of appearance, which is the order of their codes."""
        return list(self._codes.known)

    def encode(self, block: Encoded) -> npt.NDArray[np.int32]:
        new = [word for word in block[0] if word not in self._codes.known]
        check_storable(new)
        self._characters += sum(map(len, new))
        codes = self._codes.encode(block).astype(np.int32)
        if len(self._codes.known) > MAX_CLASSES or self._characters > MAX_LABEL_CHARACTERS:
            detail = (
                f"The labels are strings with more than {MAX_CLASSES} different values or "
                f"{MAX_LABEL_CHARACTERS >> 20} million characters in total; choose another column as the target."
            )
            raise InvalidFile([FileError(None, None, "too_many_classes", detail)])
        counts = np.bincount(codes, minlength=len(self._codes.known))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        return codes

    def ranks(self) -> npt.NDArray[np.int32]:
        """Return the position of each code's label in sorted order."""
        rank = {word: k for k, word in enumerate(sorted(self.words))}
        return np.array([rank[word] for word in self.words], dtype=np.int32)

    def judge(self) -> Verdict:
        return _judge_classes(sorted(zip(self.words, self._counts.tolist(), strict=True)))


def check_storable(texts: Sequence[str]) -> None:
    """Raise for a label or a name that a database cannot store. Needed for binary formats; text files are checked
    before."""
    for text in texts:
        if "\0" in text or (not text.isascii() and _has_surrogate(text)):
            detail = f"{excerpt(text)} contains a NUL character or a lone surrogate, which cannot be stored."
            raise InvalidFile([FileError(None, None, "bad_text", detail)])


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _judge_classes(pairs: list[Any]) -> Verdict:
    if len(pairs) > 2:
        return pairs, "multiclass", []
    if len(pairs) == 2:
        return pairs, "binary", []
    label = excerpt(str(pairs[0][0]))
    warning = FileWarning("one_class", f"Every row has the label {label}; a classifier needs at least two labels.")
    return pairs, "binary", [warning]
