"""Compensated products against exact ones, also when a caller lets its own sums be reordered."""

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit

from solvers.data.blocks import RowBlocks
from solvers.data.rows import as_rows
from solvers.linalg.compensated import two_sum
from solvers.linalg.rounding import squared_lengths
from tests.support.exact import combined, dot, exact, exact_array


@njit(fastmath=True)
def _loose(a, b):
    return two_sum(a, b)


def test_flags_of_a_caller_do_not_reach_the_exact_sum():
    """numba compiles a function with its caller's fastmath unless the function says what it wants."""
    for a, b in ((1.0, 1e-17), (1e16, 1.0), (-0.1, 0.3), (1e300, -1e284)):
        total, lost = _loose(a, b)
        assert total == a + b
        assert exact(total) + exact(lost) == exact(a) + exact(b)


def test_the_low_part_of_weights_counts_in_their_distance():
    w, high, low = np.array([0.75e-3]), np.array([0.7495e-3]), np.array([3e-20])
    _, squared, _ = squared_lengths(w, high, low)
    apart = exact(w[0]) - exact(high[0]) - exact(low[0])
    assert squared == pytest.approx(float((apart * apart).p) / float((apart * apart).q), rel=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["dense", "csr", "blocks"])
def test_products_have_twice_the_precision(kind, dtype):
    random = np.random.default_rng(5)
    X = (random.standard_normal((40, 30)) * 10.0 ** random.uniform(-8, 8, (40, 30))).astype(dtype)
    data = {
        "dense": lambda: as_rows(X),
        "csr": lambda: as_rows(sp.csr_array(X)),
        "blocks": lambda: RowBlocks([X[:15], sp.csr_array(X[15:])]),
    }[kind]()
    w, v = random.standard_normal(30), random.standard_normal(40)
    high, low, size = np.empty(40), np.empty(40), np.empty(40)
    data.compensated_margins(w, high, low, size)
    rows = [list(enumerate(exact_array(row))) for row in X]
    for i, row in enumerate(rows):
        error = abs(exact(high[i]) + exact(low[i]) - dot(row, exact_array(w)))
        assert error <= exact((2 * 34 * 2.0**-53) ** 2 * size[i])
        assert size[i] == pytest.approx(np.abs(X[i].astype(np.float64) * w).sum(), rel=1e-13)
    high, low, size = np.zeros(30), np.zeros(30), np.zeros(30)
    data.add_compensated_column_sums(v, high, low, size)
    for j, total in enumerate(combined(rows, exact_array(v), 30)):
        assert abs(exact(high[j]) + exact(low[j]) - total) <= exact((2 * 44 * 2.0**-53) ** 2 * size[j])
