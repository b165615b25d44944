"""Evaluations of joint multi-class and ordinal problems against their formulas, in coarse arithmetic."""

import math
from itertools import product

import numpy as np
import pytest

from solvers.certificates import multiclass, ordinal
from solvers.certificates.circulation import balanced_shares
from solvers.certificates.multiclass import certify_multiclass
from solvers.certificates.ordinal import certify_ordinal, plane_at
from solvers.data.rows import as_rows, read_only
from solvers.method import Planes, Point
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

N, D, K, BIAS_SCALE = 17, 3, 3, 1.7
RANDOM = np.random.default_rng(8)
X = RANDOM.standard_normal((N, D))
COSTS = RANDOM.uniform(0.2, 3.0, N)
CODES = np.arange(N) % K
RANKS = np.array([0, 1, 2, 3, 4, 2, 0, 1, 3, 0, 1, 2, 1, 0, 2, 2, 3])
GROUPS = np.array([0] * 9 + [1] * 8)
COEF, BIAS = RANDOM.standard_normal((K, D)), RANDOM.standard_normal(K)


def built(task, bias="none", costs=COSTS, **data_arguments):
    labels = read_labels(CODES if task == "multiclass" else RANKS, task)
    loss = "hinge" if task == "multiclass" else "pair_hinge"
    spec = resolve_spec(
        n_rows=N, n_features=D, n_classes=labels.n_classes, sparse=False, task=task, strategy="crammer_singer",
        loss=loss, p=None, C=0.7, c_scale="sum", bias=bias, bias_scale=BIAS_SCALE, epsilon=0.1,
    )  # fmt: skip
    return build_problem(spec, as_rows(X), labels, sample_weight=costs, class_weight=None, **data_arguments)


def shares_within(costs, part_of_costs=0.6):
    shares = RANDOM.uniform(0.0, 1.0, (N, K))
    shares[np.arange(N), CODES] = 0.0
    return shares * (part_of_costs * costs / shares.sum(axis=1))[:, None]


def expected_multiclass(problem, shares, bias, is_compensated):
    given, own, costs, beta = precision(is_compensated), (np.arange(N), CODES), problem.costs, problem.bias_feature
    scores = X @ COEF.T + bias
    violations = 1.0 + scores - scores[own][:, None]
    violations[own] = 0.0
    sizes = np.max([size_of_scores(X, one, is_compensated) for one in COEF], axis=0)
    errors = given.slack * np.abs(violations)
    errors += 2.0 * (given.scores * (sizes + np.abs(bias).max()) + given.underflow)[:, None]
    errors[own] = 0.0
    losses, most, least = (one.max(axis=1) for one in (violations, violations + errors, violations - errors))
    signed = -shares
    signed[own] = shares.sum(axis=1)
    scaled = bias / BIAS_SCALE if beta else np.zeros(K)
    distance = nominal = curved = squared_error = 0.0
    dual_weights = np.empty((K, D + 1))
    for m in range(K):
        v, weights = signed[:, m], X.T @ signed[:, m]
        of_weights, bias_weight = size_of_weights(X, v, is_compensated), beta * v.sum()
        error = (given.sums + part(K + 8)) * of_weights + part(K + 16) * (beta * np.abs(v).sum() + abs(scaled[m]))
        apart = up(math.hypot(length(COEF[m] - weights) * (1.0 + 4.0 * UNIT), scaled[m] - bias_weight) + error)
        reach = up(math.hypot(length(weights) * (1.0 + 4.0 * UNIT), bias_weight) + error)
        distance += apart**2
        curved += 0.5 * reach**2
        nominal += ((COEF[m] - weights) ** 2).sum() + (scaled[m] - bias_weight) ** 2
        dual_weights[m] = np.append(weights, bias_weight)
        squared_error += (error + 4.0 * UNIT * reach) ** 2
    norm = 0.5 * (COEF**2).sum() + 0.5 * (scaled**2).sum()
    unused = np.maximum(costs - shares.sum(axis=1), 0.0) + part(K + 16) * costs
    terms = (shares * (most[:, None] - violations + errors)).sum() + (unused * most).sum()
    underflow, more = (D + N) * K * LEAST, part(K + 32)
    return {
        "primal": up((norm + costs @ most) * (1.0 + more) + underflow),
        "least_primal": down((norm + costs @ least) * (1.0 - more) - underflow),
        "nominal_primal": norm + costs @ losses,
        "gap": up((0.5 * distance + terms) * (1.0 + more) + underflow),
        "nominal_gap": 0.5 * nominal + (shares * (losses[:, None] - violations)).sum() + (unused * losses).sum(),
        "linear": down(shares.sum()),
        "curved": up(curved * (1.0 + more)),
        "losses_at_most": up(costs @ most * (1.0 + more) + underflow),
        "losses_at_least": down(costs @ least * (1.0 - more) - underflow),
        "dual_weights": dual_weights,
        "dual_error": up(math.sqrt(squared_error)) * (1.0 + part(K)),
        "multipliers": signed,
    }


@pytest.mark.parametrize("is_compensated", [False, True])
@pytest.mark.parametrize("bias", ["regularized", "none"])
def test_the_evaluation_of_joint_classes_counts_every_error(monkeypatch, bias, is_compensated):
    make_coarse(monkeypatch)
    problem = built("multiclass", bias)
    intercept = BIAS if bias == "regularized" else np.zeros(K)
    shares = shares_within(problem.costs)
    given = -shares
    given[np.arange(N), CODES] = 5.0  # what the own class is given does not count
    found = multiclass._evaluate(problem, COEF, intercept, given, is_compensated)
    expected = expected_multiclass(problem, shares, intercept, is_compensated)
    assert_evaluation(found, expected, floor=1e-12)


def test_losses_of_zero_weights_can_underflow_too(monkeypatch):
    make_coarse(monkeypatch)
    problem, given = built("multiclass"), precision(False)
    zeros = np.zeros((K, D))
    found = multiclass._evaluate(problem, zeros, np.zeros(K), np.zeros((N, K)), False)
    sizes = size_of_scores(X, zeros[0], False)
    most = 1.0 + given.slack + 2.0 * (given.scores * sizes + given.underflow)
    expected = up(problem.costs @ most * (1.0 + part(K + 32)) + (D + N) * K * LEAST)
    assert found.primal == pytest.approx(expected, rel=1e-9)


def test_shares_are_moved_into_the_domain(monkeypatch):
    problem = built("multiclass")
    costs = problem.costs.copy()
    for factor in (0.5, 1.0 - 1e-15, 1.0, 1.0 + 1e-15, 40.0):
        shares = shares_within(costs, factor)
        found = multiclass.feasible_shares(problem, -shares)
        for row, cost in zip(found, costs, strict=True):
            assert sum(map(exact, row)) <= exact(cost)
        assert (found[np.arange(N), CODES] == 0.0).all()
        assert (found <= shares * (1.0 + 1e-15)).all()
        assert found.sum(axis=1) == pytest.approx(min(factor, 1.0) * costs, rel=1e-13)
    assert (multiclass.feasible_shares(problem, np.ones((N, K))) == 0.0).all()
    make_coarse(monkeypatch)
    room = 4.0 * (K + 4) * UNIT
    shares = shares_within(costs, 1.0)
    assert multiclass.feasible_shares(problem, -shares) == pytest.approx(shares * (1.0 - 2.0 * room), rel=1e-12)
    shares = shares_within(costs, 1.0 - 1.01 * room)
    assert np.array_equal(multiclass.feasible_shares(problem, -shares), shares)
    shares = shares_within(costs, 1.0 - 0.99 * room)
    assert multiclass.feasible_shares(problem, -shares).sum(axis=1) == pytest.approx(costs * (1.0 - 2.0 * room))


def test_rows_of_hardly_any_cost_get_no_share():
    costs = COSTS.copy()
    costs[4], costs[5] = 1e-291, 1e-289
    problem = built("multiclass", costs=costs / 0.7)
    shares = np.full((N, K), -1e-300)
    found = multiclass.feasible_shares(problem, shares)
    assert not found[4].any()
    assert found[5].sum() == 2e-300


def test_violations_keep_what_cancellation_loses():
    """Scores near 1e9 that differ in their last places: compensated products find the difference."""
    random = np.random.default_rng(0)
    problem = built("multiclass", "free")
    coef = 1e9 * random.standard_normal((1, D)) * (1.0 + 2.0**-45 * random.integers(-9, 9, (K, D)))
    bias = 1e9 * random.standard_normal(K)
    bias[1], bias[2] = bias[0] * (1.0 + 2.0**-50), bias[0] * (1.0 - 2.0**-50)
    found, sizes = multiclass.violations_and_sizes(problem, coef, bias, is_compensated=True)
    plain, plain_sizes = multiclass.violations_and_sizes(problem, coef, bias, is_compensated=False)
    missed = 0
    for i, m in product(range(N), range(K)):
        own = int(CODES[i])
        x, w, v = ([exact(value) for value in one] for one in (X[i], coef[m], coef[own]))
        true = exact(bias[m]) - exact(bias[own]) + sum(a * (b - c) for a, b, c in zip(x, w, v, strict=True))
        true = true + 1 if m != own else exact(0.0)
        magnitude = sum(abs(a * b) for a, b in zip(x, w, strict=True)) + abs(exact(bias[m]))
        assert abs(exact(found[i, m]) - true) <= exact(8.0 * 2.0**-53) * abs(true) + exact(2.0**-92) * magnitude
        missed += abs(exact(plain[i, m]) - true) > exact(2.0**-40) * abs(true)
        assert exact(sizes[i]) >= magnitude - abs(exact(bias[m]))
        assert exact(plain_sizes[i]) >= magnitude - abs(exact(bias[m]))
    assert missed > N, "the case is too easy"


def test_what_a_difference_of_scores_loses_is_in_the_violation():
    found, _ = multiclass.violations_and_sizes(
        built("multiclass", "free"), np.zeros((K, D)), np.array([1.0, -1e-20, 0.3]), is_compensated=True
    )
    assert (found[CODES == 0, 1] == -1e-20).all()


def test_a_kept_dual_point_is_balanced_by_the_prices_of_its_weights():
    problem = built("multiclass", "free")
    shares, own = shares_within(problem.costs), (np.arange(N), CODES)
    scores = X @ COEF.T + BIAS
    violations = 1.0 + scores - scores[own][:, None]
    violations[own] = 0.0
    expected = -balanced_shares(problem, shares, violations)
    expected[own] = -expected.sum(axis=1)
    found = multiclass.balanced_dual_point(problem, Point(COEF, BIAS, -shares))
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert multiclass.balanced_dual_point(problem, Point(COEF, BIAS, None)) is None


@pytest.mark.parametrize("size", [1e160, 1e300])
@pytest.mark.parametrize("bias", ["regularized", "none"])
def test_joint_classes_whose_squares_overflow_prove_nothing(bias, size):
    problem = built("multiclass", bias)
    intercept = size * BIAS if bias == "regularized" else np.zeros(K)
    for coef, alpha in ((size * COEF, None), (COEF, None), (np.zeros((K, D)), -shares_within(problem.costs))):
        found = certify_multiclass(problem, coef, intercept, alpha)
        assert found.dual_bound is None or found.dual_bound <= found.primal


def test_the_primal_value_of_nothing_is_exactly_zero():
    """All costs but two are zero, and weights are zero: no error term is added to what is exactly known."""
    problem = built("multiclass")
    found = certify_multiclass(problem, np.zeros((K, D)), np.zeros(K), np.zeros((N, K)))
    assert found.primal == pytest.approx(problem.costs.sum(), rel=1e-12)
    assert found.dual_bound == 0.0
    worst = certify_multiclass(problem, COEF, BIAS, None)
    assert worst.method == "dual point from the margins"
    assert certify_multiclass(problem, COEF, BIAS, np.zeros((N, K))).method == "dual point"
    scores = X @ COEF.T
    violations = 1.0 + scores - scores[np.arange(N), CODES][:, None]
    violations[np.arange(N), CODES] = 0.0
    signed = np.zeros((N, K))
    signed[np.arange(N), violations.argmax(axis=1)] = -problem.costs
    again = certify_multiclass(problem, COEF, np.zeros(K), signed)
    assert certify_multiclass(problem, COEF, 0.0, None).dual_bound == again.dual_bound


# --- ordinal ----------------------------------------------------------------------------------------------------------


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
