"""The compiled half of text: UTF-8 bytes to words, words to terms, terms to counts.

A term of one word is found by its letters; a longer one is the pair (its first words, its last word), so that no
letters are compared twice. All terms share one table with open addressing. Words are what `\\w\\w+` matches: runs of
at least two letters, digits or underscores. Texts outside of ASCII are lowered by Python before they come here.

Letters: h a hash, c a byte, cp a code point.
"""

# mypy: disallow-untyped-decorators=False

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Source = tuple[Bytes, Bytes, Flags, Ints, Ints]  # a text_counts.TextBlock
Alphabet = tuple[Bytes, Bytes]  # of each byte of ASCII what it becomes in a word (0: it ends one); a bit a code point
Scratch = tuple[Ints, Bytes, Ints]  # of one text: its words' terms, its words' letters, where they end
Table = tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.uint64], Ints, Ints, Bytes]  # of a text_counts.TermTable
Tally = tuple[Ints, Ints, Ints]  # of each term: in how many texts, how often, in which text last

PAIR = -1  # where a term of several words has its letters: nowhere


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
def _split_words(text: Bytes, start: int, end: int, alphabet: Alphabet, letters: Bytes, offsets: Ints) -> int:
    """Write the words of text[start:end] one behind another; word k is letters[offsets[k]:offsets[k + 1]]."""
    ascii_letters, others = alphabet
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
                fill += size
                characters += 1
                i += size
                continue
        if characters >= 2:
            n += 1
            offsets[n] = fill
        else:
            fill = offsets[n]
        characters = 0
        i += size
    if characters >= 2:
        n += 1
        offsets[n] = fill
    return n


@njit(cache=True, nogil=True, inline="always")
def _spread(key: Any) -> Any:
    """Hash bits for a slot: keys of pairs are dense numbers."""
    h = key * np.uint64(0x9E3779B97F4A7C15)
    return h ^ (h >> np.uint64(32))


@njit(cache=True, nogil=True)
def fill_slots(slots: Any, keys: Any, n: int) -> None:
    mask = np.uint64(len(slots) - 1)
    for term in range(n):
        slot = _spread(keys[term]) & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = term + 1


@njit(cache=True, nogil=True)
def _find_word(word: Bytes, first: int, last: int, table: Table) -> tuple[Any, Any, Any]:
    """(the word's term or -1, the slot where the search ended, the word's hash)"""
    _, slots, keys, letters_at, letters_end, letters = table
    h = np.uint64(0xCBF29CE484222325)
    for k in range(first, last):
        h = (h ^ np.uint64(word[k])) * np.uint64(0x100000001B3)
    mask = np.uint64(len(slots) - 1)
    slot = _spread(h) & mask
    while slots[slot] != 0:
        term = np.int64(slots[slot] - 1)
        at = letters_at[term]
        if keys[term] == h and at >= 0 and letters_end[term] - at == last - first:
            k = 0
            while k < last - first and letters[at + k] == word[first + k]:
                k += 1
            if k == last - first:
                return term, slot, h
        slot = (slot + np.uint64(1)) & mask
    return np.int64(-1), slot, h


@njit(cache=True, nogil=True)
def _add_word(word: Bytes, first: int, last: int, table: Table) -> Any:
    """The word's term, a new one if need be."""
    term, slot, h = _find_word(word, first, last, table)
    if term < 0:
        filled, slots, keys, letters_at, letters_end, letters = table
        term = filled[0]
        filled[0] += 1
        slots[slot] = term + 1
        keys[term] = h
        letters_at[term] = filled[1]
        for k in range(first, last):
            letters[filled[1]] = word[k]
            filled[1] += 1
        letters_end[term] = filled[1]
    return term


@njit(cache=True, nogil=True)
def _find_pair(first: Any, last: Any, table: Table) -> tuple[Any, Any, Any]:
    """(the pair's term or -1, the slot where the search ended, the pair's key)"""
    _, slots, keys, letters_at, _, _ = table
    key = np.uint64(first) << np.uint64(32) | np.uint64(last)
    mask = np.uint64(len(slots) - 1)
    slot = _spread(key) & mask
    while slots[slot] != 0:
        term = np.int64(slots[slot] - 1)
        if keys[term] == key and letters_at[term] < 0:
            return term, slot, key
        slot = (slot + np.uint64(1)) & mask
    return np.int64(-1), slot, key


@njit(cache=True, nogil=True)
def _add_pair(first: Any, last: Any, table: Table) -> Any:
    term, slot, key = _find_pair(first, last, table)
    if term < 0:
        filled, slots, keys, letters_at, letters_end, _ = table
        term = filled[0]
        filled[0] += 1
        slots[slot] = term + 1
        keys[term] = key
        letters_at[term] = PAIR
        letters_end[term] = PAIR
    return term


@njit(cache=True, nogil=True)
def tally_block(
    source: Source,
    alphabet: Alphabet,
    longest: int,
    texts_before: int,
    scratch: Scratch,
    table: Table,
    tally: Tally,
) -> None:
    text, lowered, is_lowered, starts, ends = source
    words, letters, offsets = scratch
    in_texts, times, seen_in = tally
    for i in range(len(starts)):
        n = _split_words(lowered if is_lowered[i] else text, starts[i], ends[i], alphabet, letters, offsets)
        for k in range(n):
            words[k] = _add_word(letters, offsets[k], offsets[k + 1], table)
        for k in range(n):
            term = words[k]
            for last in range(k, min(k + longest, n)):
                if last > k:
                    term = _add_pair(term, words[last], table)
                times[term] += 1
                if seen_in[term] != texts_before + i:
                    seen_in[term] = texts_before + i
                    in_texts[term] += 1


@njit(cache=True, nogil=True)
def count_block(
    source: Source,
    alphabet: Alphabet,
    sizes: tuple[int, int, int, int],
    scratch: Scratch,
    table: Table,
    column_of: Ints,
    places: tuple[Ints, Ints],
    packed: Ints,
    indptr: Ints,
) -> None:
    """Write column << 32 | count of each text's terms, sorted; with `dims` a column is a hash."""
    text, lowered, is_lowered, starts, ends = source
    words, letters, offsets = scratch
    shortest, longest, dims, texts_before = sizes
    place, seen_in = places
    fill = 0
    for i in range(len(starts)):
        n = _split_words(lowered if is_lowered[i] else text, starts[i], ends[i], alphabet, letters, offsets)
        first = fill
        if dims == 0:
            for k in range(n):
                words[k], _, _ = _find_word(letters, offsets[k], offsets[k + 1], table)
        for k in range(n):
            crc = _LOW
            term = words[k]
            for last in range(k, min(k + longest, n)):
                if dims > 0:
                    if last > k:
                        crc = _with_byte(crc, np.uint64(32))
                    for at in range(offsets[last], offsets[last + 1]):
                        crc = _with_byte(crc, np.uint64(letters[at]))
                    column = np.int64(_mixed(crc ^ _LOW) % np.uint64(dims))
                else:
                    if last > k and words[last] >= 0:
                        term, _, _ = _find_pair(term, words[last], table)
                    if term < 0 or words[last] < 0:
                        break
                    column = column_of[term]
                if last - k + 1 < shortest or column < 0:
                    continue
                if seen_in[column] == texts_before + i:
                    packed[place[column]] += 1
                else:
                    seen_in[column] = texts_before + i
                    place[column] = fill
                    packed[fill] = column << 32 | 1
                    fill += 1
        packed[first:fill].sort()
        indptr[i + 1] = fill


@njit(cache=True, nogil=True, inline="always")
def _with_byte(crc: Any, byte: Any) -> Any:
    return _CRC[(crc ^ byte) & np.uint64(0xFF)] ^ (crc >> np.uint64(8))


@njit(cache=True, nogil=True, inline="always")
def _mixed(h: Any) -> Any:
    """As `hashing.mixed`, in 64 bits: numba multiplies in no fewer."""
    h = (h ^ (h >> np.uint64(16))) * np.uint64(0x85EBCA6B) & _LOW
    h = (h ^ (h >> np.uint64(13))) * np.uint64(0xC2B2AE35) & _LOW
    return h ^ (h >> np.uint64(16))


@njit(cache=True, nogil=True)
def add_vocabulary(text: Bytes, starts: Ints, ends: Ints, table: Table, column_of: Ints) -> None:
    for i in range(len(starts)):
        term = np.int64(-1)
        first = starts[i]
        for k in range(starts[i], ends[i] + 1):
            if k == ends[i] or text[k] == 32:
                word = _add_word(text, first, k, table)
                term = word if term < 0 else _add_pair(term, word, table)
                first = k + 1
        column_of[term] = i


@njit(cache=True, nogil=True)
def copy_letters(source: Bytes, at: Ints, sizes: Ints, target: Bytes) -> None:
    fill = 0
    for i in range(len(at)):
        for k in range(sizes[i]):
            target[fill] = source[at[i] + k]
            fill += 1


@njit(cache=True, nogil=True)
def measure_terms(chosen: Ints, table: Table, sizes: Ints) -> None:
    _, _, keys, letters_at, letters_end, _ = table
    for i in range(len(chosen)):
        term = chosen[i]
        sizes[i] = 0
        while letters_at[term] < 0:
            last = np.int64(keys[term] & _LOW)
            sizes[i] += letters_end[last] - letters_at[last] + 1
            term = np.int64(keys[term] >> np.uint64(32))
        sizes[i] += letters_end[term] - letters_at[term]


@njit(cache=True, nogil=True)
def write_terms(chosen: Ints, table: Table, ends: Ints, out: Bytes) -> None:
    """From each term's end backwards: that is how pairs are linked."""
    _, _, keys, letters_at, letters_end, letters = table
    for i in range(len(chosen)):
        term = chosen[i]
        at = ends[i]
        while True:
            is_pair = letters_at[term] < 0
            word = np.int64(keys[term] & _LOW) if is_pair else term
            for k in range(letters_end[word] - 1, letters_at[word] - 1, -1):
                at -= 1
                out[at] = letters[k]
            if not is_pair:
                break
            at -= 1
            out[at] = 32
            term = np.int64(keys[term] >> np.uint64(32))
