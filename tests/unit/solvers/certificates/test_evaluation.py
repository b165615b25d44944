"""From an evaluation to a certificate: which bound is taken, and when products are computed again."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from solvers.certificates import evaluation
from solvers.certificates.evaluation import Evaluation, certificate_of, clear_evaluation
from solvers.linalg.rounding import LEAST
from tests.support.exact import exact

PROBLEM = SimpleNamespace(primal_floor=1e-12, cost_error=0.0)
UNIT = 2.0**-53
CLEAR = Evaluation(
    primal=10.0,
    least_primal=10.0 * (1.0 - 1e-13),
    nominal_primal=10.0,
    gap=3.0,
    nominal_gap=2.9,
    linear=8.0,
    curved=2.0,
    losses_at_most=1.0,
    losses_at_least=1.0,
    dual_weights=np.zeros(1),
    dual_error=0.0,
    multipliers=np.zeros(1),
)


def of(tol=None, problem=PROBLEM, again=None, **fields):
    """The certificate of an evaluation, and whether it was asked for compensated products."""
    asked = []

    def evaluate(is_compensated):
        asked.append(is_compensated)
        return again if is_compensated and again is not None else CLEAR._replace(**fields)

    found = certificate_of(problem, evaluate, "a source", tol)
    assert asked in ([False], [False, True])
    return found, len(asked) == 2


def test_the_bound_is_the_best_of_zero_the_best_multiple_and_primal_less_gap():
    found, _ = of(linear=8.0, curved=2.0)  # t = 1: 8 - 2
    assert (found.primal, found.gap, found.method) == (10.0, 3.0, "a source")
    assert found.dual_bound == pytest.approx(7.0, abs=1e-10)
    assert of(linear=8.0, curved=0.5)[0].dual_bound == pytest.approx(7.5, abs=1e-13)
    assert of(linear=8.0, curved=2.0, gap=math.inf)[0].dual_bound == pytest.approx(6.0, abs=1e-13)
    best = of(linear=8.0, curved=8.0, gap=math.inf)[0]  # t = 1/2: 4 - 2
    assert best.dual_bound == pytest.approx(2.0, abs=1e-13)
    assert best.gap == pytest.approx(8.0, abs=1e-13)
    assert of(linear=8.0, curved=0.0, gap=math.inf)[0].dual_bound == pytest.approx(8.0, abs=1e-13)
    for linear in (0.0, -1.0, math.inf, math.nan):
        nothing = of(linear=linear, curved=2.0, gap=math.inf)[0]
        assert (nothing.dual_bound, nothing.gap, nothing.relative_gap) == (0.0, 10.0, 1.0)
    assert of(linear=8.0, curved=math.inf, gap=math.inf)[0].dual_bound == 0.0
    assert of(linear=8.0, curved=math.nan, gap=math.nan)[0].gap <= 10.0


@pytest.mark.parametrize("seed", range(40))
def test_the_bound_is_not_above_the_exact_one_and_not_far_below(seed):
    random = np.random.default_rng(seed)
    linear, curved = (float(10.0 ** random.uniform(-3, 0)) * 8.0 for _ in range(2))
    t = min(1.0, 0.5 * linear / curved)
    found, _ = of(linear=linear, curved=curved, gap=math.inf)
    true = exact(t) * exact(linear) - exact(t) ** 2 * exact(curved)
    apart = true - exact(found.dual_bound)
    size = exact(t) * exact(linear) + exact(t) ** 2 * exact(curved)
    assert exact(14 * UNIT) * (size + true) <= apart <= exact(20 * UNIT) * (size + true)
    least, gap = float(random.uniform(5.0, 9.9)), float(random.uniform(1.0, 4.0))
    found, _ = of(linear=0.0, least_primal=least, gap=gap)
    apart = exact(least) - exact(gap) - exact(found.dual_bound)
    size, true = exact(least) + exact(gap), exact(least) - exact(gap)
    assert exact(14 * UNIT) * (size + true) <= apart <= exact(20 * UNIT) * (size + true)


def test_tiny_multiples_do_not_underflow():
    found, _ = of(linear=1.0, curved=1e200, gap=math.inf)
    assert found.dual_bound == pytest.approx(0.25e-200)
    least = of(linear=40 * LEAST, curved=0.0, gap=math.inf)[0].dual_bound
    assert 30 * LEAST <= least <= 36 * LEAST
    assert of(linear=2 * LEAST, curved=0.0, gap=math.inf)[0].dual_bound == 0.0


def test_a_bound_is_lowered_by_the_error_of_the_costs():
    problem = SimpleNamespace(primal_floor=1e-12, cost_error=0.125)
    found, _ = of(problem=problem)
    assert found.dual_bound == pytest.approx(7.0 * 0.875, abs=1e-9)
    assert found.gap == 3.0


def test_a_gap_is_the_smallest_that_is_proved():
    assert of(gap=3.0, linear=9.5, curved=1.0)[0].gap == pytest.approx(1.5)
    assert of(gap=3.0, linear=9.5, curved=1.0)[0].gap >= 1.5
    assert of(gap=11.0, linear=0.0)[0].gap == 10.0
    assert of(gap=0.5, linear=0.0)[0].gap == 0.5
    assert of(gap=0.5, linear=0.0)[0].relative_gap == 0.05
    assert of(gap=1e-15, linear=8.0, curved=2.0)[0].gap == 1e-15
    floor = SimpleNamespace(primal_floor=20.0, cost_error=0.0)
    assert of(problem=floor, gap=3.0)[0].relative_gap == 3.0 / 20.0


def test_what_is_not_finite_has_no_bound():
    for value in (math.inf, math.nan):
        nothing, again = of(nominal_primal=value)
        assert not math.isfinite(nothing.primal)
        assert nothing.dual_bound is nothing.gap is nothing.relative_gap is None
        assert not again
    for primal in (math.inf, math.nan):
        # Its error terms overflow: compensated products are tried, and without them nothing is known.
        assert of(primal=primal, nominal_primal=4.0, again=CLEAR)[0].primal == CLEAR.primal
        found, again = of(primal=primal, nominal_primal=4.0)
        assert again
        assert found.primal == math.inf
        assert found.dual_bound is found.gap is found.relative_gap is None


def test_products_are_computed_again_where_rounding_decides():
    again = CLEAR._replace(gap=1.0)
    limit = evaluation.CLEAR_PRIMAL * 10.0
    assert of(least_primal=10.0 - 2.0 * limit, gap=3.0, again=again)[0].gap == 1.0
    assert of(least_primal=10.0 - 0.5 * limit)[1] is False
    assert of(least_primal=math.nan)[1] is True
    exactly = 10.0 - of_exact_limit(limit)
    assert of(least_primal=exactly)[1] is False
    # Without a tolerance: where rounding makes up half of the gap.
    assert of(gap=3.0, nominal_gap=1.6)[1] is False
    assert of(gap=3.0, nominal_gap=1.5)[1] is False
    assert of(gap=3.0, nominal_gap=1.4)[1] is True
    # With one: where it is reached but for rounding.
    assert of(tol=0.3, gap=3.0, nominal_gap=1.0)[1] is False
    assert of(tol=0.29, gap=3.0, nominal_gap=1.0)[1] is True
    assert of(tol=0.29, gap=3.0, nominal_gap=2.95)[1] is False
    assert of(tol=0.29, gap=3.0, nominal_gap=2.9, nominal_primal=10.0)[1] is True
    assert of(tol=0.29, gap=3.0, nominal_gap=2.9, nominal_primal=9.0)[1] is False
    assert of(tol=0.1, gap=3.0, nominal_gap=1.4)[1] is False
    floor = SimpleNamespace(primal_floor=20.0, cost_error=0.0)
    assert of(tol=0.1, problem=floor, gap=3.0, nominal_gap=1.9)[1] is True
    assert of(tol=0.1, problem=floor, gap=3.0, nominal_gap=2.1)[1] is False


def of_exact_limit(limit):
    """The largest difference of doubles near 10 that does not exceed the limit."""
    return math.floor(limit / math.ulp(9.0)) * math.ulp(9.0)


def test_overflow_is_no_warning():
    def evaluate(is_compensated):
        assert np.geterr()["over"] == np.geterr()["invalid"] == "ignore"
        return CLEAR

    with np.errstate(all="raise"):
        certificate_of(PROBLEM, evaluate, "a source", None)


@pytest.mark.parametrize(
    ("wanted", "first", "second", "asked", "taken"),
    [
        (3.0, (3.0, 0.0), (1.0, 1.0), [False], 3.0),  # the gap is as small as wanted
        (0.0, (3.0, 3.0 / evaluation.CLEAR_GAP), (1.0, 1.0), [False], 3.0),  # rounding is a small part of it
        (2.9, (3.0, 1.0), (1.0, 1.0), [False, True], 1.0),
        (2.9, (3.0, 1.0), (3.5, 1.0), [False, True], 3.0),  # the smaller gap counts
    ],
)
def test_a_pair_is_evaluated_again_where_rounding_is_most_of_its_gap(wanted, first, second, asked, taken):
    calls = []

    def evaluate(is_compensated):
        calls.append(is_compensated)
        gap, nominal = second if is_compensated else first
        return CLEAR._replace(gap=gap, nominal_gap=nominal)

    assert clear_evaluation(evaluate, wanted).gap == taken
    assert calls == asked
