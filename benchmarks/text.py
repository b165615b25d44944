"""Raw texts to tf-idf beside scikit-learn's TfidfVectorizer, fit and transform together, on one core.

Runs alternate within one process, pinned to one core, and are compared by processor time; each figure is the least
of the rounds. Both start from texts in memory as they have them: a list of str there, one UTF-8 buffer here.
"""

import gzip
import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from app.preprocess import text_counts
from app.preprocess.fit import fit, transform
from app.preprocess.spec import Preprocess
from app.tabular.frame import Column, Frame, Strings
from benchmarks import data

ROUNDS = 3
SETTINGS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("words", {}, {}),
    ("words and pairs, min_df 2", {"ngrams": (1, 2), "min_df": 2}, {"ngram_range": (1, 2), "min_df": 2}),
    ("words, 20,000 commonest", {"max_features": 20_000}, {"max_features": 20_000}),
]


def run() -> None:
    text_counts.warm()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"{'':42} {'MB':>5} {'terms':>8} {'ours s':>8} {'peer s':>8} {'peer / ours':>12} {'largest difference':>19}")
    for name in ("news20_text", "sms_spam_text"):
        try:
            texts = _texts(name)
        except FileNotFoundError:
            print(f"{name} is not here: left out")
            continue
        for what, own, theirs in SETTINGS:
            _compare(f"{name}, {what}", texts, own, theirs)


def _compare(name: str, texts: list[str], own: dict[str, Any], theirs: dict[str, Any]) -> None:
    strings = Strings.of(texts)
    lengths = np.array([[float(len(text))] for text in texts])
    frame = Frame(lengths, [Column("text", "text")], {0: strings})
    spec = Preprocess.model_validate({"text": own})

    def ours() -> Any:
        return transform(fit(spec, frame).pipeline, frame)

    def peer() -> Any:
        return TfidfVectorizer(sublinear_tf=True, **theirs).fit_transform(texts)

    rounds = [(_time(ours), _time(peer)) for _ in range(ROUNDS)]
    mine, other = (min(taken) for taken in zip(*rounds, strict=True))
    found, expected = ours(), peer()
    difference = abs(found - expected).max() if found.shape == expected.shape else np.inf
    sizes = f"{len(strings.bytes) / 1e6:5.1f} {found.shape[1]:8}"
    print(f"{name:42} {sizes} {mine:8.2f} {other:8.2f} {other / mine:12.2f} {difference:19.1e}", flush=True)


def _time(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def _texts(name: str) -> list[str]:
    with gzip.open(data.SHARED / name / "train.jsonl.gz", "rt") as lines:
        return [json.loads(line)[1] for line in lines]
