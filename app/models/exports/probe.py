"""The rows on which an export is compared with predict: random ones of every magnitude, and the edges."""

from collections.abc import Mapping

import numpy as np

from app.models.exports.subject import Array
from app.models.file import ModelFile

MAX_ROWS = 64
MAX_VALUES = 1 << 22
SEED = 20_000


def probe_rows(model: ModelFile) -> Array:
    """Dense rows: zeros, ones, the heaviest feature alone, one of every sign; then random, mostly sparse ones."""
    width = model.header.n_features
    count = max(6, min(MAX_ROWS, MAX_VALUES // width))
    generator = np.random.default_rng(SEED)
    rows = generator.standard_normal((count, width))
    rows[4:] *= 10.0 ** generator.uniform(-6, 6, size=(count - 4, 1))
    rows[5::2] *= generator.random((len(rows[5::2]), width)) < 0.2
    rows[0], rows[1], rows[2] = 0.0, 1.0, 0.0
    rows[2, np.abs(np.atleast_2d(model.coef)).max(axis=0).argmax()] = -1.0
    return rows


def linear_scores(arrays: Mapping[str, Array], rows: Array) -> Array:
    return np.asarray(rows @ arrays["coef"].T + arrays["intercept"])


def largest_difference(expected: Array, found: Array) -> float:
    """Absolute for scores up to 1, relative beyond: what an error in the last place means does not depend on scale.

    A format that tells one score of several is compared with the one that predict tells: the largest.
    """
    if expected.ndim > found.ndim:
        expected = expected.max(axis=1)
    return float(np.max(np.abs(found - expected) / np.maximum(1.0, np.abs(expected))))
