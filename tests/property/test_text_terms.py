"""Vocabularies and values of texts beside scikit-learn's TfidfVectorizer, for the same settings."""

import gzip
import json
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from app.preprocess import text_counts
from app.preprocess.spec import TextSettings
from app.preprocess.terms import Terms, count_terms
from app.preprocess.text_fit import Learnt, fit_terms
from app.preprocess.values import Texts
from app.tabular.frame import Strings
from tests.support.builders import SOAK
from tests.support.text_child import memory_of_texts

AWKWARD = "aAbBzZ09_ \t\n-'.,é\u0301ßẞİ\u0131Σ\u03c3ς日本ﬁ½²٣Ⅷ\u200d\u00a0\U0001d538😀Ǆ"
TEXTS = st.lists(st.text(AWKWARD, max_size=30) | st.text(max_size=20), min_size=1, max_size=15)
SETTINGS = st.fixed_dictionaries(
    {
        "ngrams": st.sampled_from([(1, 1), (1, 2), (2, 2), (1, 3), (3, 5)]),
        "min_df": st.sampled_from([1, 2, 0.2]),
        "max_df": st.sampled_from([1.0, 0.7, 3]),
        "max_features": st.sampled_from([None, 1, 4]),
        "sublinear": st.booleans(),
        "idf": st.booleans(),
        "norm": st.sampled_from(["l2", "none"]),
        "lowercase": st.booleans(),
    }
)


@settings(max_examples=200 * SOAK, deadline=None)
@given(TEXTS, SETTINGS)
def test_unicode_texts_as_scikit_learn_has_them(texts: list[str], asked: dict[str, Any]) -> None:
    wanted = TextSettings.model_validate(asked)
    learnt = fit_terms(Strings.of(texts), wanted)
    try:
        peer = peer_of(wanted)
        expected = peer.fit_transform(texts)
    except ValueError:  # no term is left, or max_df lies below min_df
        assert learnt.vocabulary is not None
        assert not len(learnt.vocabulary)
        return
    check(texts, wanted, learnt, peer, expected)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("sms_spam_text", {"ngrams": (1, 2)}),
        ("sms_spam_text", {"sublinear": False, "norm": "none", "max_features": 3000, "max_df": 0.5}),
        ("news20_text", {}),
    ],
)
def test_real_texts_as_scikit_learn_has_them(shared_data: Path, name: str, asked: dict[str, Any]) -> None:
    with gzip.open(shared_data / name / "train.jsonl.gz", "rt") as lines:
        texts = [json.loads(line)[1] for line in lines][: 3000 * SOAK]
    wanted = TextSettings(**asked)
    peer = peer_of(wanted)
    expected = peer.fit_transform(texts)
    check(texts, wanted, fit_terms(Strings.of(texts), wanted), peer, expected)


def check(texts: list[str], wanted: TextSettings, learnt: Learnt, peer: TfidfVectorizer, expected: Any) -> None:
    vocabulary = learnt.vocabulary
    assert vocabulary is not None
    assert vocabulary.to_list() == peer.get_feature_names_out().tolist()
    encoder = Terms(0, "text", wanted, vocabulary, learnt.idf, has_missing=False, refuses_missing=False)
    missing = np.zeros(len(texts), dtype=bool)
    stored = encoder.encode(Texts(Strings.of(texts), missing), "t", text_counts.count_terms)
    raw = encoder.encode(Texts(texts, missing), "t", count_terms)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(raw, name))
    expected.sort_indices()
    np.testing.assert_array_equal(stored.indices, expected.indices)
    np.testing.assert_array_equal(stored.indptr, expected.indptr)
    seen = stored.data / encoder.solver_units()[1][stored.indices]
    np.testing.assert_allclose(seen, expected.data, rtol=1e-12)


def peer_of(wanted: TextSettings) -> TfidfVectorizer:
    return TfidfVectorizer(
        ngram_range=wanted.ngrams,
        min_df=wanted.min_df,
        max_df=wanted.max_df,
        max_features=wanted.max_features,
        sublinear_tf=wanted.sublinear,
        use_idf=wanted.idf,
        norm=None if wanted.norm == "none" else wanted.norm,
        lowercase=wanted.lowercase,
    )


def test_too_many_terms_lose_the_rarest(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    common = [f"common{number:02}" for number in range(30)]
    texts = [" ".join([*random.choice(common, 5), f"rare{row}", f"odd{row}"]) for row in range(4000)]
    wanted = TextSettings(ngrams=(1, 2), min_df=10)
    whole = fit_terms(Strings.of(texts), wanted)
    monkeypatch.setattr(text_counts, "MAX_TERMS", 3000)
    monkeypatch.setattr(text_counts, "BLOCK_TEXTS", 100)
    pruned = fit_terms(Strings.of(texts), wanted)
    assert (whole.forgotten, pruned.forgotten > 0) == (0, True)
    assert whole.vocabulary is not None
    assert pruned.vocabulary is not None
    kept = set(pruned.vocabulary.to_list())
    assert kept <= set(whole.vocabulary.to_list())
    assert kept >= set(common)
    assert len(kept) > 30


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Text {row} of größe {row % 7} und {row % 3} " * (row % 5) for row in range(200)]
    wanted = TextSettings(ngrams=(1, 3))
    whole = fit_terms(Strings.of(texts), wanted)
    monkeypatch.setattr(text_counts, "BLOCK_BYTES", 64)
    parts = fit_terms(Strings.of(texts), wanted)
    assert whole.vocabulary is not None
    assert parts.vocabulary is not None
    assert whole.vocabulary.to_list() == parts.vocabulary.to_list()
    np.testing.assert_array_equal(whole.idf, parts.idf)


def test_memory_beside_texts_and_features_is_bounded() -> None:
    """A million texts under soak. Held are the table of terms, a block of texts and a few numbers a text."""
    n_rows = 1_000_000 if SOAK > 1 else 200_000
    with get_context("spawn").Pool(1) as pool:
        growth, kept = pool.apply(memory_of_texts, (n_rows,))
    assert growth > kept / 2  # else the peak was elsewhere, and the test says nothing
    assert growth - kept < (48 << 20) + 64 * n_rows
