"""Determines the kind of text columns, block by block, in bounded memory.

The kind of a column is known only after its last cell, but its cells are stored as they arrive. The first block
therefore decides which kind is assumed. If a column turns out to have another kind, the reader starts again with the
known kinds.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.datasets.formats.guess import Facts, Guess, guess
from app.datasets.formats.table import FileError, InvalidFile
from app.tabular.cells import DECIMAL, is_mark, read_boolean, read_date, truth_pair
from app.tabular.frame import Kind
from app.tabular.types import Array

__all__ = ["LevelBudget", "WordCells", "WordColumn", "encode_cells", "text_chunks"]

MAX_LEVELS = 1 << 18
"""Maximum number of different values of a categorical column. A column with more is text. Larger: more memory, and
models with more features. Set by hand; no measurement is recorded."""
MAX_LEVEL_BYTES = 32 << 20
"""Maximum total bytes of the different values of a categorical column. A column with more is text. Larger: more memory.
Set by hand; no measurement is recorded."""
MAX_BUDGET = 128 << 20
"""Maximum memory for the different values of all columns of a file, in bytes. Larger: more columns can be categorical,
and more memory. Set by hand; no measurement is recorded."""
ENTRY_BYTES = 128
"""Assumed memory of one different value in addition to its text, in bytes. Larger: fewer columns can be categorical.
Set by hand; no measurement is recorded."""
CHUNK_BYTES = 8 << 20
"""Bytes of texts per write to the disk. Larger: fewer writes, more memory. Set by hand; no measurement is recorded."""
LONGEST_MARK = 15
"""Maximum characters of a common marker for a missing value. Longer cells are not compared with the markers."""
NOT_FINITE = r"[ \t]*(?i:[+-]?inf|[+-]?infinity|[+-]nan)[ \t]*"
"""Pattern of cells that mean infinity or NaN. Without a sign, "nan" is a marker for a missing value instead."""
LIKE_NUMBER = rf"^(?:[ \t]*{DECIMAL}[ \t]*|{NOT_FINITE})$"


class WordCells(NamedTuple):
    """The cells of a column: its different texts, and for each row the position of its text, or -1 if it is missing."""

    values: Any  # an Arrow array of strings
    places: npt.NDArray[np.int64]
    may_be_numbers: bool  # true for CSV, which does not distinguish numbers from texts


def encode_cells(column: Any, missing: frozenset[str] = frozenset(), may_be_numbers: bool = False) -> WordCells:
    """Encode an Arrow array of strings, dictionary-encoded or not. Blank cells and the texts in `missing` are missing
    values."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    places = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    values = encoded.dictionary
    if len(values) > len(places):  # a dictionary can contain values that no row uses
        used, compact = np.unique(places, return_inverse=True)
        first = int(len(used) > 0 and used[0] < 0)
        values, places = values.take(pa.array(used[first:])), compact.reshape(-1) - first
    if pc.any(pc.match_substring(values, "\0")).as_py():
        detail = "A cell contains a NUL character, which cannot be stored."
        raise InvalidFile([FileError(None, None, "bad_text", detail)])
    gone = pc.equal(pc.utf8_trim(values, characters=" \t"), "").fill_null(True)
    if missing:
        gone = pc.or_(gone, pc.is_in(values, value_set=pa.array(sorted(missing), values.type)))
    gone_values = gone.to_numpy(zero_copy_only=False)
    if gone_values.any():
        places = np.where((places >= 0) & gone_values[places], -1, places)
    return WordCells(values, places, may_be_numbers)


def text_chunks(cells: WordCells) -> Iterator[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
    """Yield the texts of all rows in chunks: their bytes, and the length of each text. A missing text has length 0."""
    byte_lengths = np.append(_lengths(pc.binary_length(cells.values)), 0)
    lengths = byte_lengths[cells.places]
    chunk_of_row = np.cumsum(lengths) // CHUNK_BYTES
    bounds = [0, *(np.flatnonzero(np.diff(chunk_of_row)) + 1).tolist(), len(lengths)]
    for first, past in pairwise(bounds):
        places = cells.places[first:past]
        chosen = cells.values.take(pa.array(places, mask=places < 0)).fill_null("")
        yield _buffer(chosen)[0], lengths[first:past]


def _lengths(found: Any) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = found.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _buffer(values: Any) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of an Arrow array of strings without nulls, and the offsets of the strings."""
    _, offsets, data = values.buffers()
    width = np.int64 if pa.types.is_large_string(values.type) else np.int32
    places = np.frombuffer(offsets, width)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    text = np.frombuffer(data, np.uint8)[places[0] : places[-1]] if data else np.zeros(0, np.uint8)
    return text, places - places[0]


def _count_words(values: Any) -> npt.NDArray[np.int64]:
    """Count the words of each text. White space and control characters separate words."""
    text, offsets = _buffer(values.fill_null(""))
    blank = text <= ord(" ")
    begins = ~blank
    begins[1:] &= blank[:-1]
    starts = offsets[:-1][offsets[:-1] < offsets[1:]]
    begins[starts] = ~blank[starts]
    counts: npt.NDArray[np.int64] = np.diff(np.searchsorted(np.flatnonzero(begins), offsets))
    return counts


@dataclass
class LevelBudget:
    """Remaining memory for the different values of all columns of a file, in bytes."""

    left: int = field(default_factory=lambda: MAX_BUDGET)


class WordColumn:
    """A text column. It receives cells block by block, returns the numbers that represent them in X, and determines its
    kind at the end."""

    def __init__(self, kind: Kind | None, budget: LevelBudget, may_be_numbers: bool) -> None:
        self.kind = kind
        self.facts = Facts()
        self.spoilt = False  # true once stored cells have a wrong kind
        self._known: dict[str, int] | None = {}  # text to code; None if there are too many categories
        self._level_bytes = 0
        self._budget = budget
        self._may_be_numbers = may_be_numbers

    @property
    def levels(self) -> list[str]:
        """Return the categories in order of appearance, which is the order of their codes."""
        return list(self._known or ())

    @property
    def verdict(self) -> Guess:
        return guess(self.facts)

    def add(self, cells: WordCells) -> Array:
        """Add cells. Returns the numbers that represent them in X."""
        present = cells.places[cells.places >= 0]
        counts = np.bincount(present, minlength=len(cells.values))
        texts = cells.values.to_pylist() if self._needs_texts else None
        self._count(cells, counts, texts)
        codes = None if texts is None else self._encode(texts, counts)
        if self.kind is None:
            self.kind = self.verdict.kind
        if self.kind == "text":
            return _looked_up(_lengths(pc.utf8_length(cells.values)), cells.places)
        if self.kind != "categorical":
            codes = None if texts is None else _meanings(read_date if self.kind == "date" else read_boolean, texts)
        if codes is None:
            self.spoilt = True
            return np.full(len(cells.places), np.nan)
        return _looked_up(codes, cells.places)

    @property
    def _needs_texts(self) -> bool:
        return self._known is not None or self.facts.dates or self.facts.pair is not None

    def _count(self, cells: WordCells, counts: Array, texts: list[str] | None) -> None:
        facts = self.facts
        facts.missing += int(np.count_nonzero(cells.places < 0))
        facts.present += int(counts.sum())
        facts.words += int(_count_words(cells.values) @ counts)
        marks = _find_marks(cells.values, counts)
        facts.marks.update(marks)
        if self._may_be_numbers:
            self._count_numbers(cells.values, counts)
        if texts is not None and (facts.pair is not None or facts.dates):
            self._narrow(
                text for text, count in zip(texts, counts.tolist(), strict=True) if count and text not in marks
            )

    def _count_numbers(self, values: Any, counts: Array) -> None:
        spelled = pc.match_substring_regex(values, LIKE_NUMBER).fill_null(False)
        is_number = spelled.to_numpy(zero_copy_only=False)
        self.facts.numbers += int(counts[is_number].sum())
        if self.facts.example is None:
            others = np.flatnonzero(~is_number & (counts > 0))
            words = (values[int(place)].as_py() for place in others)
            self.facts.example = next((word for word in words if not is_mark(word)), None)

    def _narrow(self, texts: Iterator[str]) -> None:
        """Update the facts `dates` and `pair` with more cells."""
        facts = self.facts
        for text in texts:
            pair = truth_pair(text)
            if facts.pair == ():
                facts.pair = pair
            elif pair != facts.pair:
                facts.pair = None
            facts.dates = facts.dates and read_date(text) is not None
            if facts.pair is None and not facts.dates:
                break

    def _encode(self, texts: list[str], counts: Array) -> Array | None:
        """Return the codes of these texts, or None if there are too many categories."""
        known = self._known
        if known is None:
            return None
        used = [text if count else None for text, count in zip(texts, counts.tolist(), strict=True)]
        before = len(known)
        codes = [0 if text is None else known.setdefault(text, len(known)) for text in used]
        if len(known) > before:
            taken = sum(len(text.encode()) for text in islice(reversed(known), len(known) - before))
            self._level_bytes += taken
            self._budget.left -= taken + ENTRY_BYTES * (len(known) - before)
        self.facts.distinct = len(known)
        self.facts.repeats = len(known) < self.facts.present
        if len(known) > MAX_LEVELS or self._level_bytes > MAX_LEVEL_BYTES or self._budget.left < 0:
            self._budget.left += self._level_bytes + ENTRY_BYTES * len(known)
            self._known = self.facts.distinct = None
            return None
        return np.array(codes, dtype=np.float64)


def _find_marks(values: Any, counts: Array) -> Counter[str]:
    short = np.flatnonzero((_lengths(pc.binary_length(values)) <= LONGEST_MARK) & (counts > 0))
    texts = values.take(pa.array(short)).to_pylist()
    return Counter({text: int(counts[place]) for text, place in zip(texts, short, strict=True) if is_mark(text)})


def _meanings(read: Callable[[str], float | None], texts: list[str]) -> Array:
    found = (None if text is None else read(text) for text in texts)
    return np.array([np.nan if value is None else value for value in found], dtype=np.float64)


def _looked_up(values: Array, places: Array) -> Array:
    """Return the value at each position; NaN for -1."""
    found: Array = np.append(values.astype(np.float64), np.nan)[places]
    return found
