"""Evaluations of joint multi-class problems against their formulas, in coarse arithmetic."""

from itertools import product

import numpy as np
import pytest

from solvers.certificates import multiclass
from solvers.certificates.circulation import balanced_shares
from solvers.certificates.multiclass import certify_multiclass
from solvers.method import Point
from tests.support.coarse import (
    LEAST,
    UNIT,
    assert_evaluation,
    down,
    joint_evaluation,
    make_coarse,
    part,
    precision,
    size_of_scores,
    up,
)
from tests.support.exact import exact
from tests.support.joint_problems import BIAS, CODES, COEF, COSTS, RANDOM, D, K, N, X, built


def shares_within(costs, part_of_costs=0.6):
    shares = RANDOM.uniform(0.0, 1.0, (N, K))
    shares[np.arange(N), CODES] = 0.0
    return shares * (part_of_costs * costs / shares.sum(axis=1))[:, None]


def expected_multiclass(problem, shares, bias, is_compensated):
    given, own, costs = precision(is_compensated), (np.arange(N), CODES), problem.costs
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
    unused = np.maximum(costs - shares.sum(axis=1), 0.0) + part(K + 16) * costs
    sums = {
        "losses": losses,
        "most": most,
        "least": least,
        "terms": (shares * (most[:, None] - violations + errors)).sum() + (unused * most).sum(),
        "nominal_terms": (shares * (losses[:, None] - violations)).sum() + (unused * losses).sum(),
        "linear": down(shares.sum()),
        "underflow": (D + N) * K * LEAST,
    }
    return joint_evaluation(problem, X, COEF, bias, signed, sums, is_compensated)


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
