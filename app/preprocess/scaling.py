"""Scales features to the solver's units in one pass: subtracts the shift, divides by the scale and rounds once."""

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from app.preprocess.column_figures import rows_at_once
from app.preprocess.features import is_sparse
from app.preprocess.pipeline import Pipeline
from app.tabular.frame import blocks_of
from app.tabular.types import Array, Floats
from solvers.linalg import kernel_cache

BLOCKS_AT_ONCE = 8
"""Blocks of rows per call of the kernel. Larger: fewer calls, more memory. With 8 blocks, about 1 MB, the cost of a
call is negligible."""


def warm() -> None:
    """Load or compile the kernel, and repair its cache if it is damaged."""
    kernel_cache.warm(kernel_cache.kernels_of(sys.modules[__name__]), _use_every_kernel)


def _use_every_kernel() -> None:
    for dtype in (np.float32, np.float64):
        for single in (False, True):
            _scaled(np.ones((1, 1), dtype=dtype), np.ones(1), np.ones(1), np.empty((1, 1), _dtype(single)))


def scaled_rows(pipeline: Pipeline, features: Any, *, in_place: bool = False) -> Any:
    """Return the rows in the units of the solver. Features that need no scaling are returned unchanged.

    With `in_place`, the features can be overwritten.
    """
    shift, scale = pipeline.solver_units
    if not shift.any() and (scale == 1.0).all():
        return features
    if not is_sparse(features):
        out = features if in_place and not pipeline.single else np.empty(features.shape, _dtype(pipeline.single))
        return _scaled(features, shift, scale, out)
    data = features.data if in_place else np.array(features.data, dtype=np.float64)
    if shift.any():
        data -= shift[features.indices]
    data /= scale[features.indices]
    return sp.csr_array((data, features.indices, features.indptr), shape=features.shape)


def _dtype(single: bool) -> type[np.floating[Any]]:
    return np.float32 if single else np.float64


def _scaled(features: Array, shift: Floats, scale: Floats, out: Array) -> Array:
    dtype = np.float32 if features.dtype == np.float32 else np.float64
    for start, block in blocks_of(features, BLOCKS_AT_ONCE * rows_at_once(features.shape[1])):
        raw = np.ascontiguousarray(block, dtype=dtype)[:]
        # mapped rows are read-only, and numba compiles another version for read-only arrays
        raw.flags.writeable = False
        _scale(raw, shift, scale, out[start : start + len(raw)])
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _scale(raw: Array, shift: Floats, scale: Floats, out: Array) -> None:
    """Write (raw - shift) / scale to out, computed in double precision. `raw` and `out` can be the same array."""
    for i in range(raw.shape[0]):
        for j in range(raw.shape[1]):
            out[i, j] = (raw[i, j] - shift[j]) / scale[j]
