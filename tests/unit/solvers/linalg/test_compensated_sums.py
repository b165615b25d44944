"""Compensated products against exact arithmetic, on sums in which nearly everything cancels."""

import numpy as np
import pytest
import scipy.sparse as sp

from solvers.data.rows import as_rows
from solvers.linalg.compensated import normalise, two_sum
from tests.support.exact import exact

UNIT = 2.0**-53


@pytest.mark.parametrize("seed", range(20))
def test_two_sum_loses_nothing(seed):
    random = np.random.default_rng(seed)
    a, b = (float(random.standard_normal() * 10.0 ** random.uniform(-20, 20)) for _ in range(2))
    for one, other in ((a, b), (b, a), (a, -a), (a, -a * (1.0 + 2.0**-50)), (a, 0.0), (0.0, b)):
        total, lost = two_sum(one, other)
        assert total == one + other
        assert exact(total) + exact(lost) == exact(one) + exact(other)


def test_a_normalised_pair_is_the_same_sum_with_its_rounded_value_first():
    high, low = np.array([1.0, 2.0**-60, 1e16, -3.0]), np.array([1.0, 1.0, 3.0, 3.0])
    sums = [exact(a) + exact(b) for a, b in zip(high, low, strict=True)]
    normalise(high, low)
    for a, b, total in zip(high, low, sums, strict=True):
        assert exact(a) + exact(b) == total
        assert a + b == a
    assert high.tolist() == [2.0, 1.0, 1e16 + 4.0, 0.0]


def cancelling(n, d, seed):
    """Rows and weights whose products are near 1e16 and cancel to about 1, in both directions."""
    random = np.random.default_rng(seed)
    X, w, v = random.standard_normal((n, d)) * 1e8, random.standard_normal(d) * 1e8, random.standard_normal(n) * 1e8
    X[random.random((n, d)) < 0.2] = 0.0
    for i in range(n):
        X[i, -1] = -float(np.float64(X[i, :-1] @ w[:-1])) / w[-1]
    v[0] = 0.0
    for j in range(d):
        X[-1, j] = -float(X[:-1, j] @ v[:-1]) / v[-1]
    return X, w, v


@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("seed", range(5))
def test_products_have_twice_the_precision_and_their_magnitudes(seed, as_matrix):
    n, d = 9, 6
    X, w, v = cancelling(n, d, seed)
    data = as_rows(as_matrix(X))
    rows, weights, multipliers = ([[exact(x) for x in row] for row in X], [exact(x) for x in w], [exact(x) for x in v])
    high, low, sizes = np.full(n, 7.0), np.full(n, 7.0), np.full(n, 7.0)
    data.compensated_margins(w, high, low, sizes)
    plain = np.empty(n)
    data.margins(w, plain)
    wrong = 0
    for i in range(n):
        true = sum((a * b for a, b in zip(rows[i], weights, strict=True)), exact(0.0))
        size = sum((abs(a * b) for a, b in zip(rows[i], weights, strict=True)), exact(0.0))
        limit = exact((2.0 * (d + 4) * UNIT) ** 2) * size
        assert abs(exact(high[i]) + exact(low[i]) - true) <= limit
        assert high[i] + low[i] == high[i]
        assert abs(exact(sizes[i]) - size) <= exact(2 * d * UNIT) * size
        wrong += abs(exact(plain[i]) - true) > limit
    assert wrong > n // 2, "the case is too easy"
    high, low, sizes = np.full(d, 0.5), np.full(d, 2.0**-60), np.full(d, 0.25)
    data.add_compensated_column_sums(v, high, low, sizes)
    plain = np.zeros(d)
    data.add_weighted_column_sums(v, plain)
    wrong = 0
    for j in range(d):
        products = [multipliers[i] * rows[i][j] for i in range(n)]
        true, size = sum(products, exact(0.5) + exact(2.0**-60)), sum(map(abs, products), exact(0.25))
        limit = exact((2.0 * (n + 5) * UNIT) ** 2) * size
        assert abs(exact(high[j]) + exact(low[j]) - true) <= limit
        assert abs(exact(sizes[j]) - size) <= exact(2 * n * UNIT) * size
        wrong += abs(exact(plain[j]) + exact(0.5) - true) > limit
    assert wrong >= d // 2, "the case is too easy"
