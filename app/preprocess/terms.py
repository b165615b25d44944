"""Encodes text columns: counts terms, and weights and normalizes the counts like scikit-learn's TfidfVectorizer.

Features of stored rows are counted by compiled kernels (`text_counts`), those of requests by `count_terms`. Both give
the same counts. This module weights and normalizes both.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from app.preprocess.features import (
    MISSING,
    Counts,
    CountTerms,
    Feature,
    csr,
    one_entry_a_row,
    row_sums,
    side_by_side,
    untouched,
)
from app.preprocess.hashing import bucket
from app.preprocess.spec import TextSettings
from app.preprocess.values import Texts
from app.tabular.frame import Kind, Strings
from app.tabular.types import Floats

WORD = re.compile(r"\b\w\w+\b")


@dataclass(frozen=True, eq=False)
class Terms:
    """The features of a text column: one per term or hash bucket, then one for missing values if requested."""

    column: int
    stored: Kind
    settings: TextSettings
    vocabulary: Strings | None
    """Sorted terms; None if terms are hashed."""
    idf: Floats | None
    has_missing: bool
    refuses_missing: bool
    kind: Literal["text"] = "text"

    @property
    def n_terms(self) -> int:
        return int(self.settings.hash) if self.vocabulary is None else len(self.vocabulary)

    @property
    def width(self) -> int:
        return self.n_terms + self.has_missing

    @cached_property
    def number_of(self) -> dict[str, int]:
        words = [] if self.vocabulary is None else self.vocabulary.to_list()
        return {word: number for number, word in enumerate(words)}

    def encode(self, values: Texts, name: str, count: CountTerms) -> sp.csr_array:
        matrix = self._stacked(self._weighed(block) for block in count(self, values.texts))
        if not self.has_missing:
            return matrix
        return side_by_side([matrix, one_entry_a_row(np.where(values.missing, 0, -1), 1)], len(values.missing))

    def _weighed(self, counts: Counts) -> Counts:
        """Weight the counts in place. Without a norm, the idf is not applied here but multiplied into the weights of
        the model."""
        data = counts.data
        if self.settings.sublinear:
            np.log(data, out=data)
            data += 1.0
        if self.settings.norm == "l2":
            if self.idf is not None:
                data *= self.idf[counts.indices]
            squares = csr(data * data, counts.indices, counts.indptr, self._shape(counts))
            data /= np.repeat(np.sqrt(row_sums(squares)), np.diff(counts.indptr))
        return counts

    def _stacked(self, blocks: Iterable[Counts]) -> sp.csr_array:
        """Join all blocks to one matrix. It grows in place, so that its memory is needed only once."""
        whole = Counts(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty(0))
        indptr = [whole.indptr]
        end = 0
        for block in blocks:
            first, end = end, end + len(block.data)
            if end > len(whole.data):
                _resize(whole, max(end, len(whole.data) * 9 // 8))
            whole.data[first:end], whole.indices[first:end] = block.data, block.indices
            indptr.append(block.indptr[1:] + first)
        _resize(whole, end)
        starts = np.concatenate(indptr)
        return csr(whole.data, whole.indices, starts, (len(starts) - 1, self.n_terms))

    def _shape(self, counts: Counts) -> tuple[int, int]:
        return len(counts.indptr) - 1, self.n_terms

    def solver_units(self) -> tuple[Floats, Floats]:
        shift, scale = untouched(self.width)
        if self.idf is not None and self.settings.norm == "none":
            scale[: self.n_terms] = 1.0 / self.idf
        return shift, scale

    def feature(self, number: int, name: str) -> Feature:
        if number >= self.n_terms:
            return Feature(f"{name}={MISSING}", name, unit="level")
        unit = "tf-idf" if self.settings.norm == "l2" and self.settings.idf else "count"
        if self.vocabulary is None:
            return Feature(f"{name}#{number}", name, unit=unit)
        word = self.vocabulary[number]
        return Feature(f"{name}:{word}", name, word=word, unit=unit)

    def summary(self) -> dict[str, Any]:
        return {"terms": self.n_terms, "text": self.settings.model_dump(mode="json")}


def _resize(counts: Counts, entries: int) -> None:
    for array in (counts.data, counts.indices):
        array.resize(entries, refcheck=False)


def count_terms(encoder: Terms, texts: Strings | Sequence[str]) -> Iterable[Counts]:
    """Count the terms of the texts in Python, for the few rows of a request."""
    number_of, dims = encoder.number_of, encoder.settings.hash
    indptr, indices, data = [0], [], []
    for text in texts if isinstance(texts, list) else texts.to_list():  # type: ignore[union-attr]
        counts: dict[int, int] = {}
        for term in _terms(text, encoder.settings):
            number = number_of.get(term, -1) if dims is False else bucket(term, dims)
            if number >= 0:
                counts[number] = counts.get(number, 0) + 1
        for number in sorted(counts):
            indices.append(number)
            data.append(counts[number])
        indptr.append(len(indices))
    yield Counts(np.array(indptr, dtype=np.int64), np.array(indices, dtype=np.int32), np.array(data, dtype=np.float64))


def _terms(text: str, settings: TextSettings) -> Iterator[str]:
    words = WORD.findall(text.lower() if settings.lowercase else text)
    shortest, longest = settings.ngrams
    if shortest == 1:
        yield from words
    for size in range(max(shortest, 2), longest + 1):
        for first in range(len(words) - size + 1):
            yield " ".join(words[first : first + size])
