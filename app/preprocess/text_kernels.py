"""Compiled kernels of text columns: split UTF-8 bytes into words, join words to terms, count terms.

A term of one word is found by its letters. A longer term is a pair: the term of all but its last word, and the term of
its last word. No letters are therefore compared twice. All terms share one hash table with open addressing. A word
is a run of at least two letters, digits or underscores. Python converts texts outside of ASCII to lower case before.

Letters: h a hash, c a byte, cp a code point.
"""

# mypy: disallow-untyped-decorators=False

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from app.tabular.types import Ints

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Source = tuple[Bytes, Bytes, Flags, Ints, Ints]  # a text_counts.TextBlock
Alphabet = tuple[Bytes, Bytes]  # letter of each ASCII byte, 0 if it ends a word; bit of each code point, 1: a letter
Scratch = tuple[Ints, Ints, Bytes, Ints]  # of one text: terms of its words, packed letters, all letters, word ends
Table = tuple[Ints, npt.NDArray[np.int32], Ints, Bytes]  # the arrays of a text_counts.TermTable

# Fields of a term. They are adjacent in memory, because most of the time is spent on loading them.
KEY = 0  # the letters of a short word, the hash of a longer one, or both parts of a pair of terms
AT, END = 1, 2  # start and end of the term's letters; in a pair of terms AT is PAIR
IN_TEXTS, TIMES, SEEN_IN = 3, 4, 5  # while learning: texts with the term, its occurrences, the last text with it
COLUMN = 3  # in a finished vocabulary: the term's feature number, or -1 if it has none
FIELDS = 6
# Bits of an entry, 63 in total: row within the block, column, count.
ROW_BITS, COLUMN_BITS, TIMES_BITS = 14, 24, 25
MOST_TIMES = (1 << TIMES_BITS) - 1

PAIR = -1  # value of AT for a term of several words, whose letters are stored with its parts

_LOW = np.uint64(0xFFFFFFFF)


def _crc_table() -> npt.NDArray[np.uint64]:
    table = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint64(0xEDB88320), table >> 1)
    return table


_CRC = _crc_table()


@njit(cache=True, nogil=True)
def find_beyond_ascii(text: Bytes, starts: Ints, ends: Ints, found: Flags) -> None:
    for i in range(len(starts)):
        high = np.uint8(0)
        for k in range(starts[i], ends[i]):
            high |= text[k]
        found[i] = high >= 128


@njit(cache=True, nogil=True)
def _split_words(
    text: Bytes, start: int, end: int, alphabet: Alphabet, packs: Ints, letters: Bytes, offsets: Ints
) -> int:
    """Write the words of text[start:end] one after another to `letters`. Returns the number of words.

    Word k is letters[offsets[k]:offsets[k + 1]]. `packs[k]` has the last eight bytes of word k.
    """
    ascii_letters, others = alphabet
    pack = np.int64(0)
    n = 0
    fill = 0
    characters = 0
    i = start
    while i < end:
        c = text[i]
        size = 1
        if c < 128:
            low = ascii_letters[c]
            if low != 0:
                letters[fill] = low
                pack = pack << 8 | low
                fill += 1
                characters += 1
                i += 1
                continue
        else:
            size = 2 if c < 0xE0 else 3 if c < 0xF0 else 4
            size = min(size, end - i)
            cp = np.int64(c & (0xFF >> (size + 1)))
            for k in range(1, size):
                cp = cp << 6 | (text[i + k] & 0x3F)
            if cp < 0x110000 and others[cp >> 3] >> (cp & 7) & 1:
                for k in range(size):
                    letters[fill + k] = text[i + k]
                    pack = pack << 8 | text[i + k]
                fill += size
                characters += 1
                i += size
                continue
        if characters >= 2:
            packs[n] = pack
            n += 1
            offsets[n] = fill
        else:
            fill = offsets[n]
        characters = 0
        pack = np.int64(0)
        i += size
    if characters >= 2:
        packs[n] = pack
        n += 1
        offsets[n] = fill
    return n


@njit(cache=True, nogil=True, inline="always")
def _spread(key: Any) -> Any:
    """Mix the bits of a key to get its slot. Keys of pairs are consecutive numbers, which would collide."""
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return h ^ (h >> np.uint64(32))


@njit(cache=True, nogil=True)
def fill_slots(slots: Any, terms: Ints, n: int) -> None:
    mask = np.uint64(len(slots) - 1)
    for term in range(n):
        slot = _spread(terms[term, KEY]) & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = term + 1


@njit(cache=True, nogil=True, inline="always")
def _find_word(
    pack: Any, word: Bytes, first: int, last: int, slots: Any, terms: Ints, letters: Bytes
) -> tuple[Any, Any, Any]:
    """Return the term of a word or -1, the slot where the search ended, and the key of the word."""
    size = last - first
    key = pack
    if size > 8:
        h = np.uint64(0xCBF29CE484222325)
        for k in range(first, last):
            h = (h ^ np.uint64(word[k])) * np.uint64(0x100000001B3)
        key = np.int64(h)
    mask = np.uint64(len(slots) - 1)
    slot = _spread(key) & mask
    while slots[slot] != 0:
        term = np.int64(slots[slot] - 1)
        at = terms[term, AT]
        if terms[term, KEY] == key and at >= 0 and terms[term, END] - at == size:
            k = 0 if size > 8 else size
            while k < size and letters[at + k] == word[first + k]:
                k += 1
            if k == size:
                return term, slot, key
        slot = (slot + np.uint64(1)) & mask
    return np.int64(-1), slot, key


@njit(cache=True, nogil=True)
def _add_word(
    slot: Any, key: Any, word: Bytes, first: int, last: int, filled: Ints, slots: Any, terms: Ints, letters: Bytes
) -> Any:
    """Add a word that `_find_word` did not find. Not inlined, because that would slow down the search."""
    term = _add_term(slot, key, filled, slots, terms)
    at = filled[1]
    for k in range(first, last):
        letters[at + k - first] = word[k]
    filled[1] = at + last - first
    terms[term, AT] = at
    terms[term, END] = filled[1]
    return term


@njit(cache=True, nogil=True)
def _add_term(slot: Any, key: Any, filled: Ints, slots: Any, terms: Ints) -> Any:
    term = filled[0]
    filled[0] += 1
    slots[slot] = term + 1
    terms[term, KEY] = key
    terms[term, AT] = PAIR
    terms[term, END] = PAIR
    terms[term, IN_TEXTS] = 0
    terms[term, TIMES] = 0
    terms[term, SEEN_IN] = -1
    return term


@njit(cache=True, nogil=True, inline="always")
def _find_pair(first: Any, last: Any, slots: Any, terms: Ints) -> tuple[Any, Any, Any]:
    """Return the term of a pair or -1, the slot where the search ended, and the key of the pair."""
    key = first << 32 | last
    mask = np.uint64(len(slots) - 1)
    slot = _spread(key) & mask
    while slots[slot] != 0:
        term = np.int64(slots[slot] - 1)
        if terms[term, KEY] == key and terms[term, AT] < 0:
            return term, slot, key
        slot = (slot + np.uint64(1)) & mask
    return np.int64(-1), slot, key


@njit(cache=True, nogil=True)
def tally_block(
    source: Source, alphabet: Alphabet, longest: int, texts_before: int, scratch: Scratch, table: Table
) -> None:
    text, lowered, is_lowered, starts, ends = source
    words, packs, word, offsets = scratch
    filled, slots, terms, letters = table
    for i in range(len(starts)):
        number = texts_before + i
        n = _split_words(lowered if is_lowered[i] else text, starts[i], ends[i], alphabet, packs, word, offsets)
        for k in range(n):
            first, past = offsets[k], offsets[k + 1]
            term, slot, key = _find_word(packs[k], word, first, past, slots, terms, letters)
            if term < 0:
                term = _add_word(slot, key, word, first, past, filled, slots, terms, letters)
            words[k] = term
            _tally(term, number, terms)
        for k in range(n if longest > 1 else 0):
            term = words[k]
            for last in range(k + 1, min(k + longest, n)):
                term, slot, key = _find_pair(term, words[last], slots, terms)
                if term < 0:
                    term = _add_term(slot, key, filled, slots, terms)
                _tally(term, number, terms)


@njit(cache=True, nogil=True, inline="always")
def _tally(term: int, number: int, terms: Ints) -> None:
    terms[term, TIMES] += 1
    if terms[term, SEEN_IN] != number:
        terms[term, SEEN_IN] = number
        terms[term, IN_TEXTS] += 1


@njit(cache=True, nogil=True)
def count_block(
    source: Source,
    alphabet: Alphabet,
    sizes: tuple[int, int, int],
    scratch: Scratch,
    table: Table,
    marks: Ints,
    packed: Ints,
    indptr: Ints,
) -> None:
    """Write an entry for each known term of each text. Sorting the packed entries sorts them by row and column.

    `marks` has, for each column, the last text with an entry in it and the position of that entry.
    """
    text, lowered, is_lowered, starts, ends = source
    words, packs, word, offsets = scratch
    _, slots, terms, letters = table
    shortest, longest, texts_before = sizes
    fill = 0
    for i in range(len(starts)):
        n = _split_words(lowered if is_lowered[i] else text, starts[i], ends[i], alphabet, packs, word, offsets)
        for k in range(n):
            words[k], _, _ = _find_word(packs[k], word, offsets[k], offsets[k + 1], slots, terms, letters)
        for k in range(n):
            term = words[k]
            last = k
            while term >= 0:
                column = terms[term, COLUMN]
                if last - k + 1 >= shortest and column >= 0:
                    fill = _count(i, column, texts_before + i, marks, packed, fill)
                last += 1
                if last >= min(k + longest, n) or words[last] < 0:
                    break
                term, _, _ = _find_pair(term, words[last], slots, terms)
        indptr[i + 1] = fill


@njit(cache=True, nogil=True)
def hash_block(
    source: Source,
    alphabet: Alphabet,
    sizes: tuple[int, int, int],
    scratch: Scratch,
    marks: Ints,
    packed: Ints,
    indptr: Ints,
) -> None:
    """Write entries like `count_block`. The column of a term is its hash."""
    text, lowered, is_lowered, starts, ends = source
    _, packs, word, offsets = scratch
    shortest, longest, texts_before = sizes
    fill = 0
    for i in range(len(starts)):
        n = _split_words(lowered if is_lowered[i] else text, starts[i], ends[i], alphabet, packs, word, offsets)
        for k in range(n):
            crc = _LOW
            for last in range(k, min(k + longest, n)):
                if last > k:
                    crc = _with_byte(crc, np.uint64(32))
                for at in range(offsets[last], offsets[last + 1]):
                    crc = _with_byte(crc, np.uint64(word[at]))
                if last - k + 1 >= shortest:
                    column = np.int64(_mixed(crc ^ _LOW) % np.uint64(len(marks)))
                    fill = _count(i, column, texts_before + i, marks, packed, fill)
        indptr[i + 1] = fill


@njit(cache=True, nogil=True, inline="always")
def _count(row: int, column: Any, number: int, marks: Ints, packed: Ints, fill: int) -> int:
    """Count one occurrence of a column in the current text. Returns the new number of entries."""
    if marks[column, 0] == number:
        place = marks[column, 1]
        # stop counting here: a text with this number of occurrences of a word has a hundred megabytes
        packed[place] += packed[place] & MOST_TIMES < MOST_TIMES
    else:
        marks[column, 0] = number
        marks[column, 1] = fill
        packed[fill] = row << COLUMN_BITS + TIMES_BITS | column << TIMES_BITS | 1
        fill += 1
    return fill


@njit(cache=True, nogil=True, inline="always")
def _with_byte(crc: Any, byte: Any) -> Any:
    return _CRC[(crc ^ byte) & np.uint64(0xFF)] ^ (crc >> np.uint64(8))


@njit(cache=True, nogil=True, inline="always")
def _mixed(h: Any) -> Any:
    """Compute `hashing.mixed` with 64-bit integers, because numba multiplies in 64 bits."""
    h = (h ^ (h >> np.uint64(16))) * np.uint64(0x85EBCA6B) & _LOW
    h = (h ^ (h >> np.uint64(13))) * np.uint64(0xC2B2AE35) & _LOW
    return h ^ (h >> np.uint64(16))


@njit(cache=True, nogil=True)
def add_vocabulary(text: Bytes, starts: Ints, ends: Ints, table: Table) -> None:
    filled, slots, terms, letters = table
    for i in range(len(starts)):
        term = np.int64(-1)
        first = starts[i]
        pack = np.int64(0)
        for k in range(starts[i], ends[i] + 1):
            if k == ends[i] or text[k] == 32:
                before = filled[0]
                word, slot, key = _find_word(pack, text, first, k, slots, terms, letters)
                if word < 0:
                    word = _add_word(slot, key, text, first, k, filled, slots, terms, letters)
                if term < 0:
                    term = word
                else:
                    term, slot, key = _find_pair(term, word, slots, terms)
                    if term < 0:
                        term = _add_term(slot, key, filled, slots, terms)
                for new in range(before, filled[0]):
                    terms[new, COLUMN] = -1
                first = k + 1
                pack = np.int64(0)
            else:
                pack = pack << 8 | text[k]
        terms[term, COLUMN] = i


@njit(cache=True, nogil=True)
def copy_letters(source: Bytes, at: Ints, sizes: Ints, target: Bytes) -> None:
    fill = 0
    for i in range(len(at)):
        for k in range(sizes[i]):
            target[fill] = source[at[i] + k]
            fill += 1


@njit(cache=True, nogil=True)
def measure_terms(chosen: Ints, terms: Ints, sizes: Ints) -> None:
    """Write the number of letters of each chosen term, including spaces, to sizes."""
    for i in range(len(chosen)):
        term = chosen[i]
        sizes[i] = 0
        while terms[term, AT] < 0:
            last = terms[term, KEY] & 0xFFFFFFFF
            sizes[i] += terms[last, END] - terms[last, AT] + 1
            term = terms[term, KEY] >> 32
        sizes[i] += terms[term, END] - terms[term, AT]


@njit(cache=True, nogil=True)
def write_terms(chosen: Ints, terms: Ints, letters: Bytes, ends: Ints, out: Bytes) -> None:
    """Write the letters of terms from the last word to the first, the order in which pairs are linked."""
    for i in range(len(chosen)):
        term = chosen[i]
        at = ends[i]
        while True:
            is_pair = terms[term, AT] < 0
            word = terms[term, KEY] & 0xFFFFFFFF if is_pair else term
            for k in range(terms[word, END] - 1, terms[word, AT] - 1, -1):
                at -= 1
                out[at] = letters[k]
            if not is_pair:
                break
            at -= 1
            out[at] = 32
            term = terms[term, KEY] >> 32
