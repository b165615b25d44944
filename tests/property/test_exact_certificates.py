"""Certificates of hostile problems against exact arithmetic. Many more of them: `python -m tests.soak.certificates`."""

import numpy as np
import pytest

import solvers
from solvers.certificates.balance import balanced, on_grid
from solvers.result import Certificate
from tests.support.exact import exact_array
from tests.support.exact_soak import Judged, judge_made_up, judge_solution

SOLUTIONS, MADE_UP, PARTS = 320, 320, 4


@pytest.mark.parametrize("part", range(PARTS))
def test_no_solution_of_a_hostile_problem_has_a_false_certificate(part):
    judged = Judged()
    for seed in range(part, SOLUTIONS, PARTS):
        judge_solution(seed, judged)
    assert judged.faults == []
    assert judged.counts["loose primal value"] == 0
    assert judged.counts["converged"] > SOLUTIONS / PARTS / 2


@pytest.mark.parametrize("part", range(PARTS))
def test_no_made_up_point_of_a_hostile_problem_has_a_false_certificate(part):
    judged = Judged()
    for seed in range(part, MADE_UP, PARTS):
        judge_made_up(seed, judged)
    assert judged.faults == []
    assert judged.counts["made up"] > MADE_UP / PARTS / 2


def test_weights_of_25_decades_do_not_push_the_bound_above_the_primal_value():
    """A primal value of 1e20, seen early, was rounded into the bound of a later step."""
    for seed in range(40):
        random = np.random.default_rng(seed)
        X, y = random.standard_normal((13, 3)), np.arange(13) % 2
        weights = 10.0 ** random.uniform(-12, 11, 13)
        weights[random.integers(0, 13, 2)] = 0.0
        if not (weights[y == 0].any() and weights[y == 1].any()):
            continue
        result = solvers.train(
            X, y, loss="squared_hinge", C=1e9, bias="free", sample_weight=weights, tol=1e-6, max_passes=500
        )
        again = solvers.certify(
            X, y, result.coef, result.intercept, result.bounding, loss="squared_hinge", C=1e9, bias="free",
            sample_weight=weights,
        ).certificate  # fmt: skip
        assert 0.0 <= result.certificate.dual_bound <= result.certificate.primal
        assert 0.0 < result.certificate.gap <= result.certificate.primal
        assert result.certificate.dual_bound <= again.primal
        assert again.primal == pytest.approx(result.certificate.primal, rel=1e-9)


def test_a_gap_is_never_rounded_down_to_zero():
    random = np.random.default_rng(3)
    X, y = random.standard_normal((30, 4)), np.arange(30) % 2
    result = solvers.train(X, y, loss="squared_hinge", tol=1e-14)
    assert result.converged
    assert 0.0 < result.certificate.gap < 1e-14 * result.certificate.primal


def test_a_certificate_cannot_hold_a_bound_above_its_primal_value():
    with pytest.raises(ValueError, match="exceeds the primal value"):
        Certificate(1.0, 1.5, 0.0, 0.0, "dual point")
    one = Certificate.of_bounds(2.0, 2.0, 1e-12, "dual point")
    assert one.gap > 0.0
    assert Certificate.of_bounds(2.0, 0.0, 1e-12, "dual point").relative_gap == 1.0


@pytest.mark.parametrize("seed", range(30))
def test_a_balanced_point_has_a_sum_of_exactly_zero(seed):
    random = np.random.default_rng(seed)
    signed = random.choice([-1.0, 1.0], 50) * 10.0 ** random.uniform(-300 if seed % 3 else -12, 8, 50)
    for given in (signed, balanced(signed), 1e-300 * signed, 5e-324 * np.sign(signed), np.full(50, np.inf), signed[:1]):
        found = balanced(given)
        assert sum(exact_array(found)) == 0
        assert (np.sign(found) * np.sign(given) >= 0.0).all()
        assert (np.abs(found) <= np.abs(given)).all()
        assert np.array_equal(balanced(found), found)
    assert np.abs(on_grid(signed) - signed).max() <= 2.0**-50 * np.abs(signed).sum()
