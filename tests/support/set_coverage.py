"""Measures how often prediction sets contain the truth, over random splits of made data."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import solvers
from app.models.prediction_sets import PredictionSets, strangeness
from app.worker.train.split import draw_folds

Array = np.ndarray[Any, Any]
TASKS = ("regression", "binary", "multiclass")
FEATURES = 3
NEW_ROWS = 20


@dataclass
class Tally:
    """Splits so far, and the sums over them."""

    splits: int = 0
    covered: float = 0.0
    by_class: tuple[Array, Array] | None = None
    guaranteed: float = 1.0
    nominal: float = 1.0
    size: float = 0.0


def made(task: str, rows: int, random: np.random.Generator) -> tuple[Array, Array]:
    X = random.normal(size=(rows, FEATURES))
    signal = X @ np.array([1.5, -1.0, 0.5]) + random.standard_t(3, size=rows)
    if task == "regression":
        return X, signal
    return X, np.digitize(signal, [0.0] if task == "binary" else [-1.0, 1.0])


def sets_of(task: str, X: Array, y: Array, folds: int, seed: int) -> tuple[PredictionSets, list[solvers.SolveResult]]:
    """Return the sets of folds that are drawn as a job draws them, and the fold models."""
    fold_of_row = draw_folds(y, folds, seed, has_classes=task != "regression")
    models, groups = [], 1 if task == "regression" else len(np.unique(y))
    grouped: list[list[Array]] = [[np.empty(0)] * folds for _ in range(groups)]
    for number in range(folds):
        out = fold_of_row == number
        model = solvers.train(X[~out], y[~out], task=task, tol=1e-3)
        models.append(model)
        scores = model.decision_function(X[out])
        for group in range(groups):
            if task == "regression":
                grouped[group][number] = np.sort(np.abs(y[out] - scores))
            else:
                grouped[group][number] = np.sort(strangeness(scores)[y[out] == group, group])
    return PredictionSets([], grouped, None), models


def add_split(tally: Tally, task: str, *, rows: int, folds: int, requested: float, seed: int) -> None:
    """Train on new rows, and count how many of other new rows have their truth in their set."""
    random = np.random.default_rng(seed)
    while True:
        X, y = made(task, rows, random)
        if task == "regression" or np.bincount(y, minlength=2 if task == "binary" else 3).min() >= folds:
            break
    sets, models = sets_of(task, X, y, folds, seed)
    new, truth = made(task, NEW_ROWS, random)
    scores = [model.decision_function(new) for model in models]
    if task == "regression":
        found = sets.intervals(scores, requested)
        ends = [
            (-np.inf if one["low"] is None else one["low"], np.inf if one["high"] is None else one["high"])
            for one in found
        ]
        hits = np.array([low <= value <= high for (low, high), value in zip(ends, truth, strict=True)])
        size = float(np.mean([high - low for low, high in ends]))
    else:
        labels = sets.labels(scores, list(range(len(sets.strangeness))), requested)
        hits = np.array([value in one for one, value in zip(labels, truth.tolist(), strict=True)])
        size = float(np.mean([len(one) for one in labels]))
        before = tally.by_class or (np.zeros(3), np.zeros(3))
        counts = np.bincount(truth, minlength=3), np.bincount(truth, hits, minlength=3)
        tally.by_class = before[0] + counts[0], before[1] + counts[1]
    told = sets.coverage(requested)
    tally.splits += 1
    tally.covered += float(hits.mean())
    tally.size += size
    tally.guaranteed = min(tally.guaranteed, told["guaranteed"])
    tally.nominal = min(tally.nominal, told["nominal"])
