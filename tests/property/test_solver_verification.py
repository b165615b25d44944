"""`solvers.certify`: the certificate of a result can be had again from its weights, its dual point and the data."""

import numpy as np
import pytest
from hypothesis import given

import solvers
from solvers.engine.registry import registered
from tests.support.conformance import assert_true_bound, every_choice, run
from tests.support.solver_problems import cases, examples

DCD = registered()["dcd"]


def again(case, coef, intercept, bounding, storage="csr"):
    return solvers.certify(case.stored(storage, np.float64), case.labels, coef, intercept, bounding, **case.definition)


def assert_same(case, result, storage="csr"):
    verdict = again(case, result.coef, result.intercept, result.bounding, storage)
    found, claimed = verdict.certificate, result.certificate
    tolerance = 1e-9 * max(1.0, claimed.primal)
    assert abs(found.primal - claimed.primal) <= tolerance
    assert abs(found.dual_bound - claimed.dual_bound) <= tolerance
    assert abs(found.gap - claimed.gap) <= tolerance
    return verdict


@every_choice
def test_the_certificate_of_every_method_can_be_had_again(choice):
    @examples(3)
    @given(case=choice.cases("sum"))
    def check(case):
        result = run(case, choice.method, tol=1e-4, max_passes=200)
        if result.status is not solvers.Status.NONFINITE:
            assert_same(case, result, "dense")

    check()


@examples(10)
@given(case=cases(task="multiclass", strategy="ovr", loss="hinge", bias="regularized", c_scale="mean"))
def test_one_class_against_the_rest_can_be_had_again(case):
    result = run(case, DCD)
    verdict = assert_same(case, result)
    for found, claimed in zip(verdict.per_class, result.per_class, strict=True):
        assert found.primal == pytest.approx(claimed.primal, rel=1e-9, abs=1e-9)


@examples(30)
@given(case=cases(loss="hinge", bias="regularized", c_scale="sum"))
def test_other_weights_and_other_dual_points_are_found_out(case):
    result = run(case, DCD)
    worse = again(case, result.coef + 0.5, result.intercept, result.bounding).certificate
    assert worse.primal >= result.certificate.dual_bound
    assert worse.dual_bound == pytest.approx(result.certificate.dual_bound, rel=1e-6, abs=1e-9)
    assert worse.primal == pytest.approx(case.dense().primal(result.coef + 0.5, result.intercept), rel=1e-9)
    (kept,) = result.bounding
    forged = again(case, result.coef, result.intercept, [kept._replace(alpha=1e6 * np.ones_like(kept.alpha))])
    assert forged.certificate.dual_bound <= result.certificate.primal + 1e-9, "a forged dual point proves too much"


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_without_a_dual_point_a_true_bound_is_found(loss):
    @examples(15)
    @given(case=cases(loss=loss, bias="regularized", c_scale="sum"))
    def check(case):
        result = run(case, DCD)
        verdict = again(case, result.coef, result.intercept, None)
        assert_true_bound(verdict, case.dense())
        assert verdict.certificate.relative_gap < 0.2

    check()


def test_weights_of_another_shape_are_refused():
    X, y = np.eye(4), np.array([0, 1, 0, 1])
    with pytest.raises(solvers.InvalidProblem, match="coef"):
        solvers.certify(X, y, np.zeros(3), 0.0)
    with pytest.raises(solvers.InvalidProblem, match="labels"):
        solvers.certify(X, y[:3], np.zeros(4), 0.0)
