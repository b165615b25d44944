"""The certificate against its definition: every loss, exponent and bias, at points good and bad."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.certificates.binary import certify_binary as certify
from solvers.certificates.circulation import balanced_shares
from solvers.certificates.free_bias import minimising_bias
from solvers.certificates.multiclass import certify_multiclass
from solvers.certificates.ordinal import certify_ordinal, plane_at
from solvers.certificates.regression import certify_regression
from solvers.data.rows import as_rows
from solvers.method import Planes
from solvers.problem.build import build_problem
from solvers.problem.labels import read_labels
from solvers.problem.problems import rank_thresholds
from solvers.problem.spec import BIASES, resolve_spec
from tests.support.solver_problems import Case, cases, examples
from tests.support.solver_reference import plain_dual, plain_primal, reference_interval
from tests.support.stated_problems import problem_of

LOSSES = ["hinge", "squared_hinge", "hinge_p"]
REGRESSION = {
    "task": "regression", "strategy": "ovr", "loss": "epsilon_insensitive", "p": None, "C": 1.0, "c_scale": "sum",
    "bias_scale": 1.0, "sample_weight": None, "class_weight": None, "groups": None, "epsilon": 0.1,
}  # fmt: skip
every_loss = pytest.mark.parametrize("loss", LOSSES)
every_choice = pytest.mark.parametrize(("loss", "bias"), list(itertools.product(LOSSES, BIASES)))


def feasible_alpha(dense, random):
    """Somewhere inside the dual's domain."""
    alpha = random.random(dense.costs.size) * dense.costs
    if dense.bias == "free":
        positive = dense.signs > 0
        up, down = alpha[positive].sum(), alpha[~positive].sum()
        alpha[positive if up > down else ~positive] *= min(up, down) / max(up, down) if max(up, down) > 0 else 0.0
    return alpha


def best_multiple(dual):
    """The largest of dual(t), t in [0, 1], which is quadratic in t."""
    linear = 4.0 * dual(0.5) - dual(1.0)
    curved = linear - dual(1.0)
    best = min(1.0, max(0.0, 0.5 * linear / curved)) if curved > 0.0 else 1.0
    return max(0.0, dual(1.0), dual(best))


@every_choice
def test_gap_is_primal_minus_dual_at_any_point(loss, bias):
    @examples(25)
    @given(case=cases(loss=loss, bias=bias, c_scale="sum"), seed=st.integers(0, 2**32 - 1))
    def check(case, seed):
        random, dense = np.random.default_rng(seed), case.dense()
        w, b = random.standard_normal(case.X.shape[1]), random.standard_normal() * (bias != "none")
        alpha = feasible_alpha(dense, random)
        certificate = certify(problem_of(case), w, b, alpha)
        primal, dual = plain_primal(dense, w, b), plain_dual(dense, alpha)
        tolerance = 1e-9 * max(1.0, primal)
        assert abs(certificate.primal - primal) <= tolerance
        assert dual - tolerance <= certificate.dual_bound
        if dense.p in (1.0, 2.0):
            assert abs(certificate.dual_bound - best_multiple(lambda t: plain_dual(dense, t * alpha))) <= tolerance
        else:
            multiples = [plain_dual(dense, t * alpha) for t in (0.0, *np.geomspace(1e-8, 1.0, 1000))]
            assert -tolerance <= certificate.dual_bound <= max(multiples) + 1e-5 * primal
        assert abs(certificate.gap - (primal - certificate.dual_bound)) <= tolerance
        assert certificate.relative_gap == certificate.gap / max(certificate.primal, 1e-12 * dense.costs.sum())

    check()


@every_choice
def test_an_infeasible_dual_point_is_never_believed(loss, bias):
    @examples(15)
    @given(case=cases(loss=loss, bias=bias, c_scale="sum"), seed=st.integers(0, 2**32 - 1))
    def check(case, seed):
        random, dense = np.random.default_rng(seed), case.dense()
        w, b = random.standard_normal(case.X.shape[1]), 0.0
        wild = 5.0 * random.standard_normal(dense.costs.size) * (dense.costs + 0.1)
        certificate = certify(problem_of(case), w, b, wild)
        interval = reference_interval(dense)
        assert 0.0 <= certificate.dual_bound <= interval.high * (1 + 1e-9)

    check()


@every_choice
def test_what_is_not_finite_proves_nothing(loss, bias):
    @examples(10)
    @given(case=cases(loss=loss, bias=bias, c_scale="sum"), seed=st.integers(0, 2**32 - 1))
    def check(case, seed):
        random, dense, problem = np.random.default_rng(seed), case.dense(), problem_of(case)
        w, alpha = random.standard_normal(case.X.shape[1]), feasible_alpha(dense, random)
        broken = alpha.copy()
        broken[random.integers(broken.size)] = random.choice([np.nan, np.inf])
        certificate = certify(problem, w, 0.0, broken)
        assert certificate.primal == certify(problem, w, 0.0, alpha).primal
        assert 0.0 <= certificate.dual_bound <= reference_interval(dense).high * (1 + 1e-9)
        w[random.integers(w.size)] = random.choice([np.nan, np.inf])
        nothing = certify(problem, w, 0.0, alpha)
        assert not np.isfinite(nothing.primal)
        assert nothing.dual_bound is nothing.gap is nothing.relative_gap is None

    check()


def test_a_dual_point_of_other_rows_is_refused():
    data = as_rows(np.eye(3))
    setting = resolve_spec(
        n_rows=3, n_features=3, n_classes=2, sparse=False, task="binary", strategy="ovr", loss="hinge",
        p=None, C=1.0, c_scale="sum", bias="none", bias_scale=1.0, epsilon=0.1,
    )  # fmt: skip
    problem = build_problem(
        setting, data, read_labels([0, 1, 1], "binary"), sample_weight=None, class_weight=None, groups=None
    )
    for size in (0, 2, 4, 1000):
        with pytest.raises(ValueError, match="3 rows"):
            certify(problem, np.zeros(3), 0.0, np.zeros(size))


@every_choice
def test_a_dual_point_is_found_for_weights_alone(loss, bias):
    @examples(15)
    @given(case=cases(loss=loss, bias=bias, c_scale="sum"), seed=st.integers(0, 2**32 - 1))
    def check(case, seed):
        random, dense, problem = np.random.default_rng(seed), case.dense(), problem_of(case)
        w = 0.3 * random.standard_normal(case.X.shape[1])
        b = minimising_bias(problem, case.X @ w) if bias == "free" else 0.0
        certificate = certify(problem, w, b, None)
        interval = reference_interval(dense)
        assert certificate.gap >= 0.0
        assert certificate.dual_bound <= interval.high * (1 + 1e-9)
        if dense.p > 1.0 and bias != "free":
            # Then the gap is half the squared gradient in (w, b / bias_scale).
            slope = dense.p * dense.costs * np.maximum(0.0, 1.0 - dense.signs * (case.X @ w + b)) ** (dense.p - 1)
            gradient = w - case.X.T @ (slope * dense.signs)
            beta = dense.bias_scale if bias == "regularized" else 0.0
            bias_slope = -beta * (slope @ dense.signs)
            half = 0.5 * (gradient @ gradient + bias_slope**2)
            expected = min(half, certificate.primal - certificate.dual_bound)
            assert certificate.gap == pytest.approx(expected, rel=1e-7, abs=1e-9 * max(1.0, certificate.primal))

    check()


@every_loss
def test_the_free_bias_is_minimised_exactly(loss):
    @examples(60)
    @given(case=cases(loss=loss, bias="free", c_scale="sum"), seed=st.integers(0, 2**32 - 1))
    def check(case, seed):
        random, dense = np.random.default_rng(seed), case.dense()
        w = random.standard_normal(case.X.shape[1])
        best = minimising_bias(problem_of(case), case.X @ w)
        value = plain_primal(dense, w, best)
        # A convex function of b: compared at every kink and on both sides of the claimed minimiser.
        kinks = dense.signs - case.X @ w
        others = np.concatenate([kinks, best + np.array([-1e-4, 1e-4, -0.1, 0.1])])
        assert value <= min(plain_primal(dense, w, b) for b in others) + 1e-12 * max(1.0, value)

    check()


@pytest.mark.parametrize("p", [1.0 + 1e-9, 1.001, 1.01, 1.1, 1.9, 1.999])
def test_exponents_close_to_one_keep_a_finite_bound(p):
    random = np.random.default_rng(1)
    X, labels = random.standard_normal((30, 4)), np.arange(30) % 2
    data = as_rows(X)
    setting = resolve_spec(
        n_rows=30, n_features=4, n_classes=2, sparse=False, task="binary", strategy="ovr", loss="hinge_p",
        p=p, C=0.7, c_scale="sum", bias="regularized", bias_scale=1.0, epsilon=0.1,
    )  # fmt: skip
    problem = build_problem(
        setting, data, read_labels(labels, "binary"), sample_weight=None, class_weight=None, groups=None
    )
    w = 0.1 * random.standard_normal(4)
    certificate = certify(problem, w, 0.0, None)
    assert certificate.gap >= 0.0
    # Strong convexity: the gap of the margins' own dual point is half the squared gradient.
    signs = np.where(labels == 1, 1.0, -1.0)
    slope = p * 0.7 * np.maximum(0.0, 1.0 - signs * (X @ w)) ** (p - 1.0)
    gradient = np.append(w - X.T @ (slope * signs), -(slope @ signs))
    expected = min(0.5 * gradient @ gradient, certificate.primal - certificate.dual_bound)
    assert certificate.gap == pytest.approx(expected, rel=1e-6)
    beyond = certify(problem, w, 0.0, np.full(30, 10.0))
    assert 0.0 <= beyond.dual_bound < certificate.primal


def test_a_flat_stretch_gives_its_middle():
    data = as_rows(np.zeros((2, 1)))
    setting = resolve_spec(
        n_rows=2, n_features=1, n_classes=2, sparse=False, task="binary", strategy="ovr", loss="hinge",
        p=None, C=1.0, c_scale="sum", bias="free", bias_scale=1.0, epsilon=0.1,
    )  # fmt: skip
    problem = build_problem(
        setting, data, read_labels([0, 1], "binary"), sample_weight=None, class_weight=None, groups=None
    )
    assert minimising_bias(problem, np.zeros(2)) == 0.0
    assert minimising_bias(problem, np.array([0.5, 0.5])) == -0.5


@pytest.mark.parametrize("bias", ["none", "regularized", "free"])
def test_the_multiclass_gap_is_primal_minus_dual_at_any_point(bias):
    @examples(40)
    @given(case=cases(task="multiclass", loss="hinge", bias=bias, c_scale="mean"), seed=st.integers(0, 2**32 - 1))
    def check(case, seed):
        random, dense, problem = np.random.default_rng(seed), case.dense(), problem_of(case)
        n, k = case.labels.size, dense.n_classes
        coef = random.standard_normal((k, case.X.shape[1]))
        intercept = random.standard_normal(k) * (bias != "none")
        shares = random.random((n, k)) * (random.random((n, k)) < 0.5)
        shares[np.arange(n), dense.codes] = 0.0
        shares *= (dense.costs / np.maximum(shares.sum(axis=1), 1e-300) * random.random(n))[:, None]
        if bias == "free":
            shares = dense.balanced(shares)
        alpha = -shares
        alpha[np.arange(n), dense.codes] = shares.sum(axis=1)
        certificate = certify_multiclass(problem, coef, intercept, alpha)
        primal = dense.primal(coef, intercept)
        tolerance = 1e-9 * max(1.0, primal)
        assert abs(certificate.primal - primal) <= tolerance
        assert abs(certificate.dual_bound - best_multiple(lambda t: dense.dual(t * shares))) <= tolerance
        wild = certify_multiclass(problem, coef, intercept, 5.0 * random.standard_normal((n, k)) * dense.costs[:, None])
        from_margins = certify_multiclass(problem, 0.1 * coef, 0.1 * intercept, None)
        optimum = dense.interval().high
        assert max(wild.dual_bound, from_margins.dual_bound) <= optimum + 1e-9 * max(optimum, dense.total_cost)

    check()


@examples(60)
@given(
    case=cases(task="multiclass", loss="hinge", bias="free", c_scale="sum"),
    seed=st.integers(0, 2**32 - 1),
    imbalance=st.sampled_from([1.0, 1e-3, 1e-8]),
)
def test_shares_are_balanced_by_taking_back_no_more_than_they_are_out_of_balance(case, seed, imbalance):
    random, dense, problem = np.random.default_rng(seed), case.dense(), problem_of(case)
    n, k = case.labels.size, dense.n_classes
    shares = random.random((n, k)) * (random.random((n, k)) < 0.5) * dense.costs[:, None] / k
    shares[np.arange(n), dense.codes] = 0.0
    shares = (1.0 - imbalance) * dense.balanced(shares) + imbalance * shares
    surplus = np.array([shares[dense.codes == m].sum() - shares[:, m].sum() for m in range(k)])
    violations = random.standard_normal((n, k))
    left = balanced_shares(problem, shares, violations)
    assert ((left >= 0.0) & (left <= shares)).all()
    missing = [left[dense.codes == m].sum() - left[:, m].sum() for m in range(k)]
    assert not np.any(missing)
    # A path has at most k - 1 steps, on each of which as much is taken back as at its ends.
    assert (shares - left).sum() <= 0.5 * (k - 1) * np.abs(surplus).sum() + 1e-12 * shares.sum()


def test_what_is_taken_back_is_where_it_costs_least():
    labels = ["a", "a", "b", "b"]
    setting = resolve_spec(
        n_rows=4, n_features=1, n_classes=2, sparse=False, task="multiclass", strategy="crammer_singer",
        loss="hinge", p=None, C=1.0, c_scale="sum", bias="free", bias_scale=1.0, epsilon=0.1,
    )  # fmt: skip
    problem = build_problem(
        setting, as_rows(np.zeros((4, 1))), read_labels(labels, "multiclass"), sample_weight=None, class_weight=None
    )
    shares = np.array([[0.0, 1.0], [0.0, 0.5], [0.25, 0.0], [0.5, 0.0]])
    violations = np.array([[0.0, 2.0], [0.0, 0.5], [1.0, 0.0], [1.0, 0.0]])
    assert balanced_shares(problem, shares, violations).tolist() == [[0.0, 0.75], [0.0, 0.0], [0.25, 0.0], [0.5, 0.0]]
    with np.errstate(invalid="ignore"):
        wild = certify_multiclass(problem, np.zeros((2, 1)), np.zeros(2), np.where(shares > 0.9, -np.inf, -shares))
    assert wild.dual_bound == 0.0


@pytest.mark.parametrize("c_scale", ["sum", "mean"])
def test_ordinal_planes_are_the_pairs_that_they_count(c_scale):
    @examples(60)
    @given(case=cases(task="ordinal", loss="pair_hinge", bias="none", c_scale=c_scale), seed=st.integers(0, 2**32 - 1))
    def check(case, seed):
        random, dense, problem = np.random.default_rng(seed), case.dense(), problem_of(case)
        w = np.round(random.standard_normal(case.X.shape[1]), random.integers(0, 3))  # ties are common
        high, low, costs = dense.pairs
        scores = np.empty(case.labels.size)
        problem.data.margins(w, scores)
        costs = np.where(scores[low] > scores[high] - 1.0, costs, 0.0)
        v = np.bincount(high, costs, scores.size) - np.bincount(low, costs, scores.size)
        beta, counts, _, loss = plane_at(problem, w)
        scale = max(1.0, dense.total_cost) * max(1.0, np.abs(scores).max())
        assert problem.total_cost == pytest.approx(dense.total_cost, rel=1e-12)
        assert beta == pytest.approx(costs.sum(), rel=1e-12, abs=1e-12)
        assert np.abs(counts - v).max() <= 1e-12 * scale
        assert abs(loss - (dense.primal(w, 0.0) - 0.5 * w @ w)) <= 1e-11 * scale
        certificate = certify_ordinal(problem, w, Planes(random.standard_normal((3, w.size)), 2.0 * random.random(3)))
        assert certificate.primal == pytest.approx(dense.primal(w, 0.0), rel=1e-9, abs=1e-9)
        optimum = dense.interval().high
        assert certificate.dual_bound <= optimum + 1e-9 * max(optimum, dense.total_cost)

    check()


def test_ordinal_thresholds_have_the_fewest_rank_errors():
    @examples(40)
    @given(case=cases(task="ordinal", loss="pair_hinge", bias="none", c_scale="sum"), seed=st.integers(0, 2**32 - 1))
    def check(case, seed):
        random, problem = np.random.default_rng(seed), problem_of(case)
        w = np.round(random.standard_normal(case.X.shape[1]), 1)
        scores = np.empty(case.labels.size)
        problem.data.margins(w, scores)
        thresholds = rank_thresholds(problem, w)
        assert (np.diff(thresholds) >= 0.0).all()
        errors = np.abs(np.searchsorted(thresholds, scores, side="left") - problem.ranks) @ problem.costs
        cuts = np.concatenate([[scores.min() - 1.0], np.unique(scores)])
        fewest = sum(
            min(((scores > cut) != (problem.ranks > k)) @ problem.costs for cut in cuts) for k in range(thresholds.size)
        )
        assert errors == pytest.approx(fewest, abs=1e-9)

    check()


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_the_regression_gap_is_primal_minus_dual_at_any_point(loss, bias):
    @examples(40)
    @given(case=cases(task="regression", loss=loss, bias=bias, c_scale="sum"), seed=st.integers(0, 2**32 - 1))
    def check(case, seed):
        random, dense, problem = np.random.default_rng(seed), case.dense(), problem_of(case)
        w, b = random.standard_normal(case.X.shape[1]), random.standard_normal() * (bias != "none")
        beta = random.uniform(-1.0, 1.0, dense.costs.size) * dense.costs
        certificate = certify_regression(problem, w, b, beta)
        if bias == "free":
            up, down = beta[beta > 0.0].sum(), -beta[beta < 0.0].sum()
            beta[beta > 0.0 if up > down else beta < 0.0] *= min(up, down) / max(up, down) if up + down > 0.0 else 0.0
        primal = dense.primal(w, b)
        tolerance = 1e-9 * max(1.0, primal)
        assert abs(certificate.primal - primal) <= tolerance
        assert abs(certificate.dual_bound - best_multiple(lambda t: dense.dual(t * beta))) <= tolerance
        interval = dense.interval()
        scale = max(interval.high, dense.total_cost)
        for other in (5.0 * random.standard_normal(dense.costs.size), None):
            assert certify_regression(problem, w, b, other).dual_bound <= interval.high + 1e-9 * scale
        assert interval.high - interval.low <= 1e-7 * scale

    check()


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_the_free_bias_of_targets_is_minimised_exactly(loss):
    @examples(60)
    @given(
        case=cases(task="regression", loss=loss, bias="free", c_scale="sum"),
        seed=st.integers(0, 2**32 - 1),
        near=st.sampled_from([0.0, 1e6, -3.0]),
    )
    def check(case, seed, near):
        random, dense = np.random.default_rng(seed), case.dense()
        w = random.standard_normal(case.X.shape[1])
        best = minimising_bias(problem_of(case), case.X @ w, near)
        value = dense.primal(w, best)
        errors = case.labels - case.X @ w
        kinks = np.concatenate([errors - dense.epsilon, errors + dense.epsilon])
        others = np.concatenate([kinks, best + np.array([-1e-4, 1e-4, -0.1, 0.1])])
        assert value <= min(dense.primal(w, b) for b in others) + 1e-12 * max(1.0, value)

    check()


def test_a_dual_point_of_targets_of_other_rows_is_refused():
    case = Case(np.eye(3), np.arange(3.0), {**REGRESSION, "bias": "free"})
    for size in (0, 1, 2, 4):
        with pytest.raises(ValueError, match="3 rows"):
            certify_regression(problem_of(case), np.zeros(3), 0.0, np.zeros(size))


def test_rows_at_the_edge_of_the_tube_balance_those_beyond_it():
    """Weights alone prove their own optimality: with b = 0.5 one error is beyond the tube, two are at its edge."""
    case = Case(np.zeros((4, 1)), np.array([1.0, 0.0, 0.0, 4.0]), {**REGRESSION, "bias": "free", "epsilon": 0.5})
    certificate = certify_regression(problem_of(case), np.zeros(1), 0.5, None)
    assert certificate.primal == pytest.approx(3.0, rel=1e-13)
    assert 0.0 <= certificate.gap <= 1e-14
