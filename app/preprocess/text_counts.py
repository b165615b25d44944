"""Counts the terms of stored texts in blocks, with compiled kernels."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from app.preprocess import text_kernels
from app.preprocess.features import Counts
from app.preprocess.spec import TextSettings
from app.preprocess.terms import Terms
from app.preprocess.text_kernels import (
    AT,
    COLUMN_BITS,
    END,
    FIELDS,
    KEY,
    MOST_TIMES,
    PAIR,
    ROW_BITS,
    TIMES_BITS,
    Alphabet,
    Bytes,
    Flags,
    Scratch,
    Table,
)
from app.tabular.frame import Strings
from app.tabular.types import Ints
from solvers.linalg import kernel_cache

__all__ = ["MAX_TERMS", "TermTable", "TextBlock", "count_terms", "join_terms", "tally_terms", "text_blocks", "warm"]

MAX_TERMS = 1 << 22
"""Maximum number of different terms while a vocabulary is learnt. Beyond it, the rarest terms are dropped. Larger: more
memory, about 100 bytes per term. Set by hand; no measurement is recorded."""
BLOCK_BYTES = 1 << 20
"""Bytes of texts per call of the kernel. Larger: fewer calls, more memory. Set by hand; no measurement is recorded."""
BLOCK_TEXTS = 1 << ROW_BITS
"""Maximum number of texts per call. The row number must fit into ROW_BITS bits of a packed entry."""


class TextBlock(NamedTuple):
    """A block of texts: text i is `lowered[starts[i]:ends[i]]` if `is_lowered[i]`, else that part of `bytes`."""

    bytes: Bytes
    lowered: Bytes
    is_lowered: Flags
    starts: Ints
    ends: Ints

    @property
    def size(self) -> int:
        return int((self.ends - self.starts).sum())


class TermTable:
    """A hash table of terms. It grows before a block is counted, never inside a kernel."""

    def __init__(self) -> None:
        self.filled = np.zeros(2, dtype=np.int64)  # number of terms, number of letters
        self.slots = np.zeros(1 << 10, dtype=np.int32)  # number of the term + 1; 0 if the slot is free
        self._terms = np.empty((0, FIELDS), dtype=np.int64)
        self.letters = np.empty(0, dtype=np.uint8)

    def __len__(self) -> int:
        return int(self.filled[0])

    @property
    def terms(self) -> Ints:
        """Return the table of terms, one row per term. text_kernels.py names its columns."""
        return self._terms[: len(self)]

    def make_room(self, terms: int, letters: int) -> None:
        """Grow the table so that it can take `terms` further terms with `letters` letters in total."""
        wanted = len(self) + terms
        if wanted > len(self._terms):
            self._terms = _grown(self._terms, max(wanted, len(self._terms) * 3 // 2))
        if self.filled[1] + letters > len(self.letters):
            self.letters = _grown(self.letters, max(int(self.filled[1]) + letters, len(self.letters) * 3 // 2))
        if 2 * wanted > len(self.slots):
            self._spread_out(2 * wanted)

    def keep(self, kept: Flags) -> None:
        """Remove all terms but the marked ones. The parts of a kept term must be marked, too."""
        number = np.cumsum(kept, dtype=np.int64) - 1
        terms = self.terms[kept]
        pairs = terms[:, AT] == PAIR
        parts = terms[pairs, KEY]
        terms[pairs, KEY] = number[parts >> 32] << 32 | number[parts & 0xFFFFFFFF]
        sizes = np.where(pairs, 0, terms[:, END] - terms[:, AT])
        ends = np.cumsum(sizes)
        letters = np.empty(int(sizes.sum()), dtype=np.uint8)
        text_kernels.copy_letters(self.letters, terms[:, AT].copy(), sizes, letters)
        terms[~pairs, AT], terms[~pairs, END] = (ends - sizes)[~pairs], ends[~pairs]
        self._terms, self.letters = terms, letters
        self.filled[:] = len(terms), len(letters)
        self._spread_out(max(2 * len(terms), 1 << 10))

    def arrays(self) -> Table:
        return self.filled, self.slots, self._terms, self.letters

    def _spread_out(self, slots: int) -> None:
        self.slots = np.zeros(1 << (slots - 1).bit_length(), dtype=np.int32)
        text_kernels.fill_slots(self.slots, self._terms, len(self))


def text_blocks(texts: Strings, settings: TextSettings) -> Iterator[TextBlock]:
    """Yield the texts in blocks of bounded size. If `settings.lowercase` is set, texts that are not ASCII are converted
    to lower case here."""
    source, n = _read_only(texts.bytes), len(texts)
    sizes = np.cumsum(texts.ends - texts.starts)
    first = 0
    while first < n:
        before = int(sizes[first - 1]) if first else 0
        last = int(np.searchsorted(sizes, before + BLOCK_BYTES, side="right"))
        last = min(max(last, first + 1), first + BLOCK_TEXTS, n)
        starts, ends = texts.starts[first:last].copy(), texts.ends[first:last].copy()
        is_lowered = np.zeros(len(starts), dtype=bool)
        lowered = b""
        if settings.lowercase:
            text_kernels.find_beyond_ascii(source, starts, ends, is_lowered)
            parts = []
            end = 0
            for i in np.flatnonzero(is_lowered).tolist():
                parts.append(texts[first + i].lower().encode())
                starts[i], end = end, end + len(parts[-1])
                ends[i] = end
            lowered = b"".join(parts)
        yield TextBlock(source, _read_only(np.frombuffer(lowered, dtype=np.uint8)), is_lowered, starts, ends)
        first = last


def tally_terms(block: TextBlock, settings: TextSettings, table: TermTable, texts_before: int) -> None:
    """Add the term counts of a block to the table."""
    longest = settings.ngrams[1]
    table.make_room((block.size // 3 + 2 * len(block.starts)) * longest, block.size)
    alphabet, scratch = _alphabet(settings.lowercase), _scratch(block)
    text_kernels.tally_block(block[:], alphabet, longest, texts_before, scratch, table.arrays())


def count_terms(encoder: Terms, texts: Strings) -> Iterator[Counts]:
    """Yield the counts of stored texts block by block. They equal those of `terms.count_terms`."""
    settings: TextSettings = encoder.settings
    alphabet, (shortest, longest) = _alphabet(settings.lowercase), settings.ngrams
    size = encoder.n_terms
    table = None if encoder.vocabulary is None else _known_terms(encoder, encoder.vocabulary).arrays()
    marks = np.full((size, 2), -1, dtype=np.int64)
    before = 0
    for block in text_blocks(texts, settings):
        n = len(block.starts)
        indptr = np.zeros(n + 1, dtype=np.int64)
        packed = np.empty(min((block.size // 3 + 2 * n) * longest, size * n), dtype=np.int64)
        sizes, scratch = (shortest, longest, before), _scratch(block)
        if table is None:
            text_kernels.hash_block(block[:], alphabet, sizes, scratch, marks, packed, indptr)
        else:
            text_kernels.count_block(block[:], alphabet, sizes, scratch, table, marks, packed, indptr)
        entries = packed[: indptr[-1]]
        entries.sort()
        columns = entries >> TIMES_BITS & (1 << COLUMN_BITS) - 1
        yield Counts(indptr, columns.astype(np.int32), (entries & MOST_TIMES).astype(np.float64))
        before += n
    if not len(texts):
        yield Counts(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0))


@cache
def warm() -> None:
    """Load or compile the kernels, and repair their cache if it is damaged. Called once per process."""
    kernel_cache.warm(kernel_cache.kernels_of(text_kernels), _use_every_kernel)


def _use_every_kernel() -> None:
    settings, texts = TextSettings(ngrams=(1, 2)), Strings.of(["one two", "zwölf two"])
    table = TermTable()
    for block in text_blocks(texts, settings):
        tally_terms(block, settings, table, 0)
    table.keep(np.ones(len(table), dtype=bool))
    vocabulary = join_terms(table, np.arange(len(table)))
    for hashed in (False, 7):
        counted = settings.model_copy(update={"hash": hashed})
        list(count_terms(Terms(0, "text", counted, None if hashed else vocabulary, None, False, False), texts))


def join_terms(table: TermTable, chosen: Ints) -> Strings:
    """Return the texts of terms, with spaces between words."""
    sizes = np.empty(len(chosen), dtype=np.int64)
    text_kernels.measure_terms(chosen, table.terms, sizes)
    ends = np.cumsum(sizes)
    letters = np.empty(int(sizes.sum()), dtype=np.uint8)
    text_kernels.write_terms(chosen, table.terms, table.letters, ends, letters)
    return Strings(letters, ends - sizes, ends)


def _known_terms(encoder: Terms, vocabulary: Strings) -> TermTable:
    """Build a table that maps each term of a vocabulary to its feature. It also contains the prefixes of long terms."""
    table = _TABLES.get(encoder)
    if table is None:
        table = TermTable()
        spaces = int((vocabulary.bytes == 32).sum())
        table.make_room(2 * (len(vocabulary) + spaces) + 1, len(vocabulary.bytes) + 1)
        letters = _read_only(vocabulary.bytes)
        text_kernels.add_vocabulary(letters, vocabulary.starts, vocabulary.ends, table.arrays())
        _TABLES[encoder] = table
    return table


_TABLES: WeakKeyDictionary[Terms, TermTable] = WeakKeyDictionary()
"""Term table of each encoder, cached while the encoder exists, because a dataset can be scored in many parts."""


def _scratch(block: TextBlock) -> Scratch:
    longest = int((block.ends - block.starts).max(initial=0))
    words = longest // 3 + 2  # a word has at least two letters and a separator
    terms, packs, letters = (
        np.empty(size, dtype) for size, dtype in ((words, "i8"), (words, "i8"), (longest + 1, "u1"))
    )
    return terms, packs, letters, np.zeros(words + 1, dtype=np.int64)


@cache
def _alphabet(lowercase: bool) -> Alphabet:
    ascii_letters = np.zeros(128, dtype=np.uint8)
    for c in range(128):
        if chr(c).isalnum() or chr(c) == "_":
            ascii_letters[c] = ord(chr(c).lower()) if lowercase else c
    is_word = np.zeros(0x110000, dtype=np.uint8)
    planes = "".join(map(chr, range(0xD800))) + "\0" * 0x800 + "".join(map(chr, range(0xE000, 0x110000)))
    for run in re.finditer(r"\w+", planes):
        is_word[run.start() : run.end()] = 1
    return ascii_letters, np.packbits(is_word, bitorder="little")


def _read_only(array: Bytes) -> Bytes:
    """Make the array read-only, as mapped files are. For writable arrays numba would compile a second version."""
    view = array[:]
    view.flags.writeable = False
    return view


def _grown(array: Any, size: int) -> Any:
    grown = np.empty((size, *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
