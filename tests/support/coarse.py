"""A coarse arithmetic for tests of error terms: rounding errors that are large enough to be seen in the result.

The error terms of a certificate are so small beside its figures that a missing one hardly ever shows. With the unit
2^-12 in the place of 2^-53, and as much error in the products, every term has digits of its own.
"""

import math

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


def joint_evaluation(problem, X, coef, bias, signed, sums, is_compensated):
    """The formulas that the evaluations of jointly trained classes share.

    `sums`: what differs, by name: losses, most, least (of the rows, without costs), terms, nominal_terms, linear and
    underflow.
    """
    given, costs, beta, k = precision(is_compensated), problem.costs, problem.bias_feature, len(coef)
    scaled = bias / problem.spec.bias_scale if beta else np.zeros(k)
    distance = nominal = curved = squared_error = 0.0
    dual_weights = np.empty((k, X.shape[1] + 1))
    for m in range(k):
        v, weights = signed[:, m], X.T @ signed[:, m]
        of_weights, bias_weight = size_of_weights(X, v, is_compensated), beta * v.sum()
        error = (given.sums + part(k + 8)) * of_weights + part(k + 16) * (beta * np.abs(v).sum() + abs(scaled[m]))
        apart = up(math.hypot(length(coef[m] - weights) * (1.0 + 4.0 * UNIT), scaled[m] - bias_weight) + error)
        reach = up(math.hypot(length(weights) * (1.0 + 4.0 * UNIT), bias_weight) + error)
        distance += apart**2
        curved += 0.5 * reach**2
        nominal += ((coef[m] - weights) ** 2).sum() + (scaled[m] - bias_weight) ** 2
        dual_weights[m] = np.append(weights, bias_weight)
        squared_error += (error + 4.0 * UNIT * reach) ** 2
    norm = 0.5 * (coef**2).sum() + 0.5 * (scaled**2).sum()
    most, least = costs @ sums["most"], costs @ sums["least"]
    underflow, more = sums["underflow"], part(k + 32)
    return {
        "primal": up((norm + most) * (1.0 + more) + underflow),
        "least_primal": down((norm + least) * (1.0 - more) - underflow),
        "nominal_primal": norm + costs @ sums["losses"],
        "gap": up((0.5 * distance + sums["terms"]) * (1.0 + more) + underflow),
        "nominal_gap": 0.5 * nominal + sums["nominal_terms"],
        "linear": sums["linear"],
        "curved": up(curved * (1.0 + more)),
        "losses_at_most": up(most * (1.0 + more) + underflow),
        "losses_at_least": down(least * (1.0 - more) - underflow),
        "dual_weights": dual_weights,
        "dual_error": up(math.sqrt(squared_error)) * (1.0 + part(k)),
        "multipliers": signed,
    }
