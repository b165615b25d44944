"""What one row adds to a certificate, against exact arithmetic: never below, and not far above."""

import numpy as np
import pytest
from flint import arb, fmpq

from solvers.linalg.rounding import LEAST
from solvers.problem.losses.hinge import loss_of, most_loss_of, share_of, term_of
from solvers.problem.losses.loss import RowTotals, totals_of
from tests.support.exact import as_ball, at_most, conjugate, exact, power

U = fmpq(1, 2**53)
EXPONENTS = [1.0, 2.0, 1.01, 1.2, 1.5, 1.9]
COSTS = [1e-12, 0.3, 1.0, 1e9]
SLACKS = [-1e6, -1.0, -1e-9, 0.0, 1e-9, 0.1, 1.0, 1.0 + 2.0**-30, 3.7, 1e6]


def is_near(value, true, units, least=0):
    """Whether |value - true| <= units u true + least 2^-1074."""
    apart = abs(as_ball(exact(value)) - as_ball(true))
    return not apart > as_ball(true) * arb(units * U) + arb(least * exact(LEAST))


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("C", COSTS)
def test_losses_are_off_by_a_few_units(p, C):
    for slack in SLACKS:
        true = as_ball(exact(C)) * as_ball(power(exact(slack), p))
        assert is_near(loss_of(p, C, slack), true, 8)
        most = most_loss_of(p, C, slack)
        assert most == (loss_of(p, C, slack) + LEAST if slack > 0.0 else 0.0)
    assert loss_of(p, C, 5e-324) <= most_loss_of(p, C, 5e-324)
    assert most_loss_of(2.0, C, 1e-200) == LEAST  # the loss itself underflows
    assert most_loss_of(p, C, 0.0) == most_loss_of(p, C, -1.0) == 0.0


@pytest.mark.parametrize("p", [2.0, 1.01, 1.2, 1.5, 1.9])
@pytest.mark.parametrize("C", COSTS)
def test_a_conjugate_is_not_below_the_exact_one_and_not_far_above(p, C):
    for a in (1e-200, 1e-9, 0.1, 0.3, 1.0, 2.5, 1e5):
        share, found = share_of(p, C, a)
        true = as_ball(conjugate(p, exact(C), exact(a)))
        assert is_near(share, exact(a) / (exact(p) * exact(C)), 3)
        if not np.isfinite(found):
            continue
        assert at_most(true * arb(1 - 16 * U), exact(found))
        room = 0 if p == 2.0 else 2 * (16.0 + 8.0 * p / (p - 1.0) * (1.0 + abs(np.log(share))))
        if p != 2.0:
            assert at_most(true * arb(1 + exact(room / 4.0) * U), exact(found)), "the error of the logarithm counts"
        assert at_most(exact(found), true * arb(1 + (16 + exact(1.5 * room)) * U) + arb(2 * exact(LEAST)))


def test_shares_of_rows_without_cost_or_multiplier_are_zero():
    assert share_of(1.0, 2.0, 1.0) == (0.0, 0.0)
    for p in (2.0, 1.5):
        assert share_of(p, 0.0, 1.0) == share_of(p, 1.0, 0.0) == (0.0, 0.0)
        assert share_of(p, 1.0, 1e-200)[1] >= LEAST
    assert share_of(2.0, 1.0, 1e-300) == (0.5e-300, LEAST)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("C", COSTS)
def test_a_term_of_the_gap_is_not_below_the_exact_one_and_not_far_above(p, C):
    for part in (0.0, 1e-9, 0.25, 1.0 - 2.0**-50, 1.0):
        # At the share of a slack of 1 the term is zero but for rounding: everything cancels.
        a = part * C * p
        if p == 1.0:
            a = min(a, C)
        share, of_a = share_of(p, C, a)
        for slack in SLACKS:
            loss = as_ball(exact(C)) * as_ball(power(exact(slack), p))
            exact_conjugate = as_ball(conjugate(p, exact(C), exact(a)))
            product = as_ball(exact(a)) * as_ball(exact(slack))
            true = loss + exact_conjugate - product
            found = term_of(p, C, a, share, of_a, slack)
            assert at_most(true * arb(1 - 16 * U), exact(found))
            size = loss + exact_conjugate + abs(product)
            logarithms = 0.0 if p in (1.0, 2.0) or a == 0.0 else p / (p - 1.0) * (1.0 + abs(np.log(share)))
            if p == 2.0 and slack > 0.0:  # a completed square: relative to it, but for the share's own error
                difference = abs(as_ball(exact(slack)) - as_ball(exact(a)) / as_ball(2 * exact(C)))
                near = as_ball(exact(share)) * arb(8 * U)
                assert at_most(
                    exact(found), as_ball(exact(C)) * (difference + near) ** 2 * arb(1 + 16 * U) + arb(LEAST)
                )
            elif p == 1.0:
                assert is_near(found, true, 8)
            else:
                units = fmpq(40) + exact(32.0 * logarithms)
                assert at_most(exact(found), true + size * arb(units * U) + arb(4 * exact(LEAST)))


def test_a_term_in_which_everything_cancels_keeps_its_error():
    """At slack = share the square is zero; its error is that of the share."""
    share, of_a = share_of(2.0, 3.0, 0.7)
    found = term_of(2.0, 3.0, 0.7, share, of_a, share)
    room = 4.0 * 2.0**-53 * share
    assert found == pytest.approx(3.0 * room * room, rel=1e-6)
    share, of_a = share_of(1.5, 3.0, 4.5)
    loss = loss_of(1.5, 3.0, 1.0)
    assert term_of(1.5, 3.0, 4.5, share, of_a, 1.0) >= 16.0 * 2.0**-53 * (loss + 4.5)
    assert term_of(1.5, 3.0, 4.5, share, 0.0, 1.0) == pytest.approx(16.0 * 2.0**-53 * (loss + 4.5), rel=1e-9)
    # Rows beyond their margin add a |slack| for every exponent.
    assert term_of(2.0, 3.0, 0.0, 0.0, 0.0, -5.0) == 0.0
    assert term_of(1.0, 3.0, 2.0, 0.0, 0.0, -5.0) == 10.0
    assert term_of(2.0, 3.0, 2.0, *share_of(2.0, 3.0, 2.0), -5.0) == pytest.approx(3.0 / 9.0 + 10.0, rel=1e-12)
    assert term_of(1.5, 3.0, 2.0, *share_of(1.5, 3.0, 2.0), -5.0) == pytest.approx(share_of(1.5, 3.0, 2.0)[1] + 10.0)
    assert term_of(2.0, 1.0, 1e-300, *share_of(2.0, 1.0, 1e-300), 0.0) == 0.0  # underflows, as the sum's error counts
    tiny = share_of(2.0, 1e300, 5e-324)
    assert tiny[0] == 0.0


def test_totals_have_the_order_of_the_fields():
    sums = np.column_stack([np.arange(1.0, 11.0), np.full(10, 0.25)])
    assert totals_of(sums) == RowTotals(*(k + 0.25 for k in range(1, 11)))
    assert RowTotals._fields[:3] == ("losses", "losses_at_most", "losses_at_least")
    assert RowTotals._fields[3:] == ("terms", "terms_at_most", "conjugates", "linear", "linear_error", "mass", "reach")
