"""The factorisation beside numpy's, at orders around the sizes of its panels and tiles."""

import numpy as np
import pytest

from solvers.linalg.cholesky import cholesky_factor, cholesky_solve
from solvers.linalg.tiles import WIDE


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, WIDE - 1, WIDE, WIDE + 1, 2 * WIDE + 5, 200])
def test_factor_and_solution_are_numpys(k):
    random = np.random.default_rng(k)
    half = random.standard_normal((k, max(1, k // 2)))  # of half the rank: the ridge makes it definite
    matrix = half @ half.T
    given = np.triu(matrix) + np.tril(np.full((k, k), np.nan), -1)  # the lower triangle is not looked at
    factor = cholesky_factor(given, 0.7)
    expected = matrix + 0.7 * np.eye(k)
    lower = np.tril(factor.transpose(0, 2, 1).reshape(factor.shape[1], -1))  # of panels of rows
    assert lower[:k, :k] == pytest.approx(np.linalg.cholesky(expected), rel=1e-10, abs=1e-10)
    rhs = random.standard_normal(k)
    assert cholesky_solve(factor, rhs) == pytest.approx(np.linalg.solve(expected, rhs), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("last", [-1.0, np.nan])
def test_a_matrix_that_is_not_positive_definite_is_refused(last):
    matrix = np.eye(60)
    matrix[-1, -1] = last
    with pytest.raises(np.linalg.LinAlgError):
        cholesky_factor(matrix, 0.0)
