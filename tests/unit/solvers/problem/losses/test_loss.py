"""Losses as objects: found by name, right in every figure, and summed with every error term."""

import numpy as np
import pytest

from solvers.data.rows import read_only
from solvers.linalg.rounding import LEAST, UNIT
from solvers.problem.losses import losses_of, registered
from solvers.problem.losses.epsilon_insensitive import EpsilonInsensitive, SquaredEpsilonInsensitive
from solvers.problem.losses.hinge import PowerLoss
from solvers.problem.losses.loss import MarginLoss, SlackError, SlackRows

SLACKS = np.array([-2.0, 0.0, 0.5, 4.0])
COSTS = np.array([1.0, 2.0, 3.0, 0.5])


def test_losses_are_found_by_task_and_the_default_comes_first():
    assert losses_of("binary") == ("hinge", "squared_hinge", "hinge_p", "logistic")
    assert losses_of("multiclass") == losses_of("binary")
    assert losses_of("ordinal") == ("pair_hinge",)
    assert losses_of("regression") == ("epsilon_insensitive", "squared_epsilon_insensitive")
    assert [name for name, loss in registered().items() if loss.takes_p] == ["hinge_p"]
    assert all(loss.description for loss in registered().values())


@pytest.mark.parametrize(
    ("p", "values", "derivatives"),
    [
        (1.0, [0.0, 0.0, 1.5, 2.0], [0.0, 1.0, 3.0, 0.5]),
        (2.0, [0.0, 0.0, 0.75, 8.0], [0.0, 0.0, 3.0, 4.0]),
        (1.5, [0.0, 0.0, 3.0 * 0.5**1.5, 4.0], [0.0, 0.0, 4.5 * 0.5**0.5, 1.5]),
    ],
)
def test_hinge_losses_by_hand(p, values, derivatives):
    loss = PowerLoss(p)
    assert loss.value(SLACKS, COSTS) == pytest.approx(np.array(values))
    assert loss.derivative(SLACKS, COSTS) == pytest.approx(np.array(derivatives))
    assert (loss.is_squared, loss.is_capped) == (p == 2.0, p == 1.0)
    assert loss.is_piecewise_linear == (p == 1.0)
    assert loss.divides_by_cost == (p > 1.0)
    assert loss.has_quadratic_dual == (p != 1.5)


def test_the_derivatives_of_hinge_at_its_kink_are_an_interval():
    low, high = PowerLoss(1.0).dual_bounds(np.array([-0.2, -0.1, 0.0, 0.1, 0.2]), np.full(5, 3.0), 0.1)
    assert low.tolist() == [0.0, 0.0, 0.0, 0.0, 3.0]
    assert high.tolist() == [0.0, 3.0, 3.0, 3.0, 3.0]
    excess = np.array([-0.2, -0.1, 0.1, 0.2])
    low, high = EpsilonInsensitive().dual_bounds(excess, np.full(4, 3.0), 0.1)
    assert (low.tolist(), high.tolist()) == ([0.0, 0.0, 0.0, 3.0], [0.0, 3.0, 3.0, 3.0])
    low, high = SquaredEpsilonInsensitive().dual_bounds(excess, np.full(4, 3.0), 0.1)
    assert low.tolist() == high.tolist() == pytest.approx([0.0, 0.0, 0.6, 1.2])


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_the_conjugate_of_a_hinge_loss_is_the_largest_difference(p):
    """sup over s of a s - C max(0, s)^p, on a fine grid."""
    loss, s = PowerLoss(p), np.linspace(0.0, 30.0, 300_001)
    alpha = np.array([0.3, 0.8])
    costs = np.array([1.0, 2.0])
    wanted = [(a * s - loss.value(s, np.full(s.size, C))).max() for a, C in zip(alpha, costs, strict=True)]
    assert loss.conjugate(alpha, costs) == pytest.approx(np.array(wanted), abs=1e-6)
    assert loss.conjugate(np.zeros(2), np.array([0.0, 1.0])).tolist() == [0.0, 0.0]
    if loss.has_quadratic_dual:
        assert loss.conjugate(alpha, costs) == pytest.approx(0.5 * loss.dual_diagonal(costs) * alpha**2)
    assert loss.dual_diagonal(np.zeros(1)).tolist() == [0.0]


def test_only_squared_hinge_has_a_second_derivative():
    assert PowerLoss(2.0).curvature(SLACKS, COSTS).tolist() == [0.0, 0.0, 6.0, 1.0]
    assert PowerLoss(1.0).curvature(SLACKS, COSTS) is None
    assert PowerLoss(1.5).curvature(SLACKS, COSTS) is None


def test_the_largest_multiplier_of_a_row_depends_on_its_cost():
    costs = np.array([0.0, 1e-300, 2.0])
    assert PowerLoss(1.0).dual_top(costs).tolist() == [0.0, 1e-300, 2.0]
    assert PowerLoss(2.0).dual_top(costs).tolist() == [0.0, 0.0, np.inf]
    assert SquaredEpsilonInsensitive().dual_top(costs).tolist() == [0.0, 0.0, np.inf]


class Huber(MarginLoss):
    """The hinge with a rounded kink: s^2 / 2 up to 1, then s - 1/2. Said to be inexact, so that error terms show."""

    name = "huber"
    margin = 2.0
    relative_error = 0.125

    def value(self, slacks, costs):
        over = np.maximum(slacks, 0.0)
        return costs * np.where(over < 1.0, 0.5 * over * over, over - 0.5)

    def dual_bounds(self, slacks, costs, rounding):
        alpha = costs * np.clip(slacks, 0.0, 1.0)
        return alpha, alpha

    def conjugate(self, alpha, costs):
        return 0.5 * alpha * alpha / costs


@pytest.mark.parametrize("are_squares", [False, True])
def test_the_sums_of_a_loss_without_a_kernel_have_every_error_term(are_squares):
    loss, random = Huber(), np.random.default_rng(2)
    n = 40
    slacks, costs, sizes = random.standard_normal(n), random.uniform(0.5, 2.0, n), random.uniform(0.1, 3.0, n)
    alpha = random.random(n) * costs
    signed = alpha * random.choice([-1.0, 1.0], n)
    given = sizes * sizes if are_squares else sizes
    found = loss.row_totals(
        SlackRows(*(read_only(one) for one in (slacks, signed, costs, given))),
        SlackError(0.03125, 0.25, 0.0625, are_squares),
    )
    off = 0.03125 * sizes + 0.25 + 0.0625 * np.abs(slacks)
    low, high, conjugate, doubt = slacks - off, slacks + off, loss.conjugate(alpha, costs), 0.125 + 16.0 * UNIT

    def term(s):
        return np.maximum(loss.value(s, costs) + conjugate - alpha * s, 0.0)

    def doubted(s):
        return term(s) + doubt * (loss.value(s, costs) + np.abs(conjugate) + np.abs(alpha * s))

    wanted = {
        "losses": loss.value(slacks, costs).sum(),
        "losses_at_most": (loss.value(high, costs) * (1.0 + doubt)).sum(),
        "losses_at_least": (loss.value(low, costs) * (1.0 - doubt)).sum(),
        "terms": term(slacks).sum(),
        "terms_at_most": np.maximum(doubted(low), doubted(high)).sum(),
        "conjugates": 0.0,
        "linear": (2.0 * alpha - conjugate).sum(),
        "linear_error": (doubt * (2.0 * alpha + np.abs(conjugate))).sum(),
        "mass": alpha.sum(),
        "reach": (alpha * sizes).sum(),
    }
    for name, value in wanted.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-12), name


def test_what_underflow_can_lose_is_added():
    loss, zeros = Huber(), read_only(np.zeros(3))
    costs = read_only(np.array([1.0, 1.0, 2.0]))
    found = loss.row_totals(
        SlackRows(read_only(np.full(3, -1.0)), zeros, costs, zeros), SlackError(0.0, 0.0, 0.0, False)
    )
    lost = LEAST * (2.0 + 2.0 + 3.0)
    assert (found.losses_at_most, found.losses_at_least, found.linear_error) == (lost, -lost, lost)
    assert found.terms_at_most == 4.0 * lost
    assert (found.losses, found.terms, found.linear) == (0.0, 0.0, 0.0)


def test_the_middle_derivative_is_taken_at_a_kink():
    assert PowerLoss(1.0).derivative(np.zeros(1), np.full(1, 3.0)).tolist() == [1.5]
    assert PowerLoss(1.0).curvature(np.zeros(1), np.ones(1)) is None


def test_the_default_error_of_a_loss_is_a_few_roundings():
    assert MarginLoss.relative_error == 64.0 * UNIT


@pytest.mark.parametrize("slack", [np.nan, -np.inf])
@pytest.mark.parametrize("loss", [PowerLoss(1.0), PowerLoss(2.0), PowerLoss(1.5), Huber()])
def test_a_slack_that_is_not_finite_spoils_the_sum_of_the_losses(loss, slack):
    ones = read_only(np.ones(3))
    rows = SlackRows(read_only(np.array([0.5, slack, -1.0])), read_only(np.full(3, 0.25)), ones, ones)
    with np.errstate(invalid="ignore"):
        assert np.isnan(loss.row_totals(rows, SlackError(0.0, 0.0, 0.0, False)).losses)
