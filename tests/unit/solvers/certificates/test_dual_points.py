"""Dual points: moved into their domain exactly, balanced exactly, and derived from the margins."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from solvers.certificates import binary, regression
from solvers.certificates.balance import balanced, on_grid
from solvers.certificates.circulation import _choose_paths, balanced_shares
from solvers.data.rows import read_only
from solvers.problem.losses.epsilon_insensitive import EpsilonInsensitive, SquaredEpsilonInsensitive
from solvers.problem.losses.hinge import PowerLoss
from tests.support.exact import exact, exact_array


def problem_of(p=1.0, bias="none", **fields):
    """What the functions here read of a problem."""
    arrays = {name: read_only(values) for name, values in fields.items()}
    of_targets = SquaredEpsilonInsensitive() if p == 2.0 else EpsilonInsensitive()
    loss = PowerLoss(p) if "signs" in fields else of_targets
    return SimpleNamespace(spec=SimpleNamespace(bias=bias, epsilon=0.5), loss=loss, **arrays)


COSTS = np.array([1.0, 2.0, 0.0, 4.0, 8.0])
SIGNS = np.array([1.0, -1.0, 1.0, 1.0, -1.0])


def test_multipliers_of_two_classes_are_moved_into_their_domain():
    given = np.array([0.5, 3.0, 1.0, -1.0, 8.0])
    capped = problem_of(costs=COSTS, signs=SIGNS)
    assert binary._signed_dual_point(capped, given).tolist() == [0.5, -2.0, 0.0, 0.0, -8.0]
    assert binary.feasible_dual_point(capped, given).tolist() == [0.5, 2.0, 0.0, 0.0, 8.0]
    open_ended = problem_of(2.0, costs=COSTS, signs=SIGNS)
    assert binary._signed_dual_point(open_ended, given).tolist() == [0.5, -3.0, 0.0, 0.0, -8.0]
    free = problem_of(bias="free", costs=COSTS, signs=SIGNS)
    signed = binary._signed_dual_point(free, given)
    assert signed.sum() == 0.0
    assert signed == pytest.approx(np.array([0.5, -0.1, 0.0, 0.0, -0.4]), rel=1e-12)
    with pytest.raises(ValueError, match=r"shape \(4,\) for 5 rows"):
        binary._signed_dual_point(capped, given[:4])


def test_multipliers_of_targets_are_moved_into_their_domain():
    given = np.array([-3.0, 1.5, 1.0, 5.0, -0.25])
    assert regression._feasible(problem_of(costs=COSTS), given).tolist() == [-1.0, 1.5, 0.0, 4.0, -0.25]
    assert regression._feasible(problem_of(2.0, costs=COSTS), given).tolist() == [-3.0, 1.5, 0.0, 5.0, -0.25]
    assert regression._feasible(problem_of(bias="free", costs=COSTS), given).sum() == 0.0
    below = np.array([-9.0, -0.5, 0.0, -9.0, -0.25])
    assert regression._feasible(problem_of(costs=COSTS), below).tolist() == [-1.0, -0.5, 0.0, -4.0, -0.25]
    with pytest.raises(ValueError, match=r"shape \(6,\) for 5 rows"):
        regression._feasible(problem_of(costs=COSTS), np.zeros(6))


def test_the_optimality_conditions_of_two_classes_suggest_a_dual_point():
    scores, b = np.array([0.5, 0.75, 9.0, 1.0 - 0.25, -1.25]), 0.25  # slacks 0.25, 2, -8.25, 0 and 0
    on_margin = np.array([0.75, 0.75, 9.0, 0.75, -1.25])
    slack = 1.0 - SIGNS * (scores + b)
    assert slack.tolist() == [0.25, 2.0, -8.25, 0.0, 0.0]
    squared = binary._dual_point_of(problem_of(2.0, costs=COSTS, signs=SIGNS), scores, b)
    assert squared.tolist() == [0.5, 8.0, 0.0, 0.0, 0.0]
    power = binary._dual_point_of(problem_of(1.5, costs=COSTS, signs=SIGNS), scores, b)
    assert power == pytest.approx(np.array([0.75, 3.0 * math.sqrt(2.0), 0.0, 0.0, 0.0]))
    plain = binary._dual_point_of(problem_of(1.0, costs=COSTS, signs=SIGNS), scores, b)
    assert plain.tolist() == [1.0, 2.0, 0.0, 2.0, 4.0]  # half the cost on the margin
    # A free bias: 1 is out on one side and 2 on the other, so rows on the margin of the lighter side, 4 in all, take 1.
    free = binary._dual_point_of(problem_of(1.0, "free", costs=COSTS, signs=SIGNS), scores, b)
    assert free.tolist() == [1.0, 2.0, 0.0, 1.0, 0.0]
    free = binary._dual_point_of(problem_of(1.0, "free", costs=COSTS, signs=SIGNS), on_margin, b)
    assert free.tolist() == [0.4, 2.0, 0.0, 1.6, 0.0]
    heavy = np.array([1.0, 20.0, 0.0, 4.0, 8.0])  # more than the rows on the margin can balance
    free = binary._dual_point_of(problem_of(1.0, "free", costs=heavy, signs=SIGNS), scores, b)
    assert free.tolist() == [1.0, 20.0, 0.0, 4.0, 0.0]
    # Within rounding of the margin is on it: 1e-9 of the largest slack, at least of 1.
    near = np.array([0.75 - 0.95e-9, 0.75 - 1.05e-9, 0.0, 0.75 + 1.05e-9, 0.0])
    signs = np.ones(5)
    found = binary._dual_point_of(problem_of(1.0, costs=np.ones(5), signs=signs), near, b)
    assert found.tolist() == [0.5, 1.0, 1.0, 0.0, 1.0]
    far = near.copy()
    far[4] = -99.0  # a slack of 99.75: within 1e-7 is on the margin now
    found = binary._dual_point_of(problem_of(1.0, costs=np.ones(5), signs=signs), far, b)
    assert found.tolist() == [0.5, 0.5, 1.0, 0.5, 1.0]


def test_the_optimality_conditions_of_targets_suggest_a_dual_point():
    errors, costs = np.array([0.25, 2.0, -3.0, 0.5, -0.5]), np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    squared = regression._dual_point_of(problem_of(2.0, costs=costs), errors)
    assert squared.tolist() == [0.0, 6.0, -20.0, 0.0, 0.0]
    plain = regression._dual_point_of(problem_of(1.0, costs=costs), errors)
    assert plain.tolist() == [0.0, 2.0, -4.0, 0.0, 0.0]
    free = regression._dual_point_of(problem_of(1.0, "free", costs=costs), errors)
    assert free.tolist() == [0.0, 2.0, -4.0, 2.0, 0.0]  # the upper edge takes 2 of its 8
    free = regression._dual_point_of(problem_of(1.0, "free", costs=costs), -errors)
    assert free.tolist() == [0.0, -2.0, 4.0, -2.0, 0.0]
    light = np.array([1.0, 2.0, 40.0, 8.0, 16.0])
    free = regression._dual_point_of(problem_of(1.0, "free", costs=light), errors)
    assert free.tolist() == [0.0, 2.0, -40.0, 8.0, 0.0]
    # Within 1e-9 of the largest error is at the edge.
    near = np.array([0.5 + 2.9e-9, 0.5 + 3.1e-9, 0.5 - 2.9e-9, 0.5 - 3.1e-9, -3.0])
    assert regression._dual_point_of(problem_of(1.0, costs=costs), near).tolist() == [0.0, 2.0, 0.0, 0.0, -16.0]
    free = regression._dual_point_of(problem_of(1.0, "free", costs=costs), near)
    assert free.tolist() == [1.0, 2.0, 4.0, 0.0, -16.0]
    assert regression._dual_point_of(problem_of(1.0, "free", costs=costs), np.zeros(5)).tolist() == [0.0] * 5


@pytest.mark.parametrize("scale", [1.0, 1e300, 1e-300, 5e-324, 2.0**-1074 * 2**30])
@pytest.mark.parametrize("seed", range(6))
def test_sums_on_the_grid_are_exact_in_any_order(seed, scale):
    random = np.random.default_rng(seed)
    values = random.standard_normal(60) * 10.0 ** random.uniform(-9, 0, 60) * scale
    found = on_grid(values)
    assert (np.abs(found) <= np.abs(values)).all()
    assert (np.sign(found) * np.sign(values) >= 0.0).all()
    for order in (slice(None), slice(None, None, -1)):
        assert exact(float(np.cumsum(found[order])[-1])) == sum(exact_array(found))
    total = float(np.abs(values).sum())
    assert np.abs(found - values).max() <= max(2.0**-50 * total, 0.0)
    if total > 1e-290:
        assert np.abs(found - values).max() >= 2.0**-57 * total, "a finer grid would not be exact"
    assert not on_grid(np.array([1.0, np.inf])).any()
    assert on_grid(np.array([3.0, 5e-324])).tolist() == [3.0, 0.0]


def test_the_heavier_side_gives_and_the_lighter_keeps():
    assert balanced(np.array([3.0, 1.0, -2.0])).tolist() == [1.5, 0.5, -2.0]
    assert balanced(np.array([-3.0, -1.0, 2.0])).tolist() == [-1.5, -0.5, 2.0]
    assert balanced(np.array([3.0, -3.0])).tolist() == [3.0, -3.0]
    for one_sided in ([1.0, 2.0], [-1.0, 0.0], [0.0, 0.0], [np.inf, -1.0], [1.0, np.nan]):
        assert balanced(np.array(one_sided)).tolist() == [0.0, 0.0]
    third = balanced(np.array([1.0, 1.0, 1.0, -1.0]))
    assert sum(exact_array(third)) == 0
    assert third == pytest.approx(np.array([1.0, 1.0, 1.0, -3.0]) / 3.0)
    given = np.array([3.0, 1.0, -2.0])
    balanced(given)
    assert given.tolist() == [3.0, 1.0, -2.0]


def shares_problem(codes, k):
    return SimpleNamespace(codes=read_only(np.array(codes, dtype=np.int32)), classes=np.arange(k))


def given_and_taken(problem, shares):
    k = problem.classes.size
    return [shares[problem.codes == m].sum() - shares[:, m].sum() for m in range(k)]


def test_shares_that_are_a_circulation_stay():
    problem = shares_problem([0, 1, 2], 3)
    shares = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert np.array_equal(balanced_shares(problem, shares, np.zeros((3, 3))), shares)


def test_the_cheapest_path_is_taken_back():
    """0 gives 1 to 2, directly at a price of 3 or through 1 at 1 + 1: the path through 1 is cheaper."""
    problem = shares_problem([0, 0, 1], 3)
    shares = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    violations = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 1.0]])
    # 0 has given 2 and 2 has taken 2: both paths are needed, and nothing is left.
    assert not balanced_shares(problem, shares, violations).any()
    problem = shares_problem([0, 0, 1, 2], 3)
    shares = np.vstack([shares, [1.0, 0.0, 0.0]])
    violations = np.vstack([violations, [0.0, 0.0, 0.0]])
    left = balanced_shares(problem, shares, violations)
    assert left.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    violations[0, 1] = violations[2, 2] = 1.6
    left = balanced_shares(problem, shares, violations)
    assert left.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    # Equally cheap: the shorter one. A negative violation is a price of 0.
    violations[0, 1] = violations[2, 2] = 1.5
    assert balanced_shares(problem, shares, violations)[1].tolist() == [0.0, 0.0, 0.0]
    violations[0, 1], violations[2, 2], violations[1, 2] = -5.0, -5.0, -1.0
    assert balanced_shares(problem, shares, violations)[1].tolist() == [0.0, 0.0, 0.0]


def test_the_rows_of_the_least_violation_are_taken_back_first():
    problem = shares_problem([0, 0, 0, 1], 2)
    shares = np.array([[0.0, 1.0], [0.0, 0.5], [0.0, 2.0], [1.25, 0.0]])
    violations = np.array([[0.0, 2.0], [0.0, 0.5], [0.0, 1.0], [1.0, 0.0]])
    left = balanced_shares(problem, shares, violations)
    assert left.tolist() == [[0.0, 1.0], [0.0, 0.0], [0.0, 0.25], [1.25, 0.0]]


@pytest.mark.parametrize("seed", range(25))
def test_flows_between_many_classes_are_balanced_exactly(seed):
    random = np.random.default_rng(seed)
    k, n = int(random.integers(2, 7)), 40
    problem = shares_problem(random.integers(0, k, n), k)
    shares = random.random((n, k)) * (random.random((n, k)) < 0.3) * 10.0 ** random.uniform(-6, 3)
    shares[np.arange(n), problem.codes] = 0.0
    violations = random.standard_normal((n, k))
    left = balanced_shares(problem, shares, violations)
    assert ((left >= 0.0) & (left <= shares)).all()
    assert not np.any(given_and_taken(problem, left))
    surplus = np.array(given_and_taken(problem, shares))
    assert (shares - left).sum() <= 0.5 * (k - 1) * np.abs(surplus).sum() + 1e-12 * shares.sum()


@pytest.mark.parametrize("seed", range(25))
def test_paths_use_up_what_they_take_back(seed):
    """In small whole numbers, so that every sum is exact."""
    random = np.random.default_rng(seed)
    k = int(random.integers(2, 7))
    flow = random.integers(0, 6, (k, k)).astype(float) * (random.random((k, k)) < 0.6)
    np.fill_diagonal(flow, 0.0)
    price, back = random.random((k, k)) + 0.001, np.zeros((k, k))
    before, surplus = flow.copy(), flow.sum(axis=1) - flow.sum(axis=0)
    out_of_balance = np.abs(surplus).sum()
    _choose_paths(flow, price, surplus, back)
    assert not surplus.any()
    assert np.array_equal(flow, before - back)
    assert (flow >= 0.0).all()
    assert (back >= 0.0).all()
    assert np.array_equal(flow.sum(axis=1), flow.sum(axis=0))
    assert 0.5 * out_of_balance <= back.sum() <= 0.5 * (k - 1) * out_of_balance
