"""Stored texts to terms and counts, a block of texts at a time: what the kernels need around them."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from app.frame import Strings
from app.preprocess import text_kernels
from app.preprocess.features import Counts
from app.preprocess.spec import TextSettings
from app.preprocess.text_kernels import PAIR, Alphabet, Bytes, Flags, Ints, Scratch, Table, Tally

__all__ = ["MAX_TERMS", "TermTable", "TextBlock", "count_terms", "join_terms", "tally_terms", "text_blocks"]

MAX_TERMS = 1 << 22
"""Beyond so many different terms the rarest are dropped while a vocabulary is being learnt."""
BLOCK_BYTES = 1 << 20
BLOCK_TEXTS = 1 << 14


class TextBlock(NamedTuple):
    """Some texts; number i is `lowered[starts[i]:ends[i]]` if `is_lowered[i]`, else that part of `bytes`."""

    bytes: Bytes
    lowered: Bytes
    is_lowered: Flags
    starts: Ints
    ends: Ints

    @property
    def size(self) -> int:
        return int((self.ends - self.starts).sum())


class TermTable:
    """Terms by number, found by hash; it grows between blocks, never inside a kernel."""

    def __init__(self) -> None:
        self.filled = np.zeros(2, dtype=np.int64)  # how many terms, how many letters
        self.slots = np.zeros(1 << 10, dtype=np.int32)  # a term's number + 1; 0: free
        self.keys = np.empty(0, dtype=np.uint64)  # of a word its hash, of a pair its two parts
        self.letters_at = np.empty(0, dtype=np.int64)
        self.letters_end = np.empty(0, dtype=np.int64)
        self.letters = np.empty(0, dtype=np.uint8)

    def __len__(self) -> int:
        return int(self.filled[0])

    def make_room(self, terms: int, letters: int) -> None:
        """So that so many more fit in."""
        wanted = len(self) + terms
        if wanted > len(self.keys):
            size = max(wanted, len(self.keys) * 3 // 2)
            self.keys, self.letters_at, self.letters_end = (
                _grown(array, size) for array in (self.keys, self.letters_at, self.letters_end)
            )
        if self.filled[1] + letters > len(self.letters):
            self.letters = _grown(self.letters, max(int(self.filled[1]) + letters, len(self.letters) * 3 // 2))
        if 2 * wanted > len(self.slots):
            self.slots = np.zeros(1 << (2 * wanted - 1).bit_length(), dtype=np.int32)
            text_kernels.fill_slots(self.slots, self.keys, len(self))

    def keep(self, kept: Flags) -> None:
        """Forget the other terms. A term's parts must be kept with it."""
        number = np.cumsum(kept, dtype=np.int64) - 1
        chosen = np.flatnonzero(kept)
        keys, at, end = self.keys[chosen], self.letters_at[chosen], self.letters_end[chosen]
        pairs = at == PAIR
        first, last = keys[pairs] >> np.uint64(32), keys[pairs] & np.uint64(0xFFFFFFFF)
        keys[pairs] = (number[first.astype(np.int64)] << 32 | number[last.astype(np.int64)]).astype(np.uint64)
        sizes = np.where(pairs, 0, end - at)
        ends = np.cumsum(sizes)
        letters = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
        text_kernels.copy_letters(self.letters, at, sizes, letters)
        self.keys, self.letters = keys, letters
        self.letters_at, self.letters_end = (
            np.where(pairs, PAIR, ends - sizes),
            np.where(pairs, PAIR, ends),
        )
        self.filled[:] = len(chosen), len(letters)
        self.slots = np.zeros(1 << 10, dtype=np.int32)
        self.make_room(1, 1)
        text_kernels.fill_slots(self.slots, self.keys, len(self))

    def arrays(self) -> Table:
        return self.filled, self.slots, self.keys, self.letters_at, self.letters_end, self.letters


def text_blocks(texts: Strings, settings: TextSettings) -> Iterator[TextBlock]:
    """The texts in order, a bounded number of bytes at a time, those outside of ASCII lowered if that is wanted."""
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


def tally_terms(block: TextBlock, settings: TextSettings, table: TermTable, texts_before: int, tally: Tally) -> None:
    """Add a block's terms to the table and to the tally."""
    letters = _alphabet(settings.lowercase)
    text_kernels.tally_block(
        block[:], letters, settings.ngrams[1], texts_before, _scratch(block), table.arrays(), tally
    )


def count_terms(encoder: Any, texts: Strings) -> Iterator[Counts]:
    """The counts of stored texts, block after block; the same as `text.count_terms` gives for all of them."""
    settings: TextSettings = encoder.settings
    letters, (shortest, longest) = _alphabet(settings.lowercase), settings.ngrams
    if encoder.vocabulary is None:
        dims = size = int(settings.hash)
        table, column_of = TermTable(), np.empty(0, dtype=np.int64)
    else:
        table, column_of = _known_terms(encoder.vocabulary)
        dims, size = 0, len(encoder.vocabulary)
    places = np.empty(size, dtype=np.int64), np.full(size, -1, dtype=np.int64)
    before = 0
    for block in text_blocks(texts, settings):
        n = len(block.starts)
        indptr = np.zeros(n + 1, dtype=np.int64)
        packed = np.empty(min((block.size // 3 + 2 * n) * longest, size * n), dtype=np.int64)
        sizes = shortest, longest, dims, before
        scratch = _scratch(block)
        text_kernels.count_block(block[:], letters, sizes, scratch, table.arrays(), column_of, places, packed, indptr)
        packed = packed[: indptr[-1]]
        yield Counts(indptr, (packed >> 32).astype(np.int32), (packed & 0xFFFFFFFF).astype(np.float64))
        before += n
    if not len(texts):
        yield Counts(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0))


def join_terms(table: TermTable, chosen: Ints) -> Strings:
    """The letters of terms, words parted by a space."""
    sizes = np.empty(len(chosen), dtype=np.int64)
    text_kernels.measure_terms(chosen, table.arrays(), sizes)
    ends = np.cumsum(sizes)
    letters = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    text_kernels.write_terms(chosen, table.arrays(), ends, letters)
    return Strings(letters, ends - sizes, ends)


def _known_terms(vocabulary: Strings) -> tuple[TermTable, Ints]:
    """A table of a vocabulary, and for each of its terms the feature; -1: it is only the beginning of others."""
    table = TermTable()
    spaces = int((vocabulary.bytes == 32).sum())
    table.make_room(2 * (len(vocabulary) + spaces) + 1, len(vocabulary.bytes) + 1)
    column_of = np.full(len(table.keys), -1, dtype=np.int64)
    text_kernels.add_vocabulary(
        _read_only(vocabulary.bytes), vocabulary.starts, vocabulary.ends, table.arrays(), column_of
    )
    return table, column_of


def _scratch(block: TextBlock) -> Scratch:
    longest = int((block.ends - block.starts).max(initial=0))
    words = longest // 3 + 2  # each has two letters and something behind it
    return np.empty(words, dtype=np.int64), np.empty(longest + 1, dtype=np.uint8), np.zeros(words + 1, dtype=np.int64)


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
    """Mapped files are read-only, and numba compiles for that apart: all texts are made so."""
    view = array[:]
    view.flags.writeable = False
    return view


def _grown(array: Any, size: int) -> Any:
    grown = np.empty(size, dtype=array.dtype)
    grown[: len(array)] = array
    return grown
