"""Learns a vocabulary: which terms are features, and how telling each is."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from app.frame import Strings
from app.preprocess import text_counts
from app.preprocess.spec import TextSettings
from app.preprocess.text import Terms
from app.preprocess.text_counts import TermTable, join_terms, tally_terms, text_blocks
from app.preprocess.text_kernels import PAIR

Ints = npt.NDArray[np.int64]


class Learnt(NamedTuple):
    vocabulary: Strings | None
    """None: terms are hashed."""
    idf: npt.NDArray[np.float64] | None
    forgotten: int
    """There were too many terms: those of up to so many texts may be missing, and as many may be missing in counts."""


def fit_terms(texts: Strings, settings: TextSettings) -> Learnt:
    if settings.hash is not False:
        return Learnt(None, _idf(_bucket_counts(texts, settings), len(texts)) if settings.idf else None, 0)
    tally = _Tally(settings)
    for block in text_blocks(texts, settings):
        tally.add(block)
    chosen = _limited(*tally.terms_in_order(), len(texts), settings)
    vocabulary = join_terms(tally.table, chosen)
    return Learnt(vocabulary, _idf(tally.in_texts[chosen], len(texts)) if settings.idf else None, tally.forgotten)


class _Tally:
    """All terms of all texts so far. When there are too many, the rarest are forgotten and may be met anew.

    A term's parts occur wherever it does, so they are counted at least as often and never forgotten before it.
    """

    def __init__(self, settings: TextSettings) -> None:
        self.settings = settings
        self.table = TermTable()
        self.in_texts = self.times = self.seen_in = np.empty(0, dtype=np.int64)
        self.n_texts = 0
        self.forgotten = 0

    def add(self, block: text_counts.TextBlock) -> None:
        words = block.size // 3 + 2 * len(block.starts)
        self.table.make_room(words * self.settings.ngrams[1], block.size)
        self._make_room()
        tally_terms(block, self.settings, self.table, self.n_texts, (self.in_texts, self.times, self.seen_in))
        self.n_texts += len(block.starts)
        if len(self.table) > text_counts.MAX_TERMS:
            self._forget_rarest(text_counts.MAX_TERMS // 2)

    def terms_in_order(self) -> tuple[Ints, Ints, Ints]:
        """(terms of the wanted lengths as they are sorted, in how many texts each is, how often)"""
        table, n = self.table, len(self.table)
        is_word = table.letters_at[:n] != PAIR
        rank = np.full(n, -1, dtype=np.int64)
        words = np.flatnonzero(is_word)
        rank[words[_sorted_order(join_terms(table, words))]] = np.arange(len(words))
        # a space sorts before every letter, so terms sort as the ranks of their words do, one after another
        sizes, keys = np.where(is_word, 1, 0), []
        term = np.arange(n)
        pending = ~is_word
        lasts: list[Ints] = []
        while pending.any():
            key = table.keys[term]
            lasts.append(np.where(pending, rank[(key & np.uint64(0xFFFFFFFF)).astype(np.int64) % n], -1))
            sizes += pending
            term = np.where(pending, (key >> np.uint64(32)).astype(np.int64), term)
            pending = pending & (table.letters_at[term] == PAIR)
        sizes = np.where(is_word, 1, sizes + 1)
        keys = _aligned(rank[term], lasts, sizes)
        wanted = np.flatnonzero(sizes >= self.settings.ngrams[0])
        order = wanted[np.lexsort([key[wanted] for key in reversed(keys)])]
        return order, self.in_texts[order], self.times[order]

    def _forget_rarest(self, most: int) -> None:
        n = len(self.table)
        counts = np.bincount(self.in_texts[:n])
        threshold = int(np.argmax(n - np.cumsum(counts) <= most))
        self.forgotten += threshold
        kept = self.in_texts[:n] > threshold
        self.table.keep(kept)
        self.in_texts, self.times, self.seen_in = (
            array[:n][kept] for array in (self.in_texts, self.times, self.seen_in)
        )

    def _make_room(self) -> None:
        size = len(self.table.keys)
        if size > len(self.in_texts):
            more = size - len(self.in_texts)
            self.in_texts, self.times = (
                np.concatenate([array, np.zeros(more, dtype=np.int64)]) for array in (self.in_texts, self.times)
            )
            self.seen_in = np.concatenate([self.seen_in, np.full(more, -1, dtype=np.int64)])


def _aligned(firsts: Ints, lasts: list[Ints], sizes: Ints) -> list[Ints]:
    """Ranks of the first, second, … word of each term; -1 behind its last. `lasts` count from the end."""
    keys = [firsts]
    for position in range(1, len(lasts) + 1):
        from_end = sizes - 1 - position
        stacked = np.stack(lasts)
        keys.append(np.where(from_end >= 0, np.take_along_axis(stacked, np.maximum(from_end, 0)[None], axis=0)[0], -1))
    return keys


def _sorted_order(words: Strings) -> Ints:
    letters = words.bytes.tobytes()
    spans = zip(words.starts.tolist(), words.ends.tolist(), strict=True)
    texts = [letters[start:end] for start, end in spans]
    return np.array(sorted(range(len(texts)), key=texts.__getitem__), dtype=np.int64)


def _limited(terms: Ints, in_texts: Ints, times: Ints, n_texts: int, settings: TextSettings) -> Ints:
    """The sorted terms that min_df, max_df and max_features let pass; equally common ones as scikit-learn has it."""
    low = settings.min_df if isinstance(settings.min_df, int) else settings.min_df * n_texts
    high = settings.max_df if isinstance(settings.max_df, int) else settings.max_df * n_texts
    passed = np.flatnonzero((in_texts >= low) & (in_texts <= high))
    if settings.max_features is not None and len(passed) > settings.max_features:
        passed = np.sort(passed[(-times[passed]).argsort()[: settings.max_features]])
    return terms[passed]


def _bucket_counts(texts: Strings, settings: TextSettings) -> Ints:
    """In how many texts each bucket occurs."""
    counter = Terms(0, "text", settings, None, None, has_missing=False, refuses_missing=False)
    found = np.zeros(int(settings.hash), dtype=np.int64)
    for counts in text_counts.count_terms(counter, texts):
        found += np.bincount(counts.indices, minlength=len(found))
    return found


def _idf(in_texts: Ints, n_texts: int) -> npt.NDArray[np.float64]:
    idf: npt.NDArray[np.float64] = np.log((1 + n_texts) / (1 + in_texts)) + 1.0
    return idf
