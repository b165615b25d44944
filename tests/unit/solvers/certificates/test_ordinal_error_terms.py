"""Evaluations of ordinal problems against their formulas, in coarse arithmetic."""

import math
from itertools import product

import numpy as np
import pytest

from solvers.certificates import ordinal
from solvers.certificates.ordinal import certify_ordinal, plane_at
from solvers.data.rows import as_rows, read_only
from solvers.method import Planes
from solvers.problem.build import build_problem
from solvers.problem.labels import read_labels
from solvers.problem.spec import resolve_spec
from tests.support.coarse import (
    LEAST,
    SUM_ERROR,
    UNIT,
    assert_evaluation,
    down,
    length,
    make_coarse,
    part,
    precision,
    size_of_scores,
    size_of_weights,
    up,
)
from tests.support.exact import exact
from tests.support.exact import primal as exact_primal
from tests.support.joint_problems import COEF, COSTS, GROUPS, RANDOM, RANKS, D, N, X, built


def pairs_of(problem):
    for i, j in product(range(N), repeat=2):
        if problem.ranks[i] > problem.ranks[j] and problem.groups[i] == problem.groups[j]:
            yield i, j, problem.pair_scale * problem.costs[i] * problem.costs[j]


def plane(problem, scores, margin):
    level, counts, magnitudes = 0.0, np.zeros(N), np.zeros(N)
    for i, j, cost in pairs_of(problem):
        if scores[j] > scores[i] - margin:
            level += cost
            counts[i] += cost
            counts[j] -= cost
            magnitudes[[i, j]] += cost
    return level, counts, magnitudes


def expected_ordinal(problem, w, planes, is_compensated, is_pairwise, bits):
    given, scores = precision(is_compensated), X @ w
    of_count, underflow = part(bits + 16), (D + N) * LEAST
    errors = given.scores * size_of_scores(X, w, is_compensated) + given.underflow
    if is_pairwise:
        losses = np.zeros(3)
        for i, j, cost in pairs_of(problem):
            slack = 1.0 - (scores[i] - scores[j])
            error = errors[i] + errors[j] + given.slack * abs(slack)
            losses += cost * np.maximum([slack, slack + error, slack - error], 0.0)
    else:
        level, counts, magnitudes = plane(problem, scores, 1.0)
        of_scores = (errors + given.slack * (np.abs(scores) + 1.0)).max()
        of_counts = of_count * (level + magnitudes @ np.abs(scores))
        rounding = (4.0 * of_scores * problem.total_cost + of_counts) * (1.0 + part(N + 8))
        loss = max(0.0, level - counts @ scores)
        losses = loss, loss + rounding, max(0.0, loss - rounding)
    norm = 0.5 * w @ w
    g = np.maximum(planes.multipliers, 0.0)
    g = g / max(1.0, g.sum()) * (1.0 - part(g.size + 8))
    level, counts, magnitudes = 0.0, np.zeros(N), np.zeros(N)
    for multiplier, weights in zip(g, planes.weights, strict=True):
        at = X @ weights
        cut = plane(problem, at, 1.0 - 1e-12 * max(1.0, np.abs(at).max()))
        level, counts, magnitudes = (
            level + multiplier * cut[0],
            counts + multiplier * cut[1],
            magnitudes + multiplier * cut[2],
        )
    normal, of_planes = X.T @ counts, part(2 * g.size + 16) + of_count
    error = given.sums * size_of_weights(X, counts, is_compensated)
    error += of_planes * size_of_weights(X, magnitudes, is_compensated)
    error += LEAST * up(np.sqrt((X * X).sum(axis=1)).sum()) + underflow
    steepness = up(length(normal) * (1.0 + 4.0 * UNIT) + error)
    return {
        "primal": up((norm + losses[1]) * (1.0 + SUM_ERROR) + underflow),
        "least_primal": down((norm + losses[2]) * (1.0 - SUM_ERROR) - underflow),
        "nominal_primal": norm + losses[0],
        "gap": math.inf,
        "nominal_gap": max(0.0, norm + losses[0] - max(0.0, level - 0.5 * normal @ normal)),
        "linear": down(level * (1.0 - of_planes - part(64)) - underflow),
        "curved": up(0.5 * steepness**2),
        "losses_at_most": up(losses[1] * (1.0 + SUM_ERROR) + underflow),
        "losses_at_least": down(losses[2] * (1.0 - SUM_ERROR) - underflow),
        "dual_weights": np.append(normal, 0.0),
        "dual_error": up(error + 4.0 * UNIT * steepness),
        "multipliers": counts,
    }


@pytest.mark.parametrize("multipliers", [[0.9, 0.0, -0.4, 0.7], [0.1, 0.2, 0.05, 0.3]])
@pytest.mark.parametrize("is_pairwise", [False, True])
@pytest.mark.parametrize(("groups", "scale"), [(None, 1.0), (GROUPS, 1.0), (GROUPS, 0.04)])
def test_the_evaluation_of_pairs_counts_every_error(monkeypatch, groups, scale, is_pairwise, multipliers):
    """Costs of the smaller scale have a bound above 0."""
    make_coarse(monkeypatch)
    problem, w = built("ordinal", costs=scale * COSTS, groups=groups), 0.4 * COEF[0]
    planes = Planes(0.3 * RANDOM.standard_normal((4, D)), np.array(multipliers))
    choices = [True] if is_pairwise else [False, True]
    if not is_pairwise:
        monkeypatch.setattr(ordinal, "PAIRWISE_ROWS", N - 1)
    else:
        monkeypatch.setattr(ordinal, "PAIRWISE_ROWS", N)
    for is_compensated in choices:
        found = ordinal._evaluate(problem, w, planes, is_compensated)
        expected = expected_ordinal(problem, w, planes, is_compensated, is_pairwise, 3)
        assert_evaluation(found, expected, floor=1e-12)


def test_without_planes_the_bound_is_that_of_the_weights_own_plane():
    problem, w = built("ordinal", groups=None), 0.01 * COEF[0]
    own = certify_ordinal(problem, w, Planes(w[None, :], np.ones(1)))
    assert own.dual_bound > 0.0
    for planes in (None, Planes(np.zeros((0, D)), np.zeros(0))):
        assert certify_ordinal(problem, w, planes) == own
    assert own.method == "cutting planes"
    far = certify_ordinal(problem, w, Planes(5.0 * w[None, :], np.zeros(1)))
    assert far.dual_bound == 0.0


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_planes_count_exactly_the_violated_pairs(groups):
    problem = built("ordinal", groups=groups)
    for w in (COEF[0], 0.1 * COEF[1], np.zeros(D)):
        scores = np.empty(N)
        problem.data.margins(w, scores)
        level, counts, magnitudes = plane(problem, scores, 1.0)
        found = plane_at(problem, w)
        assert found.level == pytest.approx(level, rel=1e-14)
        assert found.counts == pytest.approx(counts, rel=1e-12, abs=1e-13)
        assert found.magnitudes == pytest.approx(magnitudes, rel=1e-14)
        assert found.loss == pytest.approx(level - counts @ scores, rel=1e-12)
    ranks = ordinal._ranks_within_groups(problem)
    again = plane_at(problem, COEF[0], ranks_known=ranks)
    assert np.array_equal(again.counts, plane_at(problem, COEF[0]).counts)


def test_a_pair_at_its_margin_is_in_no_plane_and_one_within_rounding_of_it_in_none_that_is_cut():
    """Scores of one feature, so that differences are exact: 1 is no violation, 1 - 2^-50 is one, unless cut."""
    values = np.zeros((N, D))
    values[:, 0] = RANKS * (1.0 - 2.0**-50)
    data = as_rows(values)
    labels = read_labels(RANKS, "ordinal")
    spec = resolve_spec(
        n_rows=N, n_features=D, n_classes=5, sparse=False, task="ordinal", strategy="ovr", loss="pair_hinge", p=None,
        C=0.7, c_scale="sum", bias="none", bias_scale=1.0, epsilon=0.1,
    )  # fmt: skip
    problem = build_problem(spec, data, labels, sample_weight=None, class_weight=None, groups=None)
    w = np.array([1.0, 0.0, 0.0])
    assert plane_at(problem, w).level > 0.0
    assert plane_at(problem, w, is_cut=True).level == 0.0
    exact_margin = np.array([1.0 / (1.0 - 2.0**-50), 0.0, 0.0])
    assert plane_at(problem, exact_margin * (1.0 + 2.0**-51)).level == 0.0


def test_pairs_are_summed_to_the_last_digit_where_scores_cancel():
    """Scores of 1e9 with differences near 1: the low parts decide, and each pair is off by its own error alone."""
    random = np.random.default_rng(2)
    high = 1e9 + random.uniform(-1.0, 1.0, N)
    low = high * 2.0**-54 * random.uniform(-1.0, 1.0, N)
    errors, of_slack = random.uniform(0.0, 1e-9, N), 1e-7
    problem = built("ordinal", groups=GROUPS)
    scaled, high, low, errors = (read_only(one) for one in (problem.costs * problem.pair_scale, high, low, errors))
    found = ordinal._sum_pairs(scaled, problem.costs, problem.ranks, problem.groups, high, low, errors, of_slack)
    totals = [exact(0.0)] * 3
    for i, j, _ in pairs_of(problem):
        cost = exact(scaled[i]) * exact(problem.costs[j])
        slack = 1 - (exact(high[i]) + exact(low[i]) - exact(high[j]) - exact(low[j]))
        error = exact(errors[i]) + exact(errors[j]) + exact(of_slack) * abs(slack)
        for k, value in enumerate((slack, slack + error, slack - error)):
            totals[k] += cost * max(value, exact(0.0))
    for value, true in zip(found, totals, strict=True):
        assert abs(exact(value) - true) <= exact(1e-14) * true


def test_sums_over_pairs_keep_what_each_addition_loses():
    """One pair of a cost of 2^54 and many of 1: slacks of 1, and errors of 1/4 a row."""
    problem, zeros = built("ordinal", groups=None), read_only(np.zeros(N))
    scaled = np.ones(N)
    scaled[1] = 2.0**54
    found = ordinal._sum_pairs(
        read_only(scaled), read_only(np.ones(N)), problem.ranks, problem.groups, zeros, zeros,
        read_only(np.full(N, 0.25)), 0.0,
    )  # fmt: skip
    costs = [int(scaled[i]) for i, j, _ in pairs_of(problem)]
    assert sum(costs) > 2**54 + 8
    assert list(found) == [float(sum(costs)), float(sum(costs)) * 1.5, float(sum(costs)) * 0.5]


@pytest.mark.parametrize("seed", range(8))
def test_losses_of_pairs_at_their_margin_keep_their_digits(seed):
    """Slacks of 1e-10 of scores near 1: compensated, the value of the pairs is known to 13 digits."""
    random = np.random.default_rng(seed)
    values = random.standard_normal((N, D)) * 1e9
    w = random.standard_normal(D) * 1e-9
    wanted = RANKS * (1.0 - 1e-10 * random.uniform(0.5, 1.0))
    values[:, -1] += (wanted - values @ w) / w[-1]
    spec = built("ordinal", groups=None).spec
    labels = read_labels(RANKS, "ordinal")
    problem = build_problem(spec, as_rows(values), labels, sample_weight=None, class_weight=None, groups=None)
    true = exact_primal(problem, w, 0.0)
    found = ordinal._evaluate(problem, w, Planes(w[None, :], np.ones(1)), True)
    assert exact(found.least_primal) <= true <= exact(found.primal)
    assert found.primal - found.least_primal <= 1e-12 * found.primal
    plain = ordinal._evaluate(problem, w, Planes(w[None, :], np.ones(1)), False)
    assert plain.primal - plain.least_primal > 1e-9 * plain.primal, "the case is too easy"


@pytest.mark.parametrize("is_pairwise", [False, True])
def test_ordinal_scores_that_overflow_prove_nothing(monkeypatch, is_pairwise):
    monkeypatch.setattr(ordinal, "PAIRWISE_ROWS", N if is_pairwise else N - 1)
    problem = built("ordinal", groups=None)
    for w in (np.full(D, np.finfo(float).max), np.array([np.inf, 0.0, 0.0])):
        with np.errstate(over="ignore", invalid="ignore"):
            found = ordinal._evaluate(problem, w, Planes(np.zeros((1, D)), np.ones(1)), False)
        assert found.primal == found.nominal_primal == math.inf
        assert certify_ordinal(problem, w, None).dual_bound is None
