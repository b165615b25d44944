"""What every method is held to: its runs, its choices, and the bound that must be true."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
import solvers.data.rows
from solvers.engine.registry import registered
from solvers.problem.losses import losses_of
from tests.support.solver_problems import cases
from tests.support.solver_reference import best_multiple, plain_dual

HANG_SECONDS = 60.0  # a guard against a run without end, never a measure of speed
TIGHT = 2e-7  # asked of the solver, so that its objective is within the 1e-6 that is asserted
INEXACT_PASSES = 200  # the budget of a method that may need any number of passes
METHODS = list(registered().values())


class Choice(NamedTuple):
    """One of the problems that a method claims to solve."""

    method: type
    task: str
    loss: str
    bias: str

    @property
    def strategy(self):
        return "multinomial" if self.loss == "logistic" else "crammer_singer"

    @property
    def arguments(self):
        """The arguments of solvers.train that pick it."""
        p = 1.5 if self.loss == "hinge_p" else None
        chosen = {"solver": self.method.name, "task": self.task, "strategy": self.strategy}
        return {**chosen, "loss": self.loss, "p": p, "bias": self.bias}

    def cases(self, c_scale):
        return cases(task=self.task, loss=self.loss, bias=self.bias, c_scale=c_scale, strategy=self.strategy)


CHOICES = [
    Choice(method, task, loss, bias)
    for method in METHODS
    for task, loss, bias in itertools.product(method.tasks, method.losses, method.biases)
    if loss in losses_of(task)
]


def over(choices):
    return pytest.mark.parametrize(
        "choice", [pytest.param(c, id=f"{c.method.name}-{c.task}-{c.loss}-{c.bias}") for c in choices]
    )


every_choice = over(CHOICES)


def run(case, method, *, storage="csr", dtype=np.float64, **arguments):
    limits = {"tol": TIGHT, "max_seconds": HANG_SECONDS, "max_passes": None if method.exact else INEXACT_PASSES}
    arguments = {"solver": method.name, **limits, **case.definition, **arguments}
    return solvers.train(case.stored(storage, dtype), case.labels, **arguments)


def floor_of(dense):
    return 1e-12 * dense.total_cost


def assert_true_bound(result, dense):
    interval = dense.interval()
    scale = max(interval.high, floor_of(dense))
    assert result.certificate.dual_bound <= interval.high + 1e-9 * scale
    assert result.certificate.primal >= interval.low - 1e-9 * scale


def assert_honest(result, dense):
    """The certificate is what anyone computes from the returned weights, and claims nothing untrue."""
    certificate = result.certificate
    tolerance = 1e-9 * max(1.0, certificate.primal)
    assert abs(certificate.primal - dense.primal(result.coef, result.intercept)) <= tolerance
    assert certificate.gap >= 0.0
    assert abs(certificate.primal - certificate.dual_bound - certificate.gap) <= tolerance
    expected = certificate.gap / max(certificate.primal, floor_of(dense))
    assert certificate.relative_gap == pytest.approx(expected, rel=1e-12)
    alpha = result.state.get("alpha") if result.task == "binary" else None
    if alpha is not None and result.status is not solvers.Status.NONFINITE and len(certified(result)) == 1:
        # With one certificate the bound is the value of the best multiple of the state's own dual point.
        if result.loss == "logistic":
            value, best = dense.dual(alpha), dense.best_multiple(alpha)
        else:
            value, best = plain_dual(dense, alpha), best_multiple(lambda t: plain_dual(dense, t * alpha))
        assert certificate.dual_bound >= value - tolerance
        assert certificate.dual_bound <= best + tolerance


def certified(result):
    return {(point.passes, point.primal) for point in result.trace if point.certified}


def assert_optimal(result, dense):
    interval = dense.interval()
    scale = max(interval.high, floor_of(dense))
    assert interval.high - interval.low <= 1e-8 * scale, "the reference itself is not tight enough to judge"
    assert result.certificate.dual_bound <= interval.high + 1e-9 * scale
    if result.status is not solvers.Status.CONVERGED:
        raise AssertionError(f"not converged: {result.status}, {result.certificate}")
    assert result.certificate.relative_gap <= TIGHT
    assert result.certificate.primal - interval.low <= 1e-6 * scale
    assert result.certificate.primal >= interval.low - 1e-9 * scale


def medium_problem(task, storage="csr", n=400, d=30, seed=5, density=0.4):
    """Not separable and not trivial: every method needs several passes."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) * (random.random((n, d)) < density)
    score = X @ random.standard_normal(d) + random.standard_normal(n)
    X = sp.csr_array(X) if storage == "csr" else X
    if task == "regression":
        return X, score
    if task == "binary":
        return X, np.where(score > 0.0, "spam", "ham")
    return X, np.digitize(score, [-2.0, 0.0, 2.0])
