"""Determines the kind of text columns, block by block, in bounded memory.

The kind of a column is known only after its last cell, but its cells are stored as they arrive. The first block
therefore decides which kind is assumed. If a column turns out to have another kind, the reader starts again with the
known kinds.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.datasets.formats.date_cells import DateFacts, read_dates
from app.datasets.formats.guess import Conventions, Evidence, Facts, Guess, Stray, guess
from app.datasets.formats.number_cells import NumberFacts, read_numbers
from app.datasets.formats.table import FileError, InvalidFile
from app.tabular.cell_format import CellFormat
from app.tabular.cells import MARKS, TRUTH_PAIRS, TRUTHS
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
LISTED_STRAYS = 10
"""Maximum number of cells per column that a warning about stray cells lists. Larger: longer warnings."""


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

    def __init__(
        self,
        assumed: Guess | None,
        budget: LevelBudget,
        conventions: Conventions,
        number: int,
        *,
        may_be_numbers: bool,
        counts_levels: bool,
    ) -> None:
        """`assumed` is the result of an earlier pass. Without `counts_levels`, a column that begins with numbers or
        dates does not collect its different values, which would need a Python object for each."""
        self.assumed = assumed
        self.facts = Facts(
            typed=not may_be_numbers,
            numbers=NumberFacts(conventions.styles),
            dates=DateFacts(conventions.date_order),
        )
        self.spoilt = False  # true once stored cells have a wrong kind
        self.lacks_levels = False
        self._known: dict[str, int] | None = {}  # text to code; None if there are too many categories
        self._level_bytes = 0
        self._budget = budget
        self._forced = conventions.kinds.get(number)
        self._counts_levels = counts_levels
        self._guessed_comma = conventions.prefers_comma
        self._n_rows = 0

    @property
    def kind(self) -> Kind:
        return "categorical" if self.assumed is None else self.assumed.kind

    @property
    def format(self) -> CellFormat:
        return CellFormat() if self.assumed is None else self.assumed.format

    @property
    def levels(self) -> list[str]:
        """Return the categories in order of appearance, which is the order of their codes."""
        return list(self._known or ())

    def is_stored_as(self, verdict: Guess) -> bool:
        """Return whether the cells are stored by the kind and the format of this verdict."""
        return (self.kind, self.format) == (verdict.kind, verdict.format)

    def verdict(self, evidence: Evidence) -> Guess:
        return guess(self.facts, evidence, self._forced)

    def add(self, cells: WordCells) -> Array:
        """Add cells. Returns the numbers that represent them in X."""
        present = cells.places[cells.places >= 0]
        counts = np.bincount(present, minlength=len(cells.values))
        self._count(cells, counts)
        evidence = Evidence(self._guessed_comma)
        if self.assumed is None and (first := self.verdict(evidence)).kind in ("numeric", "date"):
            self.assumed = first  # before the levels are collected, because such a column does not need them
        codes = self._encode(cells.values, counts) if self._needs_levels else None
        if self.assumed is None:
            self.assumed = self.verdict(evidence)
        self._n_rows += len(cells.places)
        match self.kind:
            case "text":
                return _looked_up(_lengths(pc.utf8_length(cells.values)), cells.places)
            case "numeric":
                return _looked_up(read_numbers(cells.values, self.format), cells.places)
            case "date":
                return _looked_up(read_dates(cells.values, self.format.date_order), cells.places)
            case "boolean":
                return _looked_up(_read_booleans(cells.values), cells.places)
        if codes is None:
            self.spoilt = True
            return np.full(len(cells.places), np.nan)
        return _looked_up(codes, cells.places)

    @property
    def _needs_levels(self) -> bool:
        if self._known is None:
            return False
        if self.kind in ("numeric", "date") and not self._counts_levels and not self.lacks_levels:
            self.lacks_levels, self._known, self.facts.distinct = True, None, None
            return False
        return True

    def _count(self, cells: WordCells, counts: Array) -> None:
        facts, values = self.facts, cells.values
        facts.missing += int(np.count_nonzero(cells.places < 0))
        facts.present += int(counts.sum())
        facts.words += int(_count_words(values) @ counts)
        bare = pc.utf8_lower(pc.utf8_trim(values, characters=" \t"))
        is_mark = _find_marks(values, bare, counts, facts.marks)
        used = (counts > 0) & ~is_mark
        self._narrow_pair(bare, used)
        self._note_strays(facts.numbers.add(values, np.where(used, counts, 0)), used, cells, facts.not_numbers)
        self._note_strays(facts.dates.add(values, np.where(used, counts, 0)), used, cells, facts.not_dates)

    def _note_strays(self, fits: Array, used: Array, cells: WordCells, strays: list[Stray]) -> None:
        """Add the first cells that do not fit to the list."""
        room = LISTED_STRAYS - len(strays)
        wrong = np.append(used & ~fits, False)  # the last entry is for missing cells
        if room <= 0 or not wrong.any():
            return
        rows = np.flatnonzero(wrong[cells.places])[:room].tolist()
        strays += [Stray(self._n_rows + row + 1, cells.values[int(cells.places[row])].as_py()) for row in rows]

    def _narrow_pair(self, bare: Any, used: Array) -> None:
        """Update the fact `pair` with more cells."""
        facts = self.facts
        if facts.pair is None or not used.any():
            return
        places = pc.index_in(bare, value_set=pa.array(list(TRUTH_PAIRS))).fill_null(-1).to_numpy(zero_copy_only=False)
        known = list(TRUTH_PAIRS.values())
        pairs = {known[place] if place >= 0 else None for place in np.unique(places[used]).tolist()}
        found = pairs.pop() if len(pairs) == 1 else None
        facts.pair = found if facts.pair in ((), found) else None

    def _encode(self, values: Any, counts: Array) -> Array | None:
        """Return the codes of these texts, or None if there are too many categories."""
        known = self._known
        if known is None:
            return None
        texts = values.to_pylist()
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


def _find_marks(values: Any, bare: Any, counts: Array, marks: Counter[str]) -> Array:
    """Count the markers of missing values. Returns which values are markers."""
    short = pc.less_equal(pc.binary_length(values), LONGEST_MARK)
    found = pc.and_(pc.is_in(bare, value_set=pa.array(sorted(MARKS))), short).fill_null(False)
    is_mark: Array = found.to_numpy(zero_copy_only=False) & (counts > 0)
    for place in np.flatnonzero(is_mark).tolist():  # at most a few spellings of each marker
        marks[values[place].as_py()] += int(counts[place])
    return is_mark


def _read_booleans(values: Any) -> Array:
    bare = pc.utf8_lower(pc.utf8_trim(values, characters=" \t"))
    places = pc.index_in(bare, value_set=pa.array(list(TRUTHS))).fill_null(len(TRUTHS)).to_numpy(zero_copy_only=False)
    truths: Array = np.array([*TRUTHS.values(), np.nan])[places]
    return truths


def _looked_up(values: Array, places: Array) -> Array:
    """Return the value at each position; NaN for -1."""
    found: Array = np.append(values.astype(np.float64), np.nan)[places]
    return found
