"""Euclidean norms of rows, also where squares would overflow or underflow."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from app.preprocess.features import is_sparse, row_sums
from app.tabular.types import Floats

SMALLEST = 1e-140
"""Norms below this are recomputed with scaling: squares can have lost digits."""


@np.errstate(over="ignore")
def row_norms(rows: Any) -> Floats:
    """Return the norms of dense rows or CSR. Infinite only if the norm itself overflows."""
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
    """Compute the norms of rows divided by their largest entry, so that squares are at most 1."""
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
