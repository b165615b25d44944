"""Learns a vocabulary: the terms that become features, and their inverse document frequencies."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.preprocess import text_counts
from app.preprocess.spec import TextSettings
from app.preprocess.terms import Terms
from app.preprocess.text_counts import TermTable, join_terms, tally_terms, text_blocks
from app.preprocess.text_kernels import AT, IN_TEXTS, KEY, PAIR, TIMES
from app.tabular.frame import Strings
from app.tabular.types import Ints


class Learnt(NamedTuple):
    vocabulary: Strings | None
    """Sorted terms; None if terms are hashed."""
    idf: npt.NDArray[np.float64] | None
    forgotten: int
    """0 if there were at most MAX_TERMS different terms. Otherwise the largest number of texts of a term that can be
    missing. The counts of other terms can be too low by at most this number."""


def fit_terms(texts: Strings, settings: TextSettings) -> Learnt:
    if settings.hash is not False:
        return Learnt(None, _idf(_bucket_counts(texts, settings), len(texts)) if settings.idf else None, 0)
    tally = _Tally(settings)
    for block in text_blocks(texts, settings):
        tally.add(block)
    chosen = _limited(*tally.terms_in_order(), len(texts), settings)
    idf = _idf(tally.table.terms[chosen, IN_TEXTS], len(texts)) if settings.idf else None
    return Learnt(join_terms(tally.table, chosen), idf, tally.forgotten)


class _Tally:
    """Counts of the terms so far. When there are too many terms, the rarest are dropped; a later text can add them
    again.

    The parts of a term occur wherever the term does, so their counts are at least as high. A part is therefore never
    dropped before its term.
    """

    def __init__(self, settings: TextSettings) -> None:
        self.settings = settings
        self.table = TermTable()
        self.n_texts = 0
        self.forgotten = 0

    def add(self, block: text_counts.TextBlock) -> None:
        tally_terms(block, self.settings, self.table, self.n_texts)
        self.n_texts += len(block.starts)
        if len(self.table) > text_counts.MAX_TERMS:
            self._forget_rarest(text_counts.MAX_TERMS // 2)

    def terms_in_order(self) -> tuple[Ints, Ints, Ints]:
        """Return the terms of the requested lengths in sorted order, the number of texts with each, and the number of
        its occurrences."""
        terms, n = self.table.terms, len(self.table)
        is_word = terms[:, AT] != PAIR
        rank = np.full(n, -1, dtype=np.int64)
        words = np.flatnonzero(is_word)
        rank[words[_sorted_order(join_terms(self.table, words))]] = np.arange(len(words))
        # a space sorts before every letter, so terms have the same order as the sequences of ranks of their words
        sizes = np.ones(n, dtype=np.int64)
        term, pending = np.arange(n), ~is_word
        lasts: list[Ints] = []
        while pending.any():
            parts = np.where(pending, terms[term, KEY], 0)
            lasts.append(rank[parts & 0xFFFFFFFF])
            sizes += pending
            term = np.where(pending, parts >> 32, term)
            pending = pending & (terms[term, AT] == PAIR)
        keys = _aligned(rank[term], lasts, sizes)
        wanted = np.flatnonzero(sizes >= self.settings.ngrams[0])
        order = wanted[np.lexsort([key[wanted] for key in reversed(keys)])]
        return order, terms[order, IN_TEXTS], terms[order, TIMES]

    def _forget_rarest(self, most: int) -> None:
        in_texts = self.table.terms[:, IN_TEXTS]
        counts = np.bincount(in_texts)
        threshold = int(np.argmax(len(in_texts) - np.cumsum(counts) <= most))
        self.forgotten += threshold
        self.table.keep(in_texts > threshold)


def _aligned(firsts: Ints, lasts: list[Ints], sizes: Ints) -> list[Ints]:
    """Return the ranks of the first, second, … word of each term, and -1 after its last word. `lasts` has the ranks in
    reverse order."""
    keys = [firsts]
    stacked = np.stack(lasts) if lasts else np.empty((0, len(firsts)), dtype=np.int64)
    for position in range(1, len(lasts) + 1):
        from_end = sizes - 1 - position
        keys.append(np.where(from_end >= 0, np.take_along_axis(stacked, np.maximum(from_end, 0)[None], axis=0)[0], -1))
    return keys


def _sorted_order(words: Strings) -> Ints:
    """Return the order of different words by their bytes. Compares eight bytes at a time, and later bytes only for
    ties."""
    order, tied = np.arange(len(words)), np.arange(len(words))
    group, depth = np.zeros(len(words), dtype=np.int64), 0
    while len(tied):
        chosen, within = order[tied], group[tied]
        eight = _eight_bytes(words, chosen, depth)
        inner = np.lexsort((eight, within)) if depth else np.argsort(eight, kind="stable")
        order[tied], eight = chosen[inner], eight[inner]
        is_new = np.ones(len(tied) + 1, dtype=bool)
        is_new[1:-1] = (within[1:] != within[:-1]) | (eight[1:] != eight[:-1])
        group[tied] = np.cumsum(is_new[:-1])
        tied = tied[~(is_new[:-1] & is_new[1:])]
        depth += 8
    return order


def _eight_bytes(words: Strings, chosen: Ints, depth: int) -> npt.NDArray[np.uint64]:
    """Return eight bytes of each word, from `depth` on, as a number with the same order. Bytes after the end of a word
    are 0."""
    number = np.zeros(len(chosen), dtype=np.uint64)
    for at in range(depth, depth + 8):
        place = words.starts[chosen] + at
        is_inside = place < words.ends[chosen]
        letter = np.where(is_inside, words.bytes[np.where(is_inside, place, 0)], 0)
        number = number << np.uint64(8) | letter.astype(np.uint64)
    return number


def _limited(terms: Ints, in_texts: Ints, times: Ints, n_texts: int, settings: TextSettings) -> Ints:
    """Select the terms within min_df, max_df and max_features. Ties are resolved as in scikit-learn."""
    low = settings.min_df if isinstance(settings.min_df, int) else settings.min_df * n_texts
    high = settings.max_df if isinstance(settings.max_df, int) else settings.max_df * n_texts
    passed = np.flatnonzero((in_texts >= low) & (in_texts <= high))
    if settings.max_features is not None and len(passed) > settings.max_features:
        passed = np.sort(passed[(-times[passed]).argsort()[: settings.max_features]])
    return terms[passed]


def _bucket_counts(texts: Strings, settings: TextSettings) -> Ints:
    """Return the number of texts with a term in each hash bucket."""
    counter = Terms(0, "text", settings, None, None, has_missing=False, refuses_missing=False)
    found = np.zeros(int(settings.hash), dtype=np.int64)
    for counts in text_counts.count_terms(counter, texts):
        found += np.bincount(counts.indices, minlength=len(found))
    return found


def _idf(in_texts: Ints, n_texts: int) -> npt.NDArray[np.float64]:
    idf: npt.NDArray[np.float64] = np.log((1 + n_texts) / (1 + in_texts)) + 1.0
    return idf
