"""Tiles, and the Gram matrices made of them, beside numpy's products."""

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit

from solvers.data.rows import as_rows
from solvers.linalg.gram import GRAM_ROWS, add_gram_rows, gram_room
from solvers.linalg.tiles import HIGH, WIDE, multiply_tile


@njit
def _tile(left, at, right, at_right, steps, out):
    multiply_tile(left, at, right, at_right, steps, out)


@pytest.mark.parametrize("steps", [0, 1, 2, 7, 120])
def test_a_tile_is_the_product_of_some_columns_with_a_panel(steps):
    random = np.random.default_rng(steps)
    left, right = random.standard_normal((2, 3, 120, WIDE))
    out = np.full((HIGH + 1, WIDE), np.nan)
    _tile(left.reshape(-1), 120 * WIDE + HIGH, right.reshape(-1), 2 * 120 * WIDE, steps, out.reshape(-1))
    expected = left[1, :steps, HIGH : 2 * HIGH].T @ right[2, :steps]
    assert out[:HIGH] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert np.isnan(out[HIGH]).all()  # nothing behind it is touched


@pytest.mark.parametrize("n", [1, 5, GRAM_ROWS, GRAM_ROWS + 1, 3 * GRAM_ROWS - 7])
@pytest.mark.parametrize("d", [1, 3, 4, WIDE - 2, WIDE - 1, WIDE, 2 * WIDE + 3, 50])
@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
def test_gathered_rows_add_up_to_the_gram_matrix(kind, n, d):
    random = np.random.default_rng([n, d])
    X = random.standard_normal((n, d)) * (random.random((n, d)) < 0.5)
    X = X.astype(np.float32) if kind == "float32" else X
    rows = random.permutation(n)[: max(1, n - 2)]
    v = random.standard_normal(rows.size)  # rows are also taken back out
    out = np.ones((d + 1, d + 1))
    data = as_rows(sp.csr_array(X) if kind == "sparse" else X)
    room = gram_room(d + 1)
    add_gram_rows(*data.flat(), rows, v, 1.5, *room, out)
    add_gram_rows(*data.flat(), rows[:1], v[:1], 1.5, *room, out)  # what is left in the room from before does not count
    whole = np.hstack([X, np.full((n, 1), 1.5)]).astype(np.float64)[rows]
    expected = 1.0 + (whole.T * v) @ whole + v[0] * np.outer(whole[0], whole[0])
    assert np.triu(out) == pytest.approx(np.triu(expected), rel=1e-11, abs=1e-11)
