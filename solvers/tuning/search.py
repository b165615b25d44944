"""`tune` and `path`: the search for C by cross-validation, with or without a proof, and the models along C."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from solvers.checks import one_of, real_number, whole_number
from solvers.data.blocks import RowBlocks
from solvers.data.rows import as_rows
from solvers.errors import InvalidOptions, InvalidProblem, UnsupportedProblem
from solvers.linalg.types import Floats
from solvers.problem.labels import read_labels
from solvers.problem.spec import PARAMETERS, Parameters, ProblemSpec
from solvers.result import SolveResult
from solvers.tuning.certify import DECADE_STEPS, Certifier, TuningCertificate
from solvers.tuning.curve import read_metric
from solvers.tuning.fold_work import FoldWork, Progress, Request
from solvers.tuning.folds import read_folds
from solvers.tuning.path import Subject, Training

__all__ = ["Best", "PathResult", "Trial", "TuneResult", "path", "read_subject", "tune"]

AUTO_RANGE = (1e-3, 1e3)
"""The range of C for C = "auto", in units of 1 / mean |x_i|^2. Wider: more trainings. Chosen."""
COARSE_STEPS, FINE_STEPS = 2, 8
"""Values of C per factor of 10: first over the whole range, then between the neighbours of the best. Larger: a finer
search, more trainings. Chosen."""
MOST_VALUES = 1000
"""Maximum number of values of C in a proof. Beyond it the result states the epsilon that was reached. Chosen."""
RULES = ("best", "1se")


@dataclass(frozen=True)
class Best:
    """The chosen C."""

    C: float
    mean: float
    """The mean of the metric over the folds."""
    std: float | None
    """Its sample standard deviation; None with one fold."""


@dataclass(frozen=True)
class Trial:
    """One C that was tried."""

    C: float
    mean: float
    std: float | None
    values: tuple[float, ...]
    """The metric of each fold."""
    lower_bound: float | None
    """At most the metric of the exact models at this C; None without `certify`."""
    upper_bound: float | None
    relative_gap: float
    """The largest one of the folds."""
    seconds: float


@dataclass(frozen=True, eq=False)
class TuneResult:
    """The result of a search."""

    best: Best
    trials: tuple[Trial, ...]
    """By C. A search that ended early holds those with the most folds."""
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


def tune(
    X: Any,
    y: Any,
    solver: str = "auto",
    *,
    C: Any = "auto",
    folds: Any = 5,
    groups: Any = None,
    repeats: int = 1,
    metric: str | None = None,
    certify: float | str | None = None,
    rule: str = "best",
    refit: bool = True,
    sample_weight: Any = None,
    tol: float = 1e-3,
    max_seconds: float | None = None,
    max_values: int = MOST_VALUES,
    seed: int = 0,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    on_progress: Progress | None = None,
    resume_from: Iterable[Mapping[str, Any]] | None = None,
    **problem: Any,
) -> TuneResult:
    """Choose C by cross-validation; see docs/how-to/choose-c.md.

    `C` is a range (low, high), a list of values, or "auto": a range that suits the scale of X. `folds` is the number of
    folds or the fold of each row; rows of one group (`groups`) stay together. `metric`: error, balanced_error, f1,
    roc_auc, mae or mse; None: error or mae. `certify`: an epsilon, or "1se". The search then continues until it is
    proved that no C of the range is better than the best by more than epsilon; `max_values` and `max_seconds` limit it.
    `rule`: "best", or "1se" for the smallest C within one standard error of the best. `on_progress` is called after
    every training with a `TuneProgress`; returning True ends the search, which keeps the best so far. The tables of
    `TuneProgress.stored()`, given as `resume_from`, continue an interrupted search. `problem` are the `Parameters` by
    name, as for `train`, without C.
    """
    subject, spec = read_subject(X, y, sample_weight, solver, problem)
    chosen = read_metric(metric, spec.task)
    one_of(rule, "rule", InvalidOptions, RULES)
    seed = whole_number(seed, "seed", InvalidOptions, low=0, high=2**63 - 1)
    real_number(tol, "tol", InvalidOptions, above=0.0)
    if max_seconds is not None:
        max_seconds = real_number(max_seconds, "max_seconds", InvalidOptions, above=0.0)
    whole_number(max_values, "max_values", InvalidOptions, low=2)
    values, is_range = _read_costs(C, subject)
    epsilon = _read_epsilon(certify)
    drawn = read_folds(folds, subject.labels, groups=groups, repeats=repeats, seed=seed)
    for fold in drawn:
        if lacking := chosen.missing(subject.truth[fold.held_out], subject.labels.n_classes):
            raise InvalidProblem("folds", f"fold {fold.number + 1} has {lacking}, so {chosen.name} is undefined there")
    reason = None if epsilon is None else _why_not(spec, values)
    is_certified = epsilon is not None and reason is None
    training = Training(cast(Parameters, problem), solver, seed, threads, options)
    work = FoldWork(
        training,
        subject,
        drawn,
        chosen,
        with_ends=is_certified,
        on_progress=on_progress,
        max_seconds=max_seconds,
        resume_from=resume_from,
    )
    certificate, figures = None, {}
    if is_certified:
        assert epsilon is not None
        steps = _spaced(values[0], values[-1], DECADE_STEPS, max_values) if is_range else values
        proof = Certifier(work, steps, epsilon, max_values)
        proof.run()
        certificate, figures = proof.certificate(), proof.figures
        reason = _why_weak(certificate, work)
    else:
        _search(work, _spaced(values[0], values[-1], COARSE_STEPS) if is_range else values, tol, is_range)
    trials = _trials(work, figures)
    best = _choose(trials, rule, is_higher_better=chosen.is_higher_better, certificate=certificate)
    is_finished = not work.is_over
    model = None
    if refit:
        work.begin_refit()
        start = next((solve.start for solve in work.at(best.C) if solve.coef.size), None)
        callback = None if on_progress is None else work.hear
        model = training.run(subject, best.C, tol, start=start, callback=callback)
    return TuneResult(best, trials, certificate, reason, chosen.name, len(drawn), is_finished, work.seconds, model)


@dataclass(frozen=True, eq=False)
class PathResult:
    """Models along C."""

    C: tuple[float, ...]
    models: tuple[SolveResult, ...]

    @property
    def coef(self) -> Floats:
        """The weights of all models; the first axis is C."""
        return np.stack([model.coef for model in self.models])

    @property
    def intercept(self) -> Floats:
        return np.stack([np.asarray(model.intercept) for model in self.models])


def path(
    X: Any,
    y: Any,
    solver: str = "auto",
    *,
    C: Sequence[float],
    sample_weight: Any = None,
    tol: float = 1e-3,
    max_seconds: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    **problem: Any,
) -> PathResult:
    """Train a model for each C, in ascending order; each starts from the one before. `max_seconds` limits each of
    them."""
    subject, _ = read_subject(X, y, sample_weight, solver, problem)
    values, is_range = _read_costs(C, subject)
    if is_range:
        raise InvalidProblem("C", "must be a list of values for a path")
    training = Training(cast(Parameters, problem), solver, seed, threads, options)
    models: list[SolveResult] = []
    for value in values:
        start = (models[-1].coef, models[-1].intercept) if models else None
        models.append(training.run(subject, value, tol, start=start, max_seconds=max_seconds))
    return PathResult(tuple(values), tuple(models))


def read_subject(
    X: Any, y: Any, sample_weight: Any, solver: str, problem: Mapping[str, Any]
) -> tuple[Subject, ProblemSpec]:
    """Read the rows and resolve the problem, except its C."""
    data = as_rows(X, compress=True)
    if isinstance(data, RowBlocks):
        raise UnsupportedProblem("X", "comes in blocks, and folds need row access; give an array or a CSR matrix")
    labels = read_labels(y, problem.get("task", "auto"))
    if labels.n_rows != data.n_rows:
        raise InvalidProblem("y", f"has {labels.n_rows} labels for {data.n_rows} rows of X")
    weight = None if sample_weight is None else np.asarray(sample_weight)
    if weight is not None and weight.shape != (data.n_rows,):
        raise InvalidProblem("sample_weight", f"has shape {weight.shape}; one number for each row is needed")
    subject = Subject(data, labels, weight)
    spec = Training(cast(Parameters, problem), solver, 0, None, None).spec(subject)
    if spec.task == "ordinal":
        raise UnsupportedProblem("task", "ordinal has no metric to search by yet; use binary, multiclass or regression")
    return subject, spec


def _read_costs(C: Any, subject: Subject) -> tuple[list[float], bool]:
    """Return the values of C and False, or the two ends of a range and True."""
    if isinstance(C, str):
        one_of(C, "C", InvalidProblem, ("auto",))
        unit = subject.data.mean_squared_norm() or 1.0
        return [AUTO_RANGE[0] / unit, AUTO_RANGE[1] / unit], True
    if np.ndim(C) != 1 or np.size(C) == 0:
        raise InvalidProblem("C", 'must be a range (low, high), a list of values, or "auto"')
    values = [PARAMETERS["C"].checked("C", float(one) if isinstance(one, np.floating) else one) for one in C]
    if isinstance(C, tuple) and len(values) == 2:
        if values[0] >= values[1]:
            raise InvalidProblem("C", f"goes from {values[0]:g} to {values[1]:g}; the first must be smaller")
        return values, True
    return sorted(set(values)), False


def _read_epsilon(certify: float | str | None) -> float | str | None:
    if certify is None:
        return None
    if isinstance(certify, str):
        return one_of(certify, "certify", InvalidOptions, ("1se",))
    return real_number(certify, "certify", InvalidOptions, low=0.0)


def _why_not(spec: ProblemSpec, values: Sequence[float]) -> str | None:
    """Return why nothing can be proved about this problem; None if it can."""
    if spec.bias == "free":
        return (
            "a free bias is not regularised, so that models of neighbouring C have no bounded distance; use regularized"
        )
    if len(values) < 2:
        return "one value of C is no range"
    return None


def _why_weak(certificate: TuningCertificate | None, work: FoldWork) -> str | None:
    if certificate is None:
        return "time was over or the search was ended before two values of C were trained on all folds"
    if certificate.proven:
        return None
    why = (
        "time was over or the search was ended" if work.is_over else "more values of C did not help or were not allowed"
    )
    return f"{why}: {certificate.epsilon_reached:.4g} was reached, not {certificate.epsilon:.4g}"


def _spaced(low: float, high: float, steps: int, most: int = MOST_VALUES) -> list[float]:
    """Return values from low to high, evenly spaced in log C: this many for each factor of 10, `most` in all."""
    count = min(most, max(2, math.ceil(steps * math.log10(high / low) - 1e-9) + 1))
    values = np.geomspace(low, high, count)
    values[0], values[-1] = low, high
    return [float(value) for value in values]


def _search(work: FoldWork, values: list[float], tol: float, is_range: bool) -> None:
    """Train all folds at these values and, in a range, at finer ones between the neighbours of the best."""
    folds = range(len(work.folds))
    fine = 2 * (FINE_STEPS // COARSE_STEPS - 1) if is_range else 0
    work.planned = len(work.folds) * (len(values) + fine)
    if not work.run(Request(fold, C, tol) for fold in folds for C in values) or not is_range:
        return
    found = work.best_so_far()
    assert found is not None
    place = values.index(found[0])
    ends = values[max(0, place - 1)], values[min(len(values) - 1, place + 1)]
    finer = [C for C in _spaced(*ends, FINE_STEPS) if all(abs(C / one - 1.0) > 1e-6 for one in values)]
    work.planned = len(work.folds) * (len(values) + len(finer))
    work.run(Request(fold, C, tol) for fold in folds for C in finer)


def _trials(work: FoldWork, figures: Mapping[float, tuple[float, float]]) -> tuple[Trial, ...]:
    trials = []
    for C, mean in work.means().items():
        solves = work.at(C)
        values = tuple(work.value(solve) for solve in solves)
        std = float(np.std(values, ddof=1)) if len(values) > 1 else None
        lower, upper = figures.get(C, (None, None))
        gap, seconds = max(solve.relative_gap for solve in solves), sum(solve.seconds for solve in solves)
        trials.append(Trial(C, mean, std, values, lower, upper, gap, seconds))
    return tuple(trials)


def _choose(
    trials: Sequence[Trial], rule: str, *, is_higher_better: bool, certificate: TuningCertificate | None
) -> Best:
    """Choose C by the rule. With a proof, the proven metrics decide, so that `best` is the C of the certificate."""
    sign = -1.0 if is_higher_better else 1.0
    best = min(trials, key=lambda trial: (sign * trial.mean, trial.C))
    if certificate is not None:
        best = next((trial for trial in trials if trial.C == certificate.C), best)
    if rule == "1se" and best.std is not None:
        limit = sign * best.mean + best.std / math.sqrt(len(best.values))
        best = min((trial for trial in trials if sign * trial.mean <= limit), key=lambda trial: trial.C)
    return Best(best.C, best.mean, best.std)
