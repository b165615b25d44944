"""Error terms against exact arithmetic: each is as large as rounding can be, and not much larger."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from flint import fmpq

from solvers.certificates.evaluation import Precision
from solvers.data.rows import as_rows, read_only
from solvers.linalg.rounding import (
    BLOCK,
    LEAST,
    SUM_ERROR,
    UNIT,
    above,
    add_total,
    below,
    compensated_sum,
    gamma,
    squared_lengths,
)
from tests.support.exact import exact, exact_array

U = fmpq(1, 2**53)
SIZES = [5e-324, 1e-310, 2.0**-1022, 1e-160, 0.1, 1.0, 1.0 + 2.0**-52, 3.7, 1e16, 1e160, 1e300]


def test_the_constants_are_those_of_doubles():
    assert exact(UNIT) == U
    assert 1.0 + UNIT == 1.0
    assert 1.0 + 2.0 * UNIT > 1.0
    assert math.ulp(0.0) == LEAST
    assert SUM_ERROR == (BLOCK + 16) * UNIT
    assert BLOCK == 256


@pytest.mark.parametrize("operations", [1, 2, 8, 9, 1000, 2**30, 2**51])
def test_gamma_is_the_error_of_so_many_roundings(operations):
    """(1 + u)^m - 1 and 1 - (1 - u)^m are at most m u / (1 - m u)."""
    product = operations * U
    expected = float((product / (1 - product)).p) / float((product / (1 - product)).q)
    assert gamma(operations) == pytest.approx(expected, rel=1e-15)
    assert gamma(operations) > operations * UNIT or operations < 4
    assert gamma(2.0**52) == math.inf
    assert gamma(2.0**60) == math.inf
    assert gamma(2.0**52 - 1.0) < math.inf


@pytest.mark.parametrize("value", SIZES)
def test_above_and_below_leave_room_for_eight_roundings_and_no_more_than_seventeen(value):
    high, low = exact(above(value)), exact(below(value))
    number, step = exact(value), exact(LEAST)
    assert high >= number * (1 + 8 * U)
    assert high >= number + step
    assert high <= number * (1 + 17 * U) + 2 * step
    assert low <= number * (1 - 8 * U) or low == 0
    assert low <= max(number - step, 0)
    assert low >= number * (1 - 18 * U) - 2 * step


def test_above_and_below_of_zero_and_of_infinity():
    assert above(0.0) == below(0.0) == 0.0
    assert below(-1.0) == 0.0
    assert above(math.inf) == below(math.inf) == math.inf


@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_array])
def test_the_precision_of_products(as_matrix):
    X = np.ones((20, 7))
    X[3:, 5:] = 0.0
    entries, rows = (7 + 8), (20 + 8)
    plain = Precision.of(as_rows(as_matrix(X)), is_compensated=False)
    assert plain == (gamma(entries), 8.0 * UNIT, 8.0 * entries * LEAST, gamma(rows))
    twice = Precision.of(as_rows(as_matrix(X)), is_compensated=True)
    assert twice == ((4.0 * entries * UNIT) ** 2, 8.0 * UNIT, 8.0 * entries * LEAST, (4.0 * rows * UNIT) ** 2)


def test_what_a_total_loses_is_kept_beside_it():
    totals = np.zeros((2, 2))
    for value in (1.0, 2.0**-60, 2.0**-70, -1.0):
        add_total(totals, 1, value)
    assert totals.tolist() == [[0.0, 0.0], [0.0, 2.0**-60 + 2.0**-70]]
    for value in (1e308, math.inf, 1.0):
        add_total(totals, 0, value)
    assert totals[0].tolist() == [math.inf, 0.0]
    totals[:] = 0.0
    for value in (1e308, 1e308):
        add_total(totals, 0, value)
    assert totals[0, 0] + totals[0, 1] == math.inf


@pytest.mark.parametrize("seed", range(5))
def test_a_compensated_sum_is_off_by_two_units(seed):
    values = 10.0 ** np.random.default_rng(seed).uniform(-20, 20, 700)
    total = sum(exact_array(values))
    assert abs(exact(compensated_sum(read_only(values))) - total) <= 2 * U * total
    assert compensated_sum(read_only(np.array([1.0, *[2.0**-53] * 4]))) == 1.0 + 2.0**-51
    assert compensated_sum(read_only(np.zeros(0))) == 0.0


@pytest.mark.parametrize("size", [1, 3, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 5])
def test_squared_lengths_are_off_by_the_error_of_a_sum(size):
    random = np.random.default_rng(size)
    w, high = random.standard_normal(size), random.standard_normal(size)
    low = high * 2.0**-54 * random.uniform(-1.0, 1.0, size)
    w[::2] = high[::2] * (1.0 + 2.0**-50)  # a difference in the last places, where low counts
    given = [exact_array(one) for one in (w, high, low)]
    expected = [
        sum(a * a for a in given[0]),
        sum((a - b - c) ** 2 for a, b, c in zip(*given, strict=True)),
        sum(b * b for b in given[1]),
    ]
    found = squared_lengths(read_only(w), read_only(high), read_only(low))
    for value, true in zip(found, expected, strict=True):
        assert abs(exact(value) - true) <= exact(SUM_ERROR) * true
    # Without low parts.
    expected[1] = sum((a - b) ** 2 for a, b in zip(given[0], given[1], strict=True))
    found = squared_lengths(read_only(w), read_only(high), read_only(low[:0]))
    for value, true in zip(found, expected, strict=True):
        assert abs(exact(value) - true) <= exact(SUM_ERROR) * true


def test_blocks_are_summed_without_an_error_that_grows():
    """The plain sum of this many equal numbers has an error of more than SUM_ERROR."""
    w = np.full(1000 * BLOCK, 0.1)
    square, _, _ = squared_lengths(read_only(w), read_only(w), read_only(w[:0]))
    true, plain = exact(0.1) ** 2 * w.size, float(np.cumsum(w * w)[-1])
    assert abs(exact(plain) - true) > exact(SUM_ERROR) * true
    assert abs(exact(square) - true) <= exact(SUM_ERROR) * true
