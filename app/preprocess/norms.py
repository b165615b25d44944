"""Computes Euclidean norms of rows, even if squares of entries would overflow or underflow."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from app.preprocess.features import is_sparse, row_sums
from app.tabular.types import Floats

SMALLEST = 1e-140
"""Norm below which a norm is computed again with scaling, because squares of its entries can have underflowed. Larger:
more norms are computed twice. 1e-140 is the square root of 1e-280, well above the smallest normal float64."""


@np.errstate(over="ignore")
def row_norms(rows: Any) -> Floats:
    """Return the norms of dense or CSR rows. A norm is infinite only if the norm itself overflows."""
    norms = _from_squares(rows)
    doubtful = ~((norms > SMALLEST) & (norms < np.inf))
    if doubtful.any():
        chosen = np.flatnonzero(doubtful)
        norms[chosen] = _from_scaled(rows[chosen])
    return norms


def _from_squares(rows: Any) -> Floats:
    squares = row_sums(rows.power(2)) if is_sparse(rows) else np.einsum("ij,ij->i", rows, rows)
    norms: Floats = np.sqrt(squares)
    return norms


def _from_scaled(rows: Any) -> Floats:
    """Compute norms of rows by dividing each row by its largest absolute entry first, so that squares are at most 1."""
    if is_sparse(rows):
        largest, row_of = np.zeros(rows.shape[0]), np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        np.maximum.at(largest, row_of, np.abs(rows.data))
    else:
        largest = np.abs(rows).max(axis=1, initial=0.0)
    units = np.where((largest > 0.0) & (largest < np.inf), largest, 1.0)
    if is_sparse(rows):
        scaled = sp.csr_array((rows.data / units[row_of], rows.indices, rows.indptr), shape=rows.shape)
        return _from_squares(scaled) * units
    return _from_squares(rows / units[:, None]) * units
