"""The improvement over the best constant model, and `tol="auto"`, which needs it."""

import numpy as np
import pytest

import solvers
from solvers.data.rows import as_rows
from solvers.engine.constant import constant_value
from solvers.engine.limits import AUTO_IMPROVEMENT, AUTO_TOL
from solvers.engine.run import problems_of, shape_of
from solvers.problem.labels import read_labels
from solvers.problem.spec import resolve_spec


def problems(y, n_features=2, **parameters):
    """The problems of rows whose features are all zero: their best model is the constant one."""
    data, labels = as_rows(np.zeros((len(y), n_features))), read_labels(y, parameters.get("task", "auto"))
    spec = resolve_spec(**shape_of(data, labels), **parameters)
    return problems_of(spec, data, labels, sample_weight=None, class_weight=None)


def rare(rows=4000, share=0.01):
    """Noisy rows of which few are positive."""
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, 20))
    signal = X @ random.normal(size=20) + 2.0 * random.normal(size=rows)
    return X, (signal > np.quantile(signal, 1.0 - share)).astype(int)


CLASSES = np.repeat([0, 1, 2], [60, 25, 15])
PROBLEMS = {
    "hinge": {"loss": "hinge"},
    "squared hinge": {"loss": "squared_hinge", "bias_scale": 10.0},
    "logistic": {"loss": "logistic"},
    "free bias": {"loss": "squared_hinge", "bias": "free"},
    "no bias": {"loss": "hinge", "bias": "none"},
    "jointly": {"strategy": "crammer_singer", "loss": "hinge"},
    "jointly, free": {"strategy": "crammer_singer", "loss": "hinge", "bias": "free"},
    "multinomial": {"strategy": "multinomial", "loss": "logistic"},
    "multinomial, no bias": {"strategy": "multinomial", "loss": "logistic", "bias": "none"},
    "ordinal": {"task": "ordinal"},
    "numbers": {"task": "regression", "loss": "epsilon_insensitive", "epsilon": 0.2},
    "squares": {"task": "regression", "loss": "squared_epsilon_insensitive", "epsilon": 0.0, "bias": "free"},
}


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_constant_value_is_the_optimum_of_rows_without_features(name, C):
    parameters = {**PROBLEMS[name], "C": C}
    y = CLASSES.astype(float) ** 2 if parameters.get("task") == "regression" else CLASSES
    found = sum(constant_value(one) for one in problems(y, **parameters))
    best = solvers.train(np.zeros((len(y), 2)), y, tol=1e-7, max_seconds=5.0, **parameters).certificate
    assert found <= best.primal
    assert found >= best.dual_bound - 2e-6 * best.primal


def test_a_near_trivial_model_is_told_by_its_improvement_and_not_accepted_by_auto():
    X, y = rare()
    coarse = solvers.train(X, y, "dcd", loss="hinge", C=1e-5, tol=1e-3)
    assert coarse.converged
    assert coarse.certificate.relative_gap <= 1e-3
    assert coarse.certificate.improvement < 0.5
    fine = solvers.train(X, y, "dcd", loss="hinge", C=1e-5, tol="auto")
    assert fine.converged
    assert fine.certificate.relative_gap <= AUTO_TOL
    assert fine.certificate.improvement >= AUTO_IMPROVEMENT


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "squared_hinge"},
        {"strategy": "multinomial", "loss": "logistic"},
        {"strategy": "crammer_singer", "loss": "hinge"},
        {"task": "regression", "loss": "squared_epsilon_insensitive", "bias": "free"},
    ],
    ids=str,
)
def test_status_and_certificate_agree(parameters):
    random = np.random.default_rng(1)
    X = random.normal(size=(300, 4))
    y = np.digitize(X @ [1.0, -1.0, 0.5, 0.0] + random.normal(size=300), [-1.0, 1.0])
    for limits in ({}, {"max_passes": 1}):
        result = solvers.train(X, y, C=0.1, tol="auto", **parameters, **limits)
        proved = result.certificate
        is_met = proved.relative_gap <= AUTO_TOL and (
            proved.improvement is None or proved.improvement >= AUTO_IMPROVEMENT
        )
        assert result.converged == is_met
        again = solvers.certify(X, y, result.coef, result.intercept, result.bounding, C=0.1, **parameters)
        assert again.certificate.improvement == pytest.approx(proved.improvement, abs=1e-6)


def test_nothing_to_improve_is_null_and_converged():
    result = solvers.train(np.zeros((40, 2)), np.arange(40) % 2, tol="auto")
    assert result.converged
    assert result.certificate.improvement is None


def test_a_word_that_is_not_auto_is_refused():
    with pytest.raises(solvers.InvalidOptions, match="auto"):
        solvers.train(np.eye(4), [0, 1, 0, 1], tol="fine")
