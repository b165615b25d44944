"""Data and options of a job of every task, for tests that interrupt one."""

import numpy as np

from tests.support.worker_bench import Bench, noisy, three_words

TASKS = {
    "binary": {"solver": "dcd", "C": 100.0},
    "multiclass": {"solver": "tron", "loss": "squared_hinge"},
    "multiclass jointly": {"solver": "crammer_singer"},
    "ordinal": {},
    "regression": {"C": 10.0},
}


def stored(bench: Bench, task: str) -> str:
    X, signal = noisy(300)
    labels = {"binary": np.where(signal > 0, 1, -1), "regression": signal, "ordinal": np.digitize(signal, [-1.0, 1.0])}
    return bench.store(X, labels.get(task, three_words(signal)))
