"""The logistic loss against exact arithmetic: values, conjugate, and sums whose bounds hold."""

import numpy as np
import pytest
from flint import arb

from solvers.data.rows import read_only
from solvers.linalg.rounding import SUM_ERROR
from solvers.problem.losses import logistic
from solvers.problem.losses.logistic import DOUBT, Logistic
from solvers.problem.losses.loss import MarginLoss, SlackError, SlackRows
from tests.support.exact import added, as_ball, entropy, exact, softplus

LOSS = Logistic()
SLACKS = np.array([0.0, 1e-300, -1e-8, 0.3, -0.7, 5.0, -37.0, 40.0, -745.2, 800.0, -1e6])


def test_values_are_right_to_the_last_digits_over_the_whole_range():
    values = LOSS.value(SLACKS, np.full(SLACKS.size, 3.0))
    for slack, value in zip(SLACKS, values, strict=True):
        wanted = float((3 * softplus(exact(slack))).mid())
        assert value == pytest.approx(wanted, rel=1e-14, abs=1e-300)


def test_the_dual_point_is_the_derivative_of_the_loss():
    costs, step = np.full(5, 2.0), 1e-6
    slacks = np.array([-6.0, -0.5, 0.0, 0.5, 6.0])
    low, high = LOSS.dual_bounds(slacks, costs, 1e-9)
    assert np.array_equal(low, high)
    rise = (LOSS.value(slacks + step, costs) - LOSS.value(slacks - step, costs)) / (2.0 * step)
    assert low == pytest.approx(rise, rel=1e-7)
    bend = (LOSS.derivative(slacks + step, costs) - LOSS.derivative(slacks - step, costs)) / (2.0 * step)
    assert LOSS.curvature(slacks, costs) == pytest.approx(bend, rel=1e-7)
    far = np.array([-800.0, 800.0])
    assert LOSS.derivative(far, costs[:2]).tolist() == [0.0, 2.0]
    assert LOSS.curvature(far, costs[:2]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("share", [1e-280, 1e-17, 0.25, 0.5, 0.75, 1.0 - 2.0**-53])
def test_the_conjugate_is_the_negative_entropy_to_a_few_units(share):
    costs = np.array([7.0])
    alpha = share * costs
    found = LOSS.conjugate(alpha, costs)[0]
    wanted = -7 * entropy([exact(alpha[0]) / exact(7.0)])
    assert abs(as_ball(exact(found)) - wanted) <= arb(exact(DOUBT)) * abs(wanted)


def test_a_multiplier_at_either_end_of_its_interval_has_no_entropy():
    assert LOSS.conjugate(np.array([0.0, 4.0, 0.0]), np.array([4.0, 4.0, 0.0])).tolist() == [0.0, 0.0, 0.0]
    assert LOSS.conjugate(np.array([4.0 * 3e-308, 1e-315]), np.array([4.0, 4.0])).tolist() == [0.0, 0.0]
    assert LOSS.dual_top(np.array([2.0, 1e-300, 0.0])).tolist() == [2.0, 0.0, 0.0]


def rows_of(seed, n=300):
    random = np.random.default_rng(seed)
    costs = 10.0 ** random.uniform(-6, 6, n)
    costs[::17] = 0.0
    slacks = random.standard_normal(n) * 10.0 ** random.uniform(-3, 2, n)
    alpha = LOSS.derivative(slacks + 0.3 * random.standard_normal(n) * (random.random(n) < 0.5), costs)
    signed = alpha * random.choice([-1.0, 1.0], n)
    return SlackRows(*(read_only(one) for one in (slacks, signed, costs, random.uniform(0.0, 2.0, n))))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("of_size", [0.0, 1e-9, 1e-3])
def test_the_sums_bound_what_any_slack_within_the_error_gives(seed, of_size):
    rows, error = rows_of(seed), SlackError(of_size, 1e-12, 1e-15, False)
    found = LOSS.row_totals(rows, error)
    off = of_size * rows.sizes + 1e-12 + 1e-15 * np.abs(rows.slacks)
    random = np.random.default_rng(seed)
    more, less = 1.0 + 2.0 * SUM_ERROR, 1.0 - 2.0 * SUM_ERROR
    counted = np.flatnonzero(rows.costs)
    for way in (np.zeros(off.size), np.ones(off.size), -np.ones(off.size), random.uniform(-1.0, 1.0, off.size)):
        moved = rows.slacks + 0.999 * way * off
        losses, terms = [], []
        for i in counted:
            cost, a = exact(rows.costs[i]), exact(abs(rows.signed[i]))
            loss = cost * softplus(exact(moved[i]))
            losses.append(loss)
            terms.append(loss - cost * entropy([a / cost]) - a * exact(moved[i]))
        assert as_ball(added(losses)) <= arb(exact(found.losses_at_most * more))
        assert as_ball(added(losses)) >= arb(exact(found.losses_at_least * less))
        assert as_ball(added(terms)) <= arb(exact(found.terms_at_most * more))
    entropies = added(
        exact(rows.costs[i]) * entropy([exact(abs(rows.signed[i])) / exact(rows.costs[i])]) for i in counted
    )
    assert abs(as_ball(entropies) - arb(exact(found.linear))) <= arb(
        exact(found.linear_error + SUM_ERROR * found.linear)
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_sums_of_any_loss_agree_with_the_kernel(seed):
    """MarginLoss adds up any loss by its value and conjugate; the kernel of logistic is the same and faster."""
    rows = rows_of(seed)
    for are_squares in (False, True):
        error = SlackError(1e-6, 1e-9, 1e-15, are_squares)
        by_kernel, by_arrays = LOSS.row_totals(rows, error), MarginLoss.row_totals(LOSS, rows, error)
        for name, one, other in zip(by_kernel._fields, by_kernel, by_arrays, strict=True):
            rel, floor = (0.5, 1e-6) if name == "linear_error" else (1e-9, 1e-9 * by_kernel.losses)
            assert one == pytest.approx(other, rel=rel, abs=floor), name


@pytest.mark.parametrize("off", [1e-6, 0.1, 0.9, 1.1, 3.0, 40.0])
def test_the_sums_bound_slacks_that_are_far_off(off):
    """The bounds at s + off and s - off come from sigma at s; they hold for any off."""
    rows = rows_of(3)
    found = LOSS.row_totals(rows, SlackError(0.0, off, 0.0, False))
    a = np.abs(rows.signed)
    for slacks in (rows.slacks - off, rows.slacks + off):
        losses = LOSS.value(slacks, rows.costs)
        terms = losses + LOSS.conjugate(a, rows.costs) - a * slacks
        assert found.losses_at_least <= losses.sum() * (1.0 + 1e-12)
        assert losses.sum() <= found.losses_at_most * (1.0 + 1e-12)
        assert terms.sum() <= found.terms_at_most * (1.0 + 1e-12) + 1e-12 * losses.sum()


def test_a_slack_that_is_not_a_number_is_seen_in_the_sum():
    rows = rows_of(0)
    slacks = rows.slacks.copy()
    slacks[17] = np.nan
    broken = rows._replace(slacks=read_only(slacks))
    assert np.isnan(LOSS.row_totals(broken, SlackError(0.0, 0.0, 0.0, False)).losses)


@pytest.fixture
def coarse(monkeypatch):
    """The kernels in Python, with error terms that are large enough to be seen."""
    for name in ("_take_functions", "_form_terms", "_sum_rows"):
        kernel = getattr(logistic, name)
        monkeypatch.setattr(logistic, name, getattr(kernel, "py_func", kernel))
    monkeypatch.setattr(logistic, "DOUBT", 2.0**-5)
    monkeypatch.setattr(logistic, "LEAST", 2.0**-9)
    monkeypatch.setattr(logistic, "CUT_OFF", 2.0**-10)


@pytest.mark.parametrize("are_squares", [False, True])
@pytest.mark.usefixtures("coarse")
def test_every_error_term_of_the_sums_is_there(are_squares):
    rows, error = rows_of(5, n=300), SlackError(0.03125, 0.25, 0.0625, are_squares)
    random = np.random.default_rng(5)
    costs = read_only(random.uniform(0.5, 3.0, 300))
    rows = rows._replace(costs=costs, signed=read_only(random.uniform(-1.0, 1.0, 300) * costs))
    found = LOSS.row_totals(rows, error)
    s, C, a = rows.slacks, rows.costs, np.abs(rows.signed)
    sizes = np.sqrt(rows.sizes) if are_squares else rows.sizes
    off, least = 0.03125 * sizes + 0.25 + 0.0625 * np.abs(s), 2.0**-9 * (1.0 + C) + 2.0**-10 * C
    assert off.min() < 1.0 < off.max()
    entropy_of_row = -LOSS.conjugate(a, C)
    loss, slope, doubt = C * np.logaddexp(0.0, s), 1.0 / (1.0 + np.exp(-s)), 2.0**-5
    steepest = np.where(off <= 1.0, np.minimum(1.0, (1.0 + 2.0 * off) * slope), 1.0)
    pulled = np.where(s >= 0.0, (C - a) * s, -a * s) + C * np.log1p(np.exp(-np.abs(s)))
    term = np.maximum(pulled - entropy_of_row, 0.0)
    moved = off * (np.abs(C * slope - a) + C * (0.25 * off + doubt)) * (1.0 + doubt)
    wanted = {
        "losses": loss.sum(),
        "losses_at_most": ((loss + C * off * steepest) * (1.0 + doubt) + 4.0 * least).sum(),
        "losses_at_least": np.maximum(loss * (1.0 - doubt) - C * off * slope * (1.0 + doubt) - 4.0 * least, 0.0).sum(),
        "terms": term.sum(),
        "terms_at_most": (term + moved + doubt * (pulled + entropy_of_row) + least).sum(),
        "conjugates": 0.0,
        "linear": entropy_of_row.sum(),
        "linear_error": (doubt * entropy_of_row + 4.0 * least).sum(),
        "mass": a.sum(),
        "reach": (a * sizes).sum(),
    }
    for name, value in wanted.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-12), name


def test_rows_without_cost_add_nothing_and_all_blocks_are_summed():
    for n in (1, 256, 257, 600):
        rows = rows_of(n, n=n)
        everything = LOSS.row_totals(rows, SlackError(0.0, 0.0, 0.0, False))
        assert everything.losses == pytest.approx(LOSS.value(rows.slacks, rows.costs).sum(), rel=1e-12)
        none = rows._replace(costs=read_only(np.zeros(n)), signed=read_only(np.zeros(n)))
        none = none._replace(sizes=read_only(np.full(n, np.inf)))  # the squares of its entries overflow
        assert LOSS.row_totals(none, SlackError(0.1, 0.1, 0.1, True)) == (0.0,) * 10
