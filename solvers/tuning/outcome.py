"""The result of a search: trials, the choice among them, and the models of the folds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from solvers.linalg.types import Floats
from solvers.result import SolveResult
from solvers.tuning.certify import TuningCertificate
from solvers.tuning.fold_work import FoldWork
from solvers.tuning.source import RowNumbers

__all__ = ["Best", "FoldModel", "OuterEstimate", "Trial", "TuneResult", "choose", "fold_models", "pooled_scores"]
__all__ += ["deviation", "trials_of"]


@dataclass(frozen=True)
class Best:
    """The chosen C."""

    C: float
    mean: float
    """The mean of the metric over the folds."""
    std: float | None
    """Its sample standard deviation; None with one fold."""
    variant: int
    """The number of the chosen variant."""


@dataclass(frozen=True)
class Trial:
    """One C that was tried in one variant."""

    C: float
    mean: float
    std: float | None
    values: tuple[float, ...]
    """The metric of each fold."""
    lower_bound: float | None
    """Proven lower bound of the metric of the exact models at this C; None without `certify`."""
    upper_bound: float | None
    relative_gap: float
    """The largest relative gap of the folds."""
    seconds: float
    variant: int


class FoldModel(NamedTuple):
    """The model of a fold at the best C."""

    coef: Floats
    intercept: Floats
    held_out: RowNumbers
    """The rows that it was not trained on."""


@dataclass(frozen=True)
class OuterEstimate:
    """The metric on rows that the whole search did not see."""

    values: tuple[float, ...]
    """Of each outer fold."""
    mean: float
    std: float
    chosen: tuple[Best, ...]
    """What the search on the other rows chose."""


@dataclass(frozen=True, eq=False)
class TuneResult:
    """The result of a search."""

    best: Best
    trials: tuple[Trial, ...]
    """Trials by variant and C. If the search ended early, only the C with the most trained folds are included."""
    certificate: TuningCertificate | None
    reason: str | None
    """Why there is no certificate, or why it is weaker than asked for; None: it is what was asked for."""
    metric: str
    folds: int
    finished: bool
    """Whether the search ran to its end: neither time nor the caller ended it."""
    seconds: float
    model: SolveResult | None
    """The model of all rows at the best C; None without `refit`."""
    outer: OuterEstimate | None
    """None without `outer_folds`, or if the search ended before all of them were done."""
    held_out_scores: Floats | None
    """With `keep_folds`, each row's score by the model of the fold that held it out, at the best C; several classes: a
    row of scores. NaN if no fold did. With `repeats`, those of the first draw."""
    fold_models: tuple[FoldModel, ...] | None
    """With `keep_folds`, the model of each fold at the best C."""


def trials_of(work: FoldWork, figures: Mapping[tuple[int, float], tuple[float, float]]) -> tuple[Trial, ...]:
    """Return every C that was tried. `figures`: bounds of the metric by variant and C."""
    trials = []
    for (variant, C), mean in work.means().items():
        solves = work.at(variant, C)
        values = tuple(work.value(solve) for solve in solves)
        lower, upper = figures.get((variant, C), (None, None))
        gap, seconds = max(solve.relative_gap for solve in solves), sum(solve.seconds for solve in solves)
        trials.append(Trial(C, mean, deviation(values), values, lower, upper, gap, seconds, variant))
    return tuple(trials)


def choose(
    trials: Sequence[Trial], rule: str, *, is_higher_better: bool, certificate: TuningCertificate | None = None
) -> Best:
    """Choose C by the rule. With a proof, the proven metrics decide, so that `best` is the C of the certificate.

    The rule "1se" chooses among the values of C of the best variant: C is not comparable between variants."""
    sign = -1.0 if is_higher_better else 1.0
    best = min(trials, key=lambda trial: (sign * trial.mean, trial.variant, trial.C))
    if certificate is not None:
        proven = certificate.variant, certificate.C
        best = next((trial for trial in trials if (trial.variant, trial.C) == proven), best)
    if rule == "1se" and best.std is not None:
        limit = sign * best.mean + best.std / math.sqrt(len(best.values))
        own = (trial for trial in trials if trial.variant == best.variant)
        best = min((trial for trial in own if sign * trial.mean <= limit), key=lambda trial: trial.C)
    return Best(best.C, best.mean, best.std, best.variant)


def deviation(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation; None of one value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def pooled_scores(work: FoldWork, best: Best) -> Floats:
    """Return each row's score by the first fold that held it out; NaN if none did."""
    solves = work.at(best.variant, best.C)
    pooled = np.full((work.source.labels.n_rows, *solves[0].scores.shape[1:]), np.nan)
    for solve in reversed(solves):
        pooled[work.folds[solve.fold].held_out] = solve.scores
    return pooled


def fold_models(work: FoldWork, best: Best) -> tuple[FoldModel, ...]:
    """Return the models of the folds at the best C."""
    return tuple(
        FoldModel(solve.coef, solve.intercept, work.folds[solve.fold].held_out)
        for solve in work.at(best.variant, best.C)
    )
