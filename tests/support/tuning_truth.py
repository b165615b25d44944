"""Judges of tuning: random problems, and the true cross-validation curve with its own doubt.

The truth at a C is a training to a relative gap of 1e-9 or less. Its certificate proves |w - w_C|^2 <= 2 gap, so that
each score is known within |h| sqrt(2 gap); a figure is an interval, and only a bound outside of it is false. Nothing of
`solvers.tuning` computes here but the folds.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

import solvers

EXACT = 1e-10
LOSSES = ("hinge", "squared_hinge", "logistic")
HIGHER_IS_BETTER = ("f1", "roc_auc")


@dataclass
class TuningCase:
    """A problem as `tune` takes it."""

    X: Any
    y: np.ndarray
    definition: dict[str, Any]
    sample_weight: np.ndarray | None = None
    folds: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def h_lengths(self):
        table = self.X.toarray() if sp.issparse(self.X) else self.X
        beta = self.definition["bias_scale"] if self.definition["bias"] == "regularized" else 0.0
        return np.sqrt((table**2).sum(axis=1) + beta**2)

    def subset(self, rows):
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return self.X[rows], self.y[rows], weight

    def train(self, rows, C, tol=EXACT, **more):
        X, y, weight = self.subset(rows)
        return solvers.train(X, y, C=C, tol=tol, sample_weight=weight, **self.definition, **more)


def random_case(seed, *, task="binary", strategy="ovr"):
    """A small problem: tall or wide, sparse or dense, with duplicates, empty rows and noise."""
    random = np.random.default_rng(seed)
    n, d = int(random.integers(16, 60)), int(random.choice([1, 3, 8, 20, 70]))
    X = random.standard_normal((n, d)) * random.choice([0.3, 1.0, 3.0])
    if random.random() < 0.4:
        X[random.random((n, d)) > 0.3] = 0.0
    if random.random() < 0.4:
        X[random.integers(n, size=n // 3)] = X[random.integers(n)]
    if random.random() < 0.2:
        X[random.integers(n)] = 0.0
    if random.random() < 0.3:
        X[:, 0] = 1.0
    score = X @ random.standard_normal(d) + random.choice([0.1, 1.0, 3.0]) * random.standard_normal(n)
    k_folds = int(random.integers(2, 5))
    folds = random.permutation(np.arange(n) % k_folds)
    sample_weight = random.choice([0.5, 1.0, 2.0], size=n) if random.random() < 0.3 else None
    definition = {
        "bias": str(random.choice(["none", "regularized"])),
        "bias_scale": float(random.choice([1.0, 0.5, 3.0])),
        "c_scale": str(random.choice(["sum", "sum", "mean"])),
    }
    if task == "regression":
        y = score + random.choice([0.0, 4.0])
        definition |= {"task": task, "loss": str(random.choice(["epsilon_insensitive", "squared_epsilon_insensitive"]))}
        definition["epsilon"] = float(random.choice([0.0, 0.1, 0.5]))
    else:
        classes = 2 if task == "binary" else int(random.integers(3, 5))
        ranks = np.argsort(np.argsort(score, kind="stable"), kind="stable")
        y = ranks * classes // n
        for fold in range(k_folds):  # every class in every fold, so that no training lacks one
            y[np.flatnonzero(folds == fold)[:classes]] = np.arange(classes)
        definition |= {"loss": str(random.choice(LOSSES)), "strategy": strategy}
        if strategy == "crammer_singer":
            definition["loss"] = "hinge"
        definition["class_weight"] = "balanced" if random.random() < 0.2 else None
    return TuningCase(sp.csr_array(X) if random.random() < 0.5 else X, y, definition, sample_weight, folds)


def true_scores(case, fold, C):
    """(scores of the held-out rows, their doubt, their truth) at the exact minimiser."""
    training, held_out = np.flatnonzero(case.folds != fold), np.flatnonzero(case.folds == fold)
    model = case.train(training, C)
    parts = model.per_class or [model.certificate]
    radii = np.array([np.sqrt(2.0 * part.gap) for part in parts])
    lengths = case.h_lengths[held_out]
    doubt = lengths * radii[0] if len(parts) == 1 else lengths[:, None] * radii
    scores = model.decision_function(case.X[held_out])
    if scores.ndim == 2 and doubt.ndim == 1:
        doubt = np.repeat(doubt[:, None], scores.shape[1], axis=1)
    return (
        scores,
        doubt * (1.0 + 1e-9) + 1e-12 * np.abs(scores).max() * (lengths > 0.0).reshape(-1, *[1] * (scores.ndim - 1)),
        case.y[held_out],
    )


def true_figure(case, fold, C, metric):
    """(low, high) of the metric of a fold at C."""
    scores, doubt, truth = true_scores(case, fold, C)
    low, high = scores - doubt, scores + doubt
    if metric in ("mae", "mse"):
        power = 1 if metric == "mae" else 2
        nearest = np.maximum(np.maximum(low - truth, truth - high), 0.0) ** power
        return nearest.mean(), (np.maximum(abs(low - truth), abs(high - truth)) ** power).mean()
    if metric == "roc_auc":
        positive, negative = truth == 1, truth == 0
        surely = (low[positive][:, None] > high[negative]).mean()
        return surely, (high[positive][:, None] >= low[negative]).mean()
    if scores.ndim == 1:
        right = np.where(truth == 1, low > 0.0, high <= 0.0)
        wrong = np.where(truth == 1, high <= 0.0, low > 0.0)
    else:
        own, rows = truth.astype(int), np.arange(truth.size)
        others_low, others_high = low.copy(), high.copy()
        others_low[rows, own] = others_high[rows, own] = -np.inf
        right = low[rows, own] > others_high.max(axis=1)
        wrong = high[rows, own] < others_low.max(axis=1)
    if metric == "balanced_error":
        parts = [(wrong[truth == one].mean(), 1.0 - right[truth == one].mean()) for one in np.unique(truth)]
        return tuple(np.mean(parts, axis=0))
    if metric == "f1":
        named = [np.where(truth == 1, *one) for one in ((right, wrong), (~wrong, ~right))]
        hits = [np.count_nonzero(one[truth == 1]) for one in named]
        alarms = [np.count_nonzero(one[truth == 0]) for one in named]
        actual = np.count_nonzero(truth == 1)
        return 2.0 * hits[0] / (hits[0] + actual + alarms[1]), 2.0 * hits[1] / (hits[1] + actual + alarms[0])
    return wrong.mean(), 1.0 - right.mean()


def violations(case, result, values, variant=0):
    """The values of C at which the certificate is false for a variant, as texts; `case` is the problem of the variant.

    Its claims are the bounds of the step that holds C, and that no C is better than the best by more than the reached
    epsilon.
    """
    found, proof = [], result.certificate
    n_folds, sign = len(np.unique(case.folds)), -1.0 if result.metric in HIGHER_IS_BETTER else 1.0
    for C in values:
        parts = [true_figure(case, fold, C, result.metric) for fold in range(n_folds)]
        low, high = (float(np.mean([part[side] for part in parts])) for side in (0, 1))
        for start, end, lower, upper in proof.steps_by_variant[variant]:
            if start <= C <= end and (high < lower - 1e-9 or low > upper + 1e-9):
                found.append(
                    f"C = {C!r}: [{low!r}, {high!r}] outside of [{lower!r}, {upper!r}] on [{start!r}, {end!r}]"
                )
        if max(sign * low, sign * high) < sign * proof.best - proof.epsilon_reached - 1e-9:
            found.append(f"C = {C!r}: [{low!r}, {high!r}] is better than {proof.best!r} by more than was proved")
    return found


def tuned(case, *, metric=None, epsilon=0.02, low=1e-2, high=1e2, max_values=16, **more):
    return solvers.tune(
        case.X,
        case.y,
        C=(low, high),
        folds=case.folds,
        metric=metric,
        certify=epsilon,
        refit=False,
        max_values=max_values,
        sample_weight=case.sample_weight,
        **case.definition,
        **more,
    )


def random_values(seed, count, low=1e-2, high=1e2):
    return np.exp(np.random.default_rng(seed).uniform(np.log(low), np.log(high), count)).tolist()
