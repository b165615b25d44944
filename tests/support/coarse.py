"""A coarse arithmetic for tests of error terms: rounding errors that are large enough to be seen in the result.

The error terms of a certificate are so small beside its figures that a missing one hardly ever shows. With the unit
2^-12 in the place of 2^-53, and as much error in the products, every term has digits of its own.
"""

import numpy as np

from solvers.certificates import evaluation, multiclass, multinomial, ordinal
from solvers.certificates.evaluation import Precision
from solvers.linalg import rounding

UNIT, LEAST, SUM_ERROR = 2.0**-12, 2.0**-14, 2.0**-7
PLAIN = Precision(0.011, 0.0023, 0.00031, 0.0053)
TWICE = Precision(0.0013, 0.0047, 0.00037, 0.00091)


def precision(is_compensated):
    return TWICE if is_compensated else PLAIN


def make_coarse(monkeypatch):
    """For the Python code of the certificates; compiled kernels keep their constants."""
    for module in (rounding, evaluation, multiclass, multinomial, ordinal):
        for name, value in (("UNIT", UNIT), ("LEAST", LEAST), ("SUM_ERROR", SUM_ERROR)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(Precision, "of", lambda data, *, is_compensated: precision(is_compensated))


def up(value):
    return value * (1.0 + 16.0 * UNIT) + LEAST


def down(value):
    return max(0.0, value * (1.0 - 16.0 * UNIT) - LEAST)


def part(operations):
    """gamma"""
    return operations * UNIT / (1.0 - operations * UNIT)


def length(vector):
    """length_at_most"""
    vector = np.asarray(vector)
    return up(np.sqrt((vector * vector).sum() * (1.0 + SUM_ERROR) + vector.size * LEAST))


def size_of_scores(X, w, is_compensated):
    if not is_compensated:
        return np.sqrt((X * X).sum(axis=1)) * length(w)
    longest = (X != 0.0).sum(axis=1).max() if not X.all() else X.shape[1]
    return np.abs(X * w).sum(axis=1) * (1.0 + part(longest + 8)) + longest * LEAST


def size_of_weights(X, multipliers, is_compensated):
    if not is_compensated:
        return up(np.abs(multipliers) @ np.sqrt((X * X).sum(axis=1)))
    return length(np.abs(X.T * multipliers).sum(axis=1) * (1.0 + part(X.shape[0] + 8)) + X.shape[0] * LEAST)


def assert_evaluation(found, expected, rel=1e-9, floor=0.0):
    """Every field of an Evaluation, numbers and arrays."""
    assert set(expected) == set(found._fields)
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(found, name), value, rtol=rel, atol=floor, err_msg=name)
