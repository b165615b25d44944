"""What is special to the augmented Lagrangian solvers: the residual's minimiser, the printed iteration, the penalty."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers.methods.alm.augmented_lagrangian import FIRST_BALANCE, LAST_BALANCE, balanced
from solvers.methods.alm.residuals import _gap_term, _minimise_residual
from solvers.problem.losses.hinge import Hinge

C = 2.0
SOLVERS = ("alm_exact", "alm_inexact")


def problem(n=150, d=6, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    y = np.where(X @ random.standard_normal(d) + random.standard_normal(n) > 0, 1, -1)
    return X, y, random.choice([0.0, 0.5, 1.0, 3.0], size=n)


def train(X, y, solver="alm_exact", **arguments):
    return solvers.train(X, y, **{"solver": solver, "C": C, "bias": "free", "tol": 1e-8, **arguments})


def states(X, y, count, solver, **arguments):
    """The state after each of the first iterations."""
    taken = {}

    def note(report):
        taken.setdefault(report.iterations, report.snapshot())
        return report.iterations > count

    train(X, y, solver, tol=1e-300, callback=note, **arguments)
    return [taken[k] for k in range(1, count + 1)]


# --- the minimiser over one residual


@pytest.mark.parametrize("p", [1.0, 1.0 + 1e-9, 1.001, 1.1, 1.5, 1.9, 1.999, 2.0])
def test_the_residuals_minimiser_solves_its_equation_to_rounding(p):
    random = np.random.default_rng(0)
    for _ in range(2000):
        t, g = 10.0 ** random.uniform(-8, 8), 10.0 ** random.uniform(-8, 8)
        if random.random() < 0.3:  # where both terms weigh alike the root moves fastest
            g = t / p * (1.0 + random.uniform(-1.0, 1.0) * 10.0 ** random.uniform(-6, 0))
        z = _minimise_residual(t, g, p)
        assert 0.0 <= z <= t
        slope_at_zero = g if p == 1.0 else 0.0
        if z < 1e-300:  # the root is too small for a number
            assert slope_at_zero >= t or (p > 1.0 and math.log(t / (p * g)) / (p - 1.0) < math.log(1e-299))
        else:
            assert z + p * g * z ** (p - 1.0) == pytest.approx(t, rel=1e-13)


def test_a_residual_on_the_safe_side_stays():
    for p in (1.0, 1.3, 2.0):
        assert _minimise_residual(-0.7, 5.0, p) == -0.7
        assert _minimise_residual(0.0, 5.0, p) == 0.0


@pytest.mark.parametrize("p", [1.2, 1.7, 2.0])
def test_a_rows_term_of_the_gap_vanishes_at_its_own_residual_only(p):
    for z in (0.01, 0.4, 3.0):
        alpha = p * C * z ** (p - 1.0)
        assert _gap_term(z, z, alpha, C, p) == pytest.approx(0.0, abs=1e-14)
        for slack in (-0.5, 0.5 * z, 2.0 * z):
            conjugate = (p - 1) * C * (alpha / (p * C)) ** (p / (p - 1))
            expected = C * max(slack, 0.0) ** p + conjugate - alpha * slack
            assert _gap_term(slack, z, alpha, C, p) == pytest.approx(expected, rel=1e-12)


# --- the iteration


def printed_iterations(X, y, costs, p, mu, count, *, exact):
    """Algorithms 1 and 2 in the paper's own symbols, with a row's own mu; yields the weights with the bias."""
    n, d = X.shape
    A = np.column_stack([X, np.ones(n)])
    ridge = np.diag([1.0] * d + [0.0])
    v, lam = np.zeros(d + 1), np.zeros(n)
    for _ in range(count):
        yield v
        t = y - A @ v - lam / mu
        e = y * np.array([_minimise_residual(*row, p) for row in zip(y * t, costs / mu, strict=True)])
        z = y - e - lam / mu
        matrix = A.T @ (mu[:, None] * A) + ridge
        gradient = matrix @ v - A.T @ (mu * z)
        if exact:
            v = v - np.linalg.solve(matrix, gradient)
        else:
            v = v - (gradient @ gradient) / (gradient @ matrix @ gradient) * gradient
        lam = lam + mu * (A @ v - y + e)


@pytest.mark.parametrize("p", [1.0, 1.4, 2.0])
@pytest.mark.parametrize("solver", SOLVERS)
def test_it_is_the_printed_iteration(solver, p):
    X, y, weights = problem()
    options = {"mu_rule": "constant", "mu": 0.7, "multiplier_step": 1.0}
    if solver == "alm_inexact":
        options["gradient_steps"] = 1
    taken = states(X, y, 12, solver, sample_weight=weights, loss="hinge_p", p=p, options=options)
    counted = weights > 0.0
    costs = C * weights[counted]
    mu = 0.7 * costs / np.sqrt(1.0 + costs * ((X[counted] ** 2).sum(axis=1) + 1.0))
    expected = printed_iterations(X[counted], y[counted], costs, p, mu, 12, exact=solver == "alm_exact")
    for state, v in zip(taken, expected, strict=True):
        assert state["evaluated"] == pytest.approx(v, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("bias", ["free", "regularized", "none"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_both_ways_of_least_squares_end_at_the_same_optimum(loss, bias, storage):
    X, y, weights = problem()
    results = [
        train(storage(X), y, loss=loss, bias=bias, sample_weight=weights, options={"least_squares": way})
        for way in ("factor", "cg")
    ]
    assert all(result.converged for result in results)
    assert results[0].certificate.primal == pytest.approx(results[1].certificate.primal, rel=2e-8)
    assert results[0].passes < results[1].passes, "a product is a read of X and counts"


def test_many_features_need_no_matrix():
    random = np.random.default_rng(0)
    X = sp.random_array((80, 50_000), density=0.002, format="csr", rng=random)
    y = np.where(random.random(80) < 0.5, 1, 0)
    assert train(X, y, tol=1e-6).converged


@pytest.mark.parametrize("p", [1.0, 1.01, 1.5])
def test_the_estimate_of_the_gap_is_the_certificates(p):
    X, y, _ = problem()
    seen = []
    result = train(X, y, loss="hinge_p", p=p, bias="none", tol=1e-5, callback=seen.append)
    # The last report is the certificate of the point that the report before it would have estimated.
    assert result.converged
    state = result.state
    assert state["gap"] == pytest.approx(result.certificate.gap, rel=1e-6)
    assert state["primal"] == pytest.approx(result.certificate.primal, rel=1e-12)


# --- the penalty


def test_balancing_ends_and_the_constant_rule_never_begins():
    X, y, _ = problem()
    changed = train(X, y, loss="squared_hinge", options={"mu": 1e3})
    assert changed.converged
    assert changed.state["penalty.mu"] < 1e3
    assert train(X, y, loss="squared_hinge", options={"mu_rule": "constant", "mu": 0.5}).state["penalty.mu"] == 0.5
    rule = {"penalty.age": LAST_BALANCE, "penalty.next_balance": 0, "penalty.mu": 1e3, "penalty.next_mu": 1e3}
    late = {**changed.state, **rule}
    assert train(X, y, loss="squared_hinge", warm_start=late, max_passes=50, tol=1e-300).state["penalty.mu"] == 1e3
    early = {**late, "penalty.age": FIRST_BALANCE}
    assert train(X, y, loss="squared_hinge", warm_start=early, max_passes=50, tol=1e-300).state["penalty.mu"] < 1e3


def test_balancing_mends_a_bad_start():
    X, y, _ = problem()
    for mu in (1e-4, 1e4):
        mended = train(X, y, tol=1e-6, options={"mu": mu})
        assert mended.converged
        left = train(X, y, tol=1e-6, options={"mu": mu, "mu_rule": "constant"}, max_passes=mended.passes)
        assert left.certificate.relative_gap > 1e-6


def test_the_printed_rule_only_raises_mu_and_can_freeze():
    X, y, _ = problem()
    taken = states(X, y, 60, "alm_exact", options={"mu_rule": "paper"})
    mus = [state["penalty.mu"] for state in taken]
    assert mus == sorted(mus)
    assert max(mus) <= 1e5
    frozen = train(X, y, options={"mu_rule": "paper"}, max_passes=2000)
    assert not frozen.converged
    assert frozen.certificate.relative_gap > 1e-6, "as the design says; if this fails the notes are wrong"


# --- the dual point and states


def test_balancing_the_dual_point_keeps_its_bounds():
    X, y, weights = problem()
    result = train(X, y, sample_weight=weights, loss="hinge", tol=1e-3)
    random = np.random.default_rng(1)

    class Stated:
        signs, costs = y.astype(float), C * weights
        loss = Hinge()

    alpha = Stated.costs * random.random(y.size)
    moved = balanced(Stated, alpha)
    assert abs(moved @ y) <= 1e-12 * alpha.sum()
    assert (moved >= 0.0).all()
    assert (moved <= Stated.costs).all()
    assert result.converged


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_state_starts_other_costs_and_other_rows(solver):
    X, y, _ = problem()
    first = train(X, y, solver, tol=1e-4, loss="squared_hinge")
    for rows, cost in ((slice(None), 1.1 * C), (slice(0, 140), C)):
        cold = train(X[rows], y[rows], solver, C=cost, tol=1e-4, loss="squared_hinge")
        warm = train(X[rows], y[rows], solver, C=cost, tol=1e-4, loss="squared_hinge", warm_start=first)
        assert warm.converged
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_state_of_other_features_is_refused(solver):
    X, y, _ = problem()
    with pytest.raises(solvers.InvalidOptions, match=f"not a state of {solver} on data with 5 features"):
        train(X[:, :5], y, solver, warm_start=train(X, y, solver, tol=1e-2).state)


def test_values_that_cannot_be_squared_are_refused():
    X, y, _ = problem(n=20)
    X[3, 2] = 1e200
    with pytest.raises(solvers.InvalidProblem, match="too large to be squared"):
        train(X, y)


@pytest.mark.parametrize("options", [{"multiplier_step": 1.7}, {"mu": 0.0}, {"mu_rule": "growing"}])
def test_options_for_which_it_does_not_converge_are_refused(options):
    X, y, _ = problem()
    with pytest.raises(solvers.InvalidOptions, match=rf"options\.{next(iter(options))}"):
        train(X, y, options=options)
