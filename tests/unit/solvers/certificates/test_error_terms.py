"""The evaluations of two classes and of regression against their formulas, in an arithmetic so coarse that every error
term is seen."""

import numpy as np
import pytest
import scipy.sparse as sp

from solvers.certificates import binary, regression
from solvers.certificates.evaluation import (
    Products,
    evaluation_of,
    length_at_most,
    read_products,
    read_scores,
    read_weights,
)
from solvers.data.rows import as_rows, read_only
from solvers.problem.build import build_problem
from solvers.problem.labels import read_labels
from solvers.problem.losses import epsilon_insensitive, hinge
from solvers.problem.losses.loss import RowTotals, SlackError, SlackRows, TubeRows
from solvers.problem.spec import resolve_spec
from tests.support import coarse
from tests.support.coarse import LEAST, SUM_ERROR, UNIT, assert_evaluation, down, length, make_coarse, precision, up
from tests.support.exact import exact

N, D = 23, 4
RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((N, D))
X[3:6, 1] = 0.0
COSTS = RANDOM.uniform(0.2, 3.0, N)
SIGNS = np.where(np.arange(N) % 3 == 0, 1.0, -1.0)
TARGETS = 2.0 * RANDOM.standard_normal(N)
W, INTERCEPT, BIAS_SCALE, EPSILON = RANDOM.standard_normal(D), 0.37, 1.7, 0.21
LOSSES = {
    "binary": {1.0: "hinge", 2.0: "squared_hinge", 1.5: "hinge_p"},
    "regression": {1.0: "epsilon_insensitive", 2.0: "squared_epsilon_insensitive"},
}


def built(task, p, bias, as_matrix=np.asarray, costs=COSTS):
    data, labels = as_rows(as_matrix(X)), read_labels(SIGNS if task == "binary" else TARGETS, task)
    spec = resolve_spec(
        n_rows=N, n_features=D, n_classes=2, sparse=data.sparse, task=task, strategy="ovr", loss=LOSSES[task][p],
        p=p if p == 1.5 else None, C=1.0, c_scale="sum", bias=bias, bias_scale=BIAS_SCALE, epsilon=EPSILON,
    )  # fmt: skip
    return build_problem(spec, data, labels, sample_weight=costs, class_weight=None, groups=None)


def lost(p, C, slack):
    return C * np.maximum(slack, 0.0) ** p


def conjugates(p, C, a):
    return np.zeros_like(a) if p == 1.0 else (p - 1.0) * C * (a / (p * C)) ** (p / (p - 1.0))


def expected_of(problem, w, b, signed, totals, weights, size, given):
    """The formulas of evaluation_of."""
    beta = problem.bias_feature
    scaled = b / BIAS_SCALE if beta else 0.0
    bias_weight = beta * signed.sum()
    underflow, more = (D + N) * LEAST, 1.0 + SUM_ERROR
    error = given.sums * (size + beta * totals.mass) * more + underflow + 4.0 * UNIT * (abs(scaled) + abs(bias_weight))

    def longest(vector, of_bias):
        return up(np.sqrt((vector @ vector + of_bias**2) * more + underflow) + error)

    norm = 0.5 * (w @ w + scaled**2)
    distance, reach = longest(w - weights, scaled - bias_weight), longest(weights, bias_weight)
    return {
        "primal": up((norm + totals.losses_at_most) * more + (underflow if w.any() or scaled else 0.0)),
        "least_primal": down((norm + totals.losses_at_least) * (1.0 - SUM_ERROR) - underflow),
        "nominal_primal": norm + totals.losses,
        "gap": up(0.5 * distance**2 + totals.terms_at_most * more + underflow),
        "nominal_gap": 0.5 * ((w - weights) @ (w - weights) + (scaled - bias_weight) ** 2) + totals.terms,
        "linear": totals.linear - SUM_ERROR * abs(totals.linear) - 2.0 * totals.linear_error - underflow,
        "curved": up(totals.conjugates * more + 0.5 * reach**2),
        "losses_at_most": up(totals.losses_at_most * more + underflow),
        "losses_at_least": down(totals.losses_at_least * (1.0 - SUM_ERROR) - underflow),
        "dual_weights": np.append(weights, bias_weight),
        "dual_error": up(error + 4.0 * UNIT * reach),
        "multipliers": signed,
    }


def own_sizes(is_compensated):
    """What the errors of the rows' scores are measured in, before the factors."""
    return coarse.size_of_scores(X, W, True) if is_compensated else np.sqrt((X * X).sum(axis=1))


def length_factor():
    """Of a length whose square was rounded."""
    product = (D + 16) * UNIT
    return 1.0 + product / (1.0 - product)


def least_length():
    """Of a length whose square underflowed."""
    return np.sqrt((D + 1) * LEAST)


def score_errors(given, is_compensated):
    if is_compensated:
        return given.scores * own_sizes(True)
    return given.scores * length(W) * length_factor() * (own_sizes(False) + least_length())


def size_of_dual(totals):
    return totals.reach * length_factor() + totals.mass * least_length()


def binary_totals(p, C, slack, a, error, sizes):
    def term(s):
        return lost(p, C, s) + conjugates(p, C, a) - a * s

    losses = [lost(p, C, one).sum() for one in (slack, slack + error, slack - error)]
    most = np.maximum(term(slack - error), term(slack + error)).sum()
    conjugate = conjugates(p, C, a).sum()
    return RowTotals(*losses, term(slack).sum(), most, conjugate, a.sum(), 0.0, a.sum(), (a * sizes).sum())


def regression_totals(p, C, error_of_row, beta, errors_of_slacks, sizes, targets=TARGETS):
    a, is_over = np.abs(beta), beta >= 0.0
    slack = np.where(is_over, error_of_row, -error_of_row) - EPSILON
    other = np.where(is_over, -error_of_row, error_of_row) - EPSILON
    error, of_other = errors_of_slacks(slack), errors_of_slacks(other)

    def term(s):
        return lost(p, C, s) + conjugates(p, C, a) - a * s

    there, most_there = lost(p, C, other), lost(p, C, other + of_other)
    return RowTotals(
        (lost(p, C, slack) + there).sum(),
        (lost(p, C, slack + error) + most_there).sum(),
        (lost(p, C, slack - error) + lost(p, C, other - of_other)).sum(),
        (term(slack) + there).sum(),
        (np.maximum(term(slack - error), term(slack + error)) + most_there).sum(),
        conjugates(p, C, a).sum(),
        (beta * targets - EPSILON * a).sum(),
        272.0 * 2.0**-53 * (np.abs(beta * targets) + EPSILON * a).sum(),
        a.sum(),
        (a * sizes).sum(),
    )


@pytest.mark.parametrize("is_compensated", [False, True])
@pytest.mark.parametrize("bias", ["regularized", "none"])
@pytest.mark.parametrize("p", [1.0, 2.0, 1.5])
@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_array])
def test_the_evaluation_of_two_classes_counts_every_error(monkeypatch, p, bias, is_compensated, as_matrix):
    make_coarse(monkeypatch)
    problem, given = built("binary", p, bias, as_matrix), precision(is_compensated)
    intercept = (INTERCEPT if p == 1.0 else -INTERCEPT) if bias == "regularized" else 0.0
    for a in (RANDOM.uniform(0.0, 1.0, N) * COSTS, np.zeros(N)):
        signed = SIGNS * a
        found = binary._evaluate(problem, W, intercept, signed, is_compensated)
        slack = 1.0 - SIGNS * (X @ W + intercept)
        error = score_errors(given, is_compensated) + given.scores * abs(intercept)
        error += given.underflow + given.slack * np.abs(slack)
        totals = binary_totals(p, COSTS, slack, a, error, own_sizes(is_compensated))
        size = coarse.size_of_weights(X, signed, True) if is_compensated else size_of_dual(totals)
        expected = expected_of(problem, W, intercept, signed, totals, X.T @ signed, size, given)
        assert_evaluation(found, expected, floor=1e-12)


@pytest.mark.parametrize("is_compensated", [False, True])
@pytest.mark.parametrize("bias", ["regularized", "none"])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_the_evaluation_of_regression_counts_every_error(monkeypatch, p, bias, is_compensated):
    make_coarse(monkeypatch)
    problem, given = built("regression", p, bias), precision(is_compensated)
    intercept = (INTERCEPT if p == 1.0 else -INTERCEPT) if bias == "regularized" else 0.0
    beta = RANDOM.uniform(-1.0, 1.0, N) * COSTS
    beta[:3] = 0.0
    found = regression._evaluate(problem, W, intercept, beta, is_compensated)
    common = score_errors(given, is_compensated) + given.scores * (abs(intercept) + EPSILON) + given.underflow
    errors, sizes = TARGETS - X @ W - intercept, own_sizes(is_compensated)
    totals = regression_totals(p, COSTS, errors, beta, lambda slack: common + given.slack * np.abs(slack), sizes)
    size = coarse.size_of_weights(X, beta, True) if is_compensated else size_of_dual(totals)
    expected = expected_of(problem, W, intercept, beta, totals, X.T @ beta, size, given)
    assert_evaluation(found, expected, floor=1e-12)


@pytest.mark.parametrize("bias", ["regularized", "none", "free"])
def test_an_evaluation_uses_every_total(monkeypatch, bias):
    """Totals that no row has, each of its own size."""
    make_coarse(monkeypatch)
    problem, given = built("binary", 1.0, bias), precision(False)
    totals = RowTotals(3.0, 3.5, 2.5, 1.1, 1.9, 0.7, 5.0, 0.13, 4.0, 6.0)
    signed, weights = SIGNS * COSTS, RANDOM.standard_normal(D)
    for w, low in ((W, np.empty(0)), (W, 0.01 * weights), (np.zeros(D), np.empty(0))):
        size = 7.0 if low.size else size_of_dual(totals)
        read = Products(np.zeros(N), np.empty(0), np.zeros(N), signed, weights, low, 7.0 if low.size else None)
        found = evaluation_of(problem, w, INTERCEPT, read, totals, given)
        expected = expected_of(problem, w, INTERCEPT, signed, totals, weights, size, given)
        if low.size:
            exact_difference = expected_of(problem, w, INTERCEPT, signed, totals, weights + low, size, given)
            expected = {**expected, **{name: exact_difference[name] for name in ("gap", "nominal_gap")}}
        assert_evaluation(found, expected, rel=1e-12)
    negative = evaluation_of(problem, W, INTERCEPT, read, totals._replace(linear=-5.0), given)
    assert negative.linear == pytest.approx(-5.0 - 5.0 * SUM_ERROR - 0.26 - (D + N) * LEAST)


@pytest.mark.parametrize("is_compensated", [False, True])
@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_array])
def test_products_come_with_what_their_errors_are_measured_in(monkeypatch, is_compensated, as_matrix):
    make_coarse(monkeypatch)
    data, v = as_rows(as_matrix(X)), SIGNS * COSTS
    scores, low, sizes = read_scores(data, W, is_compensated=is_compensated)
    assert scores == pytest.approx(X @ W, rel=1e-12, abs=1e-12)
    assert low.size == (N if is_compensated else 0)
    assert sizes == pytest.approx(coarse.size_of_scores(X, W, is_compensated), rel=1e-9)
    weights = read_weights(data, v, is_compensated=is_compensated)
    assert weights.high == pytest.approx(X.T @ v, rel=1e-12, abs=1e-12)
    assert weights.low.size == (D if is_compensated else 0)
    assert weights.size == pytest.approx(coarse.size_of_weights(X, v, is_compensated), rel=1e-9)
    for dual in (v, lambda given: v if given is not None else None):
        read = read_products(data, W, dual, is_compensated=is_compensated)
        assert np.array_equal(read.dual, v)
        assert read.scores == pytest.approx(scores)
        assert read.sizes == pytest.approx(sizes if is_compensated else (X * X).sum(axis=1), rel=1e-9)
        assert read.are_squares != is_compensated
        assert read.scores_low.size == low.size
        assert read.dual_size == (pytest.approx(weights.size, rel=1e-9) if is_compensated else None)
        assert read.weights == pytest.approx(weights.high)
        assert read.weights_low.size == weights.low.size
    assert length_at_most(W) == pytest.approx(length(W), rel=1e-12)


def test_a_dual_point_from_the_margins_is_made_of_the_scores():
    data = as_rows(X)
    for is_compensated in (False, True):
        read = read_products(data, W, lambda scores: 2.0 * scores, is_compensated=is_compensated)
        assert np.array_equal(read.dual, 2.0 * read.scores)


@pytest.mark.parametrize("n", [1, 256, 257, 700])
def test_rows_of_every_block_are_summed(n):
    random = np.random.default_rng(n)
    slacks, costs, sizes = random.standard_normal(n), random.uniform(0.5, 2.0, n), random.uniform(0.0, 3.0, n)
    signed = random.uniform(-1.0, 1.0, n) * costs
    rows = tuple(read_only(one) for one in (slacks, signed, costs, sizes))
    squares = (*rows[:3], read_only(sizes * sizes))
    error = 0.01 * sizes + 0.002 + 0.003 * np.abs(slacks)
    for p in (1.0, 2.0, 1.5):
        wanted = np.array(binary_totals(p, costs, slacks, np.abs(signed), error, sizes))
        for given, are_squares in ((rows, False), (squares, True)):
            found = hinge._sum_rows(p, SlackRows(*given), SlackError(0.01, 0.002, 0.003, are_squares)).sum(axis=1)
            assert found == pytest.approx(wanted, rel=1e-9)
    over, under = read_only(slacks - EPSILON), read_only(-slacks - EPSILON)
    targets = read_only(random.standard_normal(n))
    common = 0.01 * sizes + 0.002
    expected = regression_totals(
        2.0, costs, slacks, signed, lambda slack: common + 0.003 * np.abs(slack), sizes, targets
    )
    for last, are_squares in ((rows[3], False), (squares[3], True)):
        given = over, under, targets, rows[1], rows[2], last
        found = epsilon_insensitive._sum_rows(
            2.0, EPSILON, TubeRows(*given), SlackError(0.01, 0.002, 0.003, are_squares)
        ).sum(axis=1)
        assert found == pytest.approx(np.array(expected), rel=1e-12)


def test_a_source_says_where_the_dual_point_is_from():
    problem = built("regression", 2.0, "regularized")
    assert regression.certify_regression(problem, W, INTERCEPT, np.zeros(N)).method == "dual point"
    found = regression.certify_regression(problem, W, INTERCEPT, None)
    assert found.method == "dual point from the margins"
    errors = problem.targets - problem.data.values @ W - INTERCEPT
    again = regression.certify_regression(problem, W, INTERCEPT, regression._dual_point_of(problem, errors))
    assert found.gap == pytest.approx(again.gap, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_slacks_of_compensated_scores_lose_nothing_to_cancellation(seed):
    """Scores near 1e8 whose sum with the bias nearly cancels: the low parts decide."""
    random, unit = np.random.default_rng(seed), exact(2.0**-53)
    scores = random.uniform(-1.0, 1.0, 9) * 1e8
    low = scores * 2.0**-55 * random.uniform(-1.0, 1.0, 9)
    signs, targets = random.choice([-1.0, 1.0], 9), np.full(9, 0.25)
    scores, low, signs, targets = (read_only(one) for one in (scores, low, signs, targets))
    over, under = np.empty(9), np.empty(9)
    for i in range(9):
        intercept = signs[i] - scores[i] + 2.0**-27 * random.integers(-2, 3)
        out = scores.copy()
        binary._form_slacks(out, low, intercept, 1.0, signs)
        true = 1 - exact(signs[i]) * (exact(scores[i]) + exact(low[i]) + exact(intercept))
        assert abs(exact(out[i]) - true) <= 8 * unit * abs(true) + exact(1e-22)
        out = scores.copy()
        binary._form_slacks(out, low[:0], intercept, 1.0, signs)
        assert out[i] == 1.0 - signs[i] * (scores[i] + intercept)
        for b in (-scores[i], -scores[i] + 0.1, 1e-9):
            regression._form_slacks(scores, low, b, targets, 0.25, over, under)
            error = exact(0.25) - exact(scores[i]) - exact(low[i]) - exact(b)
            for value, true in ((over[i], error - exact(0.25)), (under[i], -error - exact(0.25))):
                assert abs(exact(value) - true) <= 8 * unit * abs(true) + exact(1e-22)
        regression._form_slacks(scores, low[:0], -scores[i], targets, 0.25, over, under)
        assert (over[i], under[i]) == (0.0, -0.5)


def test_what_the_bias_loses_in_a_score_is_in_the_slack():
    scores = np.array([1.0, -1.0, 1.0])
    binary._form_slacks(scores, read_only(np.zeros(3)), 1e-20, 1.0, read_only(np.array([1.0, -1.0, 1.0])))
    assert scores.tolist() == [-1e-20, 1e-20, -1e-20]


@pytest.mark.parametrize("p", [1.0, 2.0, 1.5])
def test_a_dual_point_of_small_costs_is_feasible_as_it_is(p):
    costs = np.full(N, 0.3)
    alpha = np.linspace(0.0, 0.29, N)
    problem = built("binary", p, "none", costs=costs)
    assert np.array_equal(binary.feasible_dual_point(problem, alpha), alpha)
