"""What "auto" takes, by shape: each case is one where another method was several times slower when it was measured."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers.cost import Size
from solvers.engine.auto import choose
from solvers.engine.registry import registered
from solvers.problem.spec import resolve_spec

pytestmark = pytest.mark.slow

DEFINITION = {
    "n_classes": 2, "task": "auto", "strategy": "ovr", "loss": "hinge", "p": None, "C": 1.0, "c_scale": "sum",
    "bias": "regularized", "bias_scale": 1.0, "epsilon": 0.1,
}  # fmt: skip


REGRESSION = {"n_classes": None, "loss": "epsilon_insensitive"}
SQUARED_REGRESSION = {"n_classes": None, "loss": "squared_epsilon_insensitive"}


def chosen(n, d, entries=None, norm=None, *, tol=1e-3, threads=1, **changed):
    setting = resolve_spec(n_rows=n, n_features=d, sparse=entries is not None, **{**DEFINITION, **changed})
    return choose("auto", setting, Size(entries or n * d, 8, float(d) if norm is None else norm), tol, threads)


@pytest.mark.parametrize(
    ("shape", "changed", "expected"),
    [
        ((581_012, 54, None, 7.0), {}, "smooth_newton"),
        ((581_012, 54, None, 7.0), {"loss": "squared_hinge"}, "newton"),
        ((581_012, 54, None, 7.0), {"C": 100.0}, "smooth_newton"),
        ((32_561, 123, 451_592, 14.0), {"loss": "squared_hinge"}, "newton"),
        ((49_749, 300, 579_586, 12.0), {"C": 0.01}, "dcd"),
        ((49_749, 300, 579_586, 12.0), {}, "smooth_newton"),
        ((49_749, 300, 579_586, 12.0), {"C": 100.0}, "smooth_newton"),
        ((60_000, 784, None, 100.0), {"C": 0.01}, "dcd"),
        ((11_314, 130_107, 1_787_565, 1.0), {"C": 100.0}, "dcd"),
        ((200_000, 47_236, 15_000_000, 1.0), {}, "dcd"),
        ((200_000, 47_236, 15_000_000, 1.0), {"loss": "squared_hinge", "C": 100.0}, "tncg"),
        ((581_012, 54, None, 7.0), {"C": 581_012.0, "c_scale": "mean"}, "smooth_newton"),
        ((581_012, 54, None, 7.0), {"bias": "free"}, "smooth_newton"),
        ((2_000, 9_000, None, 7.0), {"bias": "free"}, "alm_exact"),
        ((62, 2_000, None, 7.0), {"bias": "free"}, "alm_exact"),
        ((62, 100, None, 7.0), {"bias": "free"}, "smooth_newton"),
        ((200, 3_500, None, 7.0), {"bias": "free", "loss": "squared_hinge"}, "alm_exact"),
        ((581_012, 54, None, 7.0), {"loss": "hinge_p", "p": 1.5, "bias": "none"}, "alm_exact"),
        ((4_177, 8, None, 8.0), REGRESSION, "smooth_newton"),
        ((4_177, 8, None, 8.0), {**REGRESSION, "C": 0.001}, "svr_dual"),
        ((4_177, 8, None, 8.0), SQUARED_REGRESSION, "newton"),
        ((200_000, 32, None, 32.0), REGRESSION, "smooth_newton"),
        ((20_000, 2_000, 800_000, 1.0), REGRESSION, "svr_dual"),
        ((1_000, 3_000, 40_000, 1.0), {**SQUARED_REGRESSION, "C": 100.0}, "svr_dual"),
        ((10_000, 20_000, 600_000, 1.0), {**REGRESSION, "C": 100.0}, "svr_dual"),
        ((300, 1_000, None, 1_000.0), {**REGRESSION, "C": 100.0}, "svr_dual"),
        ((200_000, 32, None, 32.0), {**REGRESSION, "bias": "free"}, "smooth_newton"),
        ((60, 2_000, None, 7.0), {**SQUARED_REGRESSION, "bias": "free"}, "newton"),
        ((5_000, 10, None, 10.0), {"n_classes": 5, "strategy": "crammer_singer"}, "crammer_singer"),
        ((5_000, 10, None, 10.0), {"n_classes": 5, "strategy": "crammer_singer", "bias": "free"}, "crammer_singer"),
        ((5_000, 10, None, 10.0), {"n_classes": 5, "task": "ordinal", "loss": "auto"}, "cpa_ordinal"),
        ((581_012, 54, None, 7.0), {"n_classes": 7}, "smooth_newton"),
    ],
)
def test_the_method_of_a_shape(shape, changed, expected):
    choice = chosen(*shape, **changed)
    assert choice.main.name == expected
    assert any(words in choice.reason for words in ("pace", "the method for", "fewer rows than features"))


def test_threads_count_for_the_methods_that_divide_their_work():
    texts = 200_000, 47_236, 15_000_000, 1.0
    squared = {"loss": "squared_hinge", "C": 3.0, "tol": 1e-6}
    assert chosen(*texts, **squared).method.name == "dcd"
    assert chosen(*texts, **squared, threads=2).main.name == "tncg"
    alone, together = (chosen(*texts, C=1.0, loss="squared_hinge", threads=threads) for threads in (1, 2))
    assert alone.method.name == together.method.name == "dcd"
    assert together.successor.passes < alone.successor.passes, "the successor is faster by two, descent is not"
    assert chosen(581_012, 54, None, 7.0, C=1e-4, n_classes=7, threads=8) == chosen(
        581_012, 54, None, 7.0, C=1e-4, n_classes=7
    ), "classes share the threads"


def test_descent_has_a_successor_for_when_it_disappoints():
    choice = chosen(49_749, 300, 579_586, 12.0, C=0.01)
    assert choice.successor is not None
    assert choice.successor.method.name == "smooth_newton"
    assert choice.successor.passes > 1.0
    of_targets = chosen(20_000, 2_000, 800_000, 1.0, **REGRESSION)
    assert of_targets.successor is not None
    assert of_targets.successor.method.name == "smooth_newton"
    assert of_targets.successor.passes > 1.0


def test_truncated_newton_is_led_in_by_descent_and_foretold_by_its_own_pace():
    shape = {"n_rows": 200_000, "n_features": 47_236, "n_classes": 2, "sparse": True}
    job = {**shape, "loss": "squared_hinge", "C": 100.0, "entries": 15_000_000, "squared_norm": 1.0}
    choice = chosen(200_000, 47_236, 15_000_000, 1.0, loss="squared_hinge", C=100.0)
    assert (choice.method.name, choice.main.name) == ("dcd", "tncg")
    assert solvers.estimate(**job) == solvers.estimate(**job, solver="tncg")
    assert chosen(200_000, 47_236, 15_000_000, 1.0, loss="squared_hinge").main.name == "dcd", "it may hand over"


def test_truncated_newton_goes_on_from_the_first_passes_of_descent():
    random = np.random.default_rng(0)
    X = sp.random_array((6_000, 1_500), density=0.01, rng=random, format="csr")
    y = np.sign(X @ random.normal(size=1_500) + 0.3 * random.normal(size=6_000))
    arguments = {"loss": "squared_hinge", "C": 1e4, "tol": 1e-6}
    result = solvers.train(X, y, **arguments)
    assert result.solver == "tncg"
    assert result.solver_reason.endswith("; tncg took over after 3 passes as planned")
    assert result.certificate.relative_gap <= 1e-6
    again = solvers.train(X, y, **arguments, warm_start=(result.coef, result.intercept))
    assert again.solver == "tncg"
    assert "took over" not in again.solver_reason, "given weights need no method that prepares them"
    assert again.passes < result.passes / 3
    alone = solvers.train(X, y, **arguments, solver="tncg")
    assert result.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-6)


def test_a_rival_that_fails_has_a_last_resort_that_never_seems_faster():
    for shape in ((11_314, 130_107, 1_787_565, 1.0), (40, 5, None, 5.0)):
        choice = chosen(*shape)
        assert choice.successor is not None
        assert choice.successor.method.name == "alm_exact"
        assert choice.successor.passes == np.inf
    assert chosen(581_012, 54).successor is None, "it needs more memory than was asked for"
    assert chosen(2_000, 9_000, None, 7.0, bias="free").successor is None, "it is the one"


@pytest.mark.parametrize("bias", ["regularized", "free"])
def test_auto_is_certified_where_its_first_choice_fails(bias):
    """A large C on rows that can be separated: a slack in the last digits then costs more than the weights."""
    random = np.random.default_rng(2)
    X = sp.random(1500, 300, density=0.03, format="csr", random_state=2)
    y = np.asarray(X.sum(axis=1)).ravel() + 0.3 * random.standard_normal(1500) > 4.5
    assert solvers.train(X, y, C=1e8, tol=1e-3, bias=bias, loss="hinge").converged


@pytest.fixture
def hopeful_descent(monkeypatch):
    """Descent whose pace thinks that nothing is hard for it."""
    dcd = registered()["dcd"]
    monkeypatch.setattr(dcd, "pace", replace(dcd.pace, hardness=0.0))


def hard_rows(n):
    """Three directions and a little noise: descent creeps."""
    random = np.random.default_rng(3)
    X = random.standard_normal((n, 3)) @ random.standard_normal((3, 40)) + 1e-2 * random.standard_normal((n, 40))
    return X, X[:, 0] + random.standard_normal(n)


ARGUMENTS = {"C": 5.0, "tol": 1e-6, "loss": "hinge", "seed": 4}


@pytest.mark.usefixtures("hopeful_descent")
def test_a_run_that_is_handed_over_repeats_itself_and_resumes():
    X, signal = hard_rows(1500)
    states = []
    first = solvers.train(X, signal > 0, **ARGUMENTS, callback=lambda report: states.append(report.snapshot()))
    assert first.converged
    assert "smooth_newton took over after" in first.solver_reason
    assert {state["solver"] for state in states} == {"dcd", "smooth_newton"}
    again = solvers.train(X, signal > 0, **ARGUMENTS)
    assert np.array_equal(first.coef, again.coef)
    for state in (states[2], states[-2]):
        resumed = solvers.train(X, signal > 0, **ARGUMENTS, warm_start=state, resume=True)
        assert resumed.converged
        assert resumed.solver == "smooth_newton"
        assert np.array_equal(resumed.coef, first.coef)


def test_descent_on_targets_is_handed_over_to_newton(monkeypatch):
    svr_dual = registered()["svr_dual"]
    monkeypatch.setattr(svr_dual, "pace", replace(svr_dual.pace, hardness=0.0))
    X, signal = hard_rows(1500)
    result = solvers.train(X, signal, task="regression", C=5.0, tol=1e-6)
    assert result.converged
    assert result.solver == "smooth_newton"
    assert "smooth_newton took over after" in result.solver_reason


@pytest.mark.usefixtures("hopeful_descent")
def test_a_class_of_several_that_was_handed_over_goes_on_with_the_successor():
    X, signal = hard_rows(900)
    y = np.digitize(signal, [-0.5, 0.5])
    states = []
    whole = solvers.train(X, y, **ARGUMENTS, callback=lambda report: states.append(report.snapshot()))
    assert "smooth_newton took over after" in whole.solver_reason
    handed_over = next(state for state in states if state.get("1.solver") == "smooth_newton")
    resumed = solvers.train(X, y, **ARGUMENTS, warm_start=handed_over, resume=True)
    assert resumed.converged
    assert np.array_equal(resumed.coef[1:], whole.coef[1:])  # the first class had ended, and took one step more


def test_train_says_why():
    X = sp.random_array((300, 2000), density=0.02, random_state=1, format="csr")
    result = solvers.train(X, np.arange(300) % 2)
    assert result.solver == "dcd"
    assert result.solver_reason.startswith("by its pace about")
    assert "300 sparse rows of 2,000 features" in result.solver_reason
