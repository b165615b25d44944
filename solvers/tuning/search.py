"""`tune`: the search for C by cross-validation, in one variant or several, with or without a proof."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from solvers.checks import one_of, real_number, whole_number
from solvers.errors import InvalidOptions, InvalidProblem
from solvers.problem.spec import ProblemSpec
from solvers.tuning.certify import DECADE_STEPS, Certifier, TuningCertificate
from solvers.tuning.costs import MOST_VALUES, Costs, read_costs, spaced
from solvers.tuning.curve import Metric, Scorer, read_metric
from solvers.tuning.fold_work import Earlier, FoldWork, Request, key_of
from solvers.tuning.folds import REFIT, Fold, draw_outer, folds_within, read_folds
from solvers.tuning.outcome import (
    OuterEstimate,
    TuneResult,
    choose,
    deviation,
    fold_models,
    pooled_scores,
    trials_of,
)
from solvers.tuning.path import FoldSolve
from solvers.tuning.reports import Progress, Reporter
from solvers.tuning.source import Prepare, Source, read_source, some_labels
from solvers.tuning.variants import read_variants, trainings_of

__all__ = ["tune"]

COARSE_STEPS, FINE_STEPS = 2, 8
"""Values of C per factor of 10: first over the whole range, then between the neighbours of the best. Larger: a finer
search, more trainings. Set by hand; no measurement is recorded."""
RULES = ("best", "1se")
BEFORE_OUTER = 0.5
"""Progress at the end of a proof if nested folds follow. The duration of a proof is not known in advance, so its share
of the progress is fixed. Set by hand; no measurement is recorded."""


def tune(
    X: Any,
    y: Any,
    solver: str = "auto",
    *,
    C: Any = "auto",
    variants: Sequence[Mapping[str, Any]] | None = None,
    prepare: Prepare | None = None,
    folds: Any = 5,
    groups: Any = None,
    repeats: int = 1,
    outer_folds: int | None = None,
    metric: str | Scorer | None = None,
    certify: float | str | None = None,
    rule: str = "best",
    refit: bool = True,
    keep_folds: bool = False,
    sample_weight: Any = None,
    query_groups: Any = None,
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
    """Choose C, and the best of several variants of the problem, by cross-validation; see docs/how-to/choose-c.md.

    `C` is a range (low, high), a list of values, or "auto": a range that suits the scale of X. `variants` are tables of
    problem parameters to try, each over those of `problem`; lists for loss, p and class_weight are crossed.
    `prepare(variant, training rows, held-out rows)` makes the rows of a fold, so that preprocessing learns from the
    training rows alone; X can then be None, and "auto" takes the scale of the first fold's training rows in variant 0.
    `folds` is the number of folds or the fold of each row; rows of one group (`groups`) stay together. `outer_folds`
    estimates the metric of the whole search on rows that it did not see. `metric` is a name (docs/how-to/choose-c.md)
    or a `Scorer`; None: error or mae. `certify`: an epsilon, or "1se". The search then continues until it is proved
    that no C of the range, in any variant, is better than the best by more than epsilon; `max_values` and `max_seconds`
    limit it. `rule`: "best", or "1se" for the smallest C within one standard error of the best. `query_groups` are the
    groups of task ordinal. `keep_folds` keeps held-out scores and the models of the folds. `on_progress` is called
    after every training with a `TuneProgress`; returning True ends the search, which keeps the best so far. The tables
    of `TuneProgress.stored()`, given as `resume_from`, continue an interrupted search. `problem` are the `Parameters`
    by name, as for `train`, without C.
    """
    definitions = read_variants(variants, problem)
    task = problem.get("task", "auto")
    source = read_source(X, y, task, sample_weight=sample_weight, query_groups=query_groups, prepare=prepare)
    trainings = trainings_of(definitions, source.labels, solver=solver, seed=seed, threads=threads, options=options)
    specs = [training.spec(source.labels) for training in trainings]
    chosen = read_metric(metric, specs[0].task)
    has_ranks = specs[0].task == "ordinal"
    if query_groups is not None and not has_ranks:
        raise InvalidProblem("query_groups", "are only used with task ordinal; leave them out")
    one_of(rule, "rule", InvalidOptions, RULES)
    real_number(tol, "tol", InvalidOptions, above=0.0)
    if max_seconds is not None:
        max_seconds = real_number(max_seconds, "max_seconds", InvalidOptions, above=0.0)
    whole_number(max_values, "max_values", InvalidOptions, low=2)
    epsilon = _read_epsilon(certify)
    costs = read_costs(C)
    drawn_by: dict[str, Any] = {"groups": groups, "seed": seed, "has_ranks": has_ranks}
    drawn = read_folds(folds, source.labels, repeats=repeats, **drawn_by)
    nested: list[tuple[Fold, list[Fold]]] = []
    if outer_folds is not None:
        for outer in draw_outer(outer_folds, source.labels, **drawn_by):
            labels = some_labels(source.labels, outer.training)
            nested.append((outer, folds_within(outer, folds, labels, repeats=repeats, **drawn_by)))
    _require_metric(chosen, source, [*drawn, *(one for outer, inner in nested for one in (outer, *inner))])
    earlier = _read_earlier(resume_from, drawn, nested, len(trainings))
    reporter = Reporter(on_progress, max_seconds)
    work = FoldWork(trainings, source, drawn, chosen, reporter, earlier)
    reporter.best = work.best_so_far
    if costs is None:
        data = source.data if source.data is not None else work.path(0, 0).subject.data
        costs = Costs.auto(data.mean_squared_norm() or 1.0)
    reason = None if epsilon is None else _why_not(specs, chosen, costs)
    certificate, figures = None, {}
    planned_outer = sum(_planned(len(inner), len(trainings), costs) + 1 for _, inner in nested)
    if epsilon is not None and reason is None:
        steps = spaced(*costs.ends, DECADE_STEPS, max_values) if costs.is_range else list(costs.values)
        reporter.span = (0.0, BEFORE_OUTER) if nested else (0.0, 1.0)
        proof = Certifier(work, steps, epsilon, max_values, keep_models=keep_folds)
        proof.run()
        certificate, figures = proof.certificate(), proof.figures
        reason = _why_weak(certificate, work)
        if nested:
            reporter.begin_outer(planned_outer, BEFORE_OUTER)
    else:
        reporter.planned = _planned(len(drawn), len(trainings), costs) + planned_outer
        _search(work, costs, tol)
    trials = trials_of(work, figures)
    best = choose(trials, rule, is_higher_better=chosen.is_higher_better, certificate=certificate)
    outer_estimate = _outer_estimate(work, nested, costs, tol, rule, earlier)
    is_finished = not work.is_over
    model = None
    if refit:
        reporter.begin_refit()
        start = next((solve.start for solve in work.at(best.variant, best.C) if solve.coef.size), None)
        training, whole = trainings[best.variant], source.whole(best.variant)
        if start is not None and start[0].shape[-1] != whole.data.n_features:
            start = None  # preprocessing of all rows gives other columns than preprocessing of one fold
        model = training.run(whole, best.C, tol, start=start, callback=reporter.listener)
    return TuneResult(
        best,
        trials,
        certificate,
        reason,
        chosen.name,
        len(drawn),
        is_finished,
        reporter.seconds,
        model,
        outer_estimate,
        pooled_scores(work, best) if keep_folds else None,
        fold_models(work, best) if keep_folds else None,
    )


def _search(work: FoldWork, costs: Costs, tol: float) -> bool:
    """Train all folds and variants at the values of C and, in a range, at finer ones around the best; return False if
    the search ended before."""
    folds, variants = range(len(work.folds)), range(len(work.trainings))
    values = _coarse(costs)
    is_done = work.run(Request(variant, fold, C, tol) for fold in folds for variant in variants for C in values)
    if not is_done or not costs.is_range:
        return is_done
    found = work.best_so_far()
    assert found is not None
    place = values.index(found[0])
    ends = values[max(0, place - 1)], values[min(len(values) - 1, place + 1)]
    finer = [C for C in spaced(*ends, FINE_STEPS) if all(abs(C / one - 1.0) > 1e-6 for one in values)]
    work.reporter.planned += len(work.folds) * (len(finer) - _fine_values(costs))
    return work.run(Request(found[2], fold, C, tol) for fold in folds for C in finer)


def _outer_estimate(
    work: FoldWork, nested: Sequence[tuple[Fold, list[Fold]]], costs: Costs, tol: float, rule: str, earlier: Earlier
) -> OuterEstimate | None:
    """For each outer fold: search on its training rows, train the chosen variant and C on all of these rows, and
    compute the metric on its held-out rows."""
    if not nested or work.is_over:
        return None
    values, chosen = [], []
    work.reporter.phase = "outer"
    for outer, inner in nested:
        settings = work.trainings, work.source
        within = FoldWork(*settings, inner, work.metric, work.reporter, earlier)
        if not _search(within, costs, tol):
            return None
        best = choose(trials_of(within, {}), rule, is_higher_better=work.metric.is_higher_better)
        del within  # frees its rows as well
        whole = FoldWork(
            *settings,
            [Fold(REFIT, outer.training, outer.held_out, outer.number)],
            work.metric,
            work.reporter,
            earlier,
        )
        whole.run([Request(best.variant, 0, best.C, tol)])
        if not (solves := whole.at(best.variant, best.C)):
            return None
        values.append(whole.value(solves[0]))
        chosen.append(best)
    std = deviation(values)
    assert std is not None
    return OuterEstimate(tuple(values), sum(values) / len(values), std, tuple(chosen))


def _coarse(costs: Costs) -> list[float]:
    return spaced(*costs.ends, COARSE_STEPS) if costs.is_range else list(costs.values)


def _fine_values(costs: Costs) -> int:
    return 2 * (FINE_STEPS // COARSE_STEPS - 1) if costs.is_range else 0


def _planned(folds: int, variants: int, costs: Costs) -> int:
    """Return how many trainings a search needs if the best C is not at an end of its range."""
    return folds * (variants * len(_coarse(costs)) + _fine_values(costs))


def _read_epsilon(certify: float | str | None) -> float | str | None:
    if certify is None:
        return None
    if isinstance(certify, str):
        return one_of(certify, "certify", InvalidOptions, ("1se",))
    return real_number(certify, "certify", InvalidOptions, low=0.0)


def _require_metric(metric: Metric, source: Source, folds: Sequence[Fold]) -> None:
    for fold in folds:
        if lacking := metric.missing(source.truth[fold.held_out], source.labels.n_classes):
            raise InvalidProblem("folds", f"fold {fold.number + 1} has {lacking}, so {metric.name} is undefined there")


def _read_earlier(
    resume_from: Iterable[Mapping[str, Any]] | None,
    folds: Sequence[Fold],
    nested: Sequence[tuple[Fold, list[Fold]]],
    variants: int,
) -> Earlier:
    """Return the trainings of an earlier run of this search; refuse those of another one."""
    sizes = {(fold.outer, fold.number): fold.held_out.size for fold in folds}
    for outer, inner in nested:
        sizes[outer.number, REFIT] = outer.held_out.size
        sizes |= {(fold.outer, fold.number): fold.held_out.size for fold in inner}
    found = [FoldSolve.read(one) for one in resume_from or ()]
    for one in found:
        if sizes.get((one.outer, one.fold)) != one.scores.shape[0] or not 0 <= one.variant < variants:
            raise InvalidOptions(
                "resume_from", "contains a training of other folds or variants; give the tables of the same search"
            )
    return {key_of(one): one for one in found}


def _why_not(specs: Sequence[ProblemSpec], metric: Metric, costs: Costs) -> str | None:
    """Return why nothing can be proved about this problem; None if it can."""
    if not metric.has_bounds:
        return f"metric {metric.name} has no bounds; use error, roc_auc, mae or another one that has"
    if any(spec.bias == "free" for spec in specs):
        return (
            "a free bias is not regularised, so that models of neighbouring C have no bounded distance; use regularized"
        )
    if len(costs.values) < 2:
        return "one value of C is not a range; give C as (low, high)"
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
