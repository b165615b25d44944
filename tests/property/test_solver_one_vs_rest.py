"""One class against the rest: the sum of the classes' problems, by any binary method."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from sklearn.svm import LinearSVC

import solvers
from solvers import api
from solvers.engine import driver, one_vs_rest
from tests.support.conformance import (
    CHOICES,
    assert_honest,
    assert_optimal,
    assert_true_bound,
    medium_problem,
    run,
)
from tests.support.solver_problems import cases, examples

DCD = solvers.engine.registry.registered()["dcd"]
BINARY = list(
    {choice.method: choice for choice in CHOICES if choice.task == "binary" and choice.loss != "hinge_p"}.values()
)
"""One loss and bias of each method."""


@pytest.mark.parametrize(
    ("loss", "bias", "storage"),
    list(itertools.product(["hinge", "squared_hinge"], ["regularized", "none"], ["csr", "dense"])),
)
def test_reaches_the_sum_of_the_optima_with_an_honest_certificate(loss, bias, storage):
    @examples(8)
    @given(case=cases(task="multiclass", strategy="ovr", loss=loss, bias=bias, c_scale="mean"))
    def check(case):
        result, dense = run(case, DCD, storage=storage), case.dense()
        assert_honest(result, dense)
        assert_optimal(result, dense)
        for one, part, w, b in zip(result.per_class, dense.parts, result.coef, result.intercept, strict=True):
            assert one.primal == pytest.approx(part.primal(w, b), rel=1e-9, abs=1e-9)
        assert sum(one.gap for one in result.per_class) == pytest.approx(result.certificate.gap, rel=1e-12)

    check()


@pytest.mark.parametrize("choice", BINARY, ids=lambda choice: f"{choice.method.name}-{choice.loss}-{choice.bias}")
def test_any_binary_method_can_do_it(choice):
    @examples(3)
    @given(case=cases(task="multiclass", strategy="ovr", loss=choice.loss, bias=choice.bias, c_scale="sum"))
    def check(case):
        result, dense = run(case, choice.method), case.dense()
        assert_honest(result, dense)
        (assert_optimal if choice.method.exact else assert_true_bound)(result, dense)

    check()


def ovr(X, labels, **arguments):
    return solvers.train(X, labels, **{"solver": "dcd", "strategy": "ovr", "loss": "squared_hinge", **arguments})


def test_predicts_what_scikit_learn_predicts_and_gives_labels_back():
    X, labels = medium_problem("multiclass", storage="dense")
    names = np.array(["zero", "one", "two", "three"])[labels]
    result = ovr(X, names, tol=1e-8, class_weight="balanced")
    peer = LinearSVC(C=1.0, class_weight="balanced", tol=1e-10, max_iter=100_000).fit(X, names)
    assert result.classes.tolist() == peer.classes_.tolist()
    assert np.abs(result.coef - peer.coef_).max() <= 1e-3
    assert np.abs(result.decision_function(X) - peer.decision_function(X)).max() <= 1e-2
    assert np.mean(result.predict(X) == peer.predict(X)) >= 0.995


def test_threads_change_no_bit():
    X, labels = medium_problem("multiclass")
    one, two = (ovr(X, labels, tol=1e-6, threads=threads) for threads in (1, 2))
    assert one.coef.tobytes() == two.coef.tobytes()
    assert one.certificate == two.certificate
    assert (one.threads, two.threads) == (1, 2)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stopped_run_has_weights_for_classes_that_had_not_begun(threads):
    X, labels = medium_problem("multiclass")
    heard = []

    def stop(report):
        heard.append(report)
        return report.iterations >= 2

    result = ovr(X, labels, tol=1e-9, threads=threads, callback=stop)
    assert result.status is solvers.Status.STOPPED
    assert sum(report.iterations >= 2 for report in heard) == 1, "the callback is not called after it returned True"
    assert result.coef.any(axis=1).all()
    assert result.certificate.primal == pytest.approx(sum(one.primal for one in result.per_class))
    assert 0.0 < result.certificate.relative_gap <= 1.0


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_the_callback_ends_every_class(threads):
    X, labels = medium_problem("multiclass")
    heard = []

    def fail(report):
        heard.append(report)
        if report.iterations >= 3:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        ovr(X, labels, tol=1e-9, threads=threads, callback=fail)
    assert sum(report.iterations >= 3 for report in heard) == 1


def test_limits_are_shared_by_the_classes():
    X, labels = medium_problem("multiclass", n=2000, d=100)
    by_passes = ovr(X, labels, loss="hinge", C=100.0, tol=1e-300, max_passes=8)
    assert by_passes.status is solvers.Status.PASS_LIMIT
    assert by_passes.passes <= 12
    assert all(one.relative_gap < 1.0 for one in by_passes.per_class)
    by_time = ovr(X, labels, loss="hinge", C=100.0, tol=1e-300, max_seconds=0.05)
    assert by_time.status is solvers.Status.TIME_LIMIT
    assert by_time.coef.any(axis=1).all()


@pytest.fixture
def ticks(monkeypatch):
    """A clock of solving time that moves by a second a step: `hear` is the callback that moves it."""
    clock = SimpleNamespace(now=0.0, reports=[], states=[], has_model=[])

    def hear(report):
        clock.now += 1.0
        clock.reports.append(report.alone())
        clock.states.append(report.snapshot())
        clock.has_model.append(report.has_model)

    for module in (api, driver, one_vs_rest):
        monkeypatch.setattr(module, "solving_time", lambda: clock.now)
    clock.hear = hear
    return clock


@pytest.mark.parametrize("threads", [1, 2])
def test_the_time_that_easy_classes_leave_is_for_those_that_need_it(ticks, threads):
    """The first class needs 163 of 278 steps; a quarter of 300 seconds is not enough for it, what is left over is."""
    X, labels = medium_problem("multiclass", n=300, d=20)
    arguments = {"tol": 1e-6, "class_weight": {0: 100.0}, "callback": ticks.hear}
    whole = ovr(X, labels, **arguments)
    unlimited, ticks.now = len(ticks.reports), 0.0
    assert unlimited < 290
    ticks.reports.clear()
    limited = ovr(X, labels, max_seconds=300.0, threads=threads, **arguments)
    assert limited.converged
    assert all(ticks.has_model)
    assert limited.certificate.relative_gap <= 1e-6  # of the sum: how far each class gets depends on the threads' turns
    assert limited.seconds == ticks.now == len(ticks.reports) < 300.0
    assert limited.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-6)
    # It continues from its state: nothing is done or counted twice.
    assert [report.passes for report in ticks.reports] == sorted(report.passes for report in ticks.reports)
    assert limited.passes == sum(limited.state[f"{k}.run.passes"] for k in range(4)) <= 1.1 * whole.passes
    assert limited.iterations == sum(limited.state[f"{k}.run.iterations"] for k in range(4))


def test_a_time_limit_ends_a_run_when_the_time_is_over_and_not_before(ticks):
    X, labels = medium_problem("multiclass", n=300, d=20)
    arguments = {"tol": 1e-6, "class_weight": {0: 100.0}, "callback": ticks.hear}
    limited = ovr(X, labels, max_seconds=220.0, **arguments)
    assert limited.status is solvers.Status.TIME_LIMIT
    assert 220.0 <= limited.seconds <= 222.0
    assert [part.relative_gap <= 1e-6 for part in limited.per_class] == [False, True, True, True]
    # A checkpoint of a later round holds every class.
    ticks.now = 0.0
    again = ovr(X, labels, max_seconds=400.0, warm_start=ticks.states[-10], resume=True, **arguments)
    assert again.converged


def test_a_later_round_keeps_the_best_point_of_the_rounds_before(ticks, monkeypatch):
    """Weights that get worse after the first round are not returned."""
    X, labels = medium_problem("multiclass", n=300, d=20)
    original, rounds = one_vs_rest.solve, []

    def worse_later(method, limits, *, start, **arguments):
        result = original(method, limits, start=start, **arguments)
        rounds.append(result)
        if start.state is None:
            return result
        bad = replace(result.certificate, primal=9e9, gap=9e9, relative_gap=9e9)
        return replace(result, status=solvers.Status.STALLED, coef=result.coef + 9.0, certificate=bad)

    monkeypatch.setattr(one_vs_rest, "solve", worse_later)
    result = ovr(X, labels, max_seconds=200.0, tol=1e-6, class_weight={0: 100.0}, callback=ticks.hear)
    assert len(rounds) == 5
    assert result.status is solvers.Status.STALLED
    assert result.coef[0].tobytes() == rounds[0].coef.tobytes()
    assert result.per_class[0] == rounds[0].certificate
    assert result.passes == sum(one.passes for one in rounds[1:])


def test_goes_on_from_a_checkpoint_and_from_weights():
    X, labels = medium_problem("multiclass")
    taken = []

    def stop_in_the_second_class(report):
        taken.append(report.snapshot())
        return any(name.startswith("1.") for name in taken[-1])

    half = ovr(X, labels, tol=1e-7, callback=stop_in_the_second_class)
    assert not half.converged
    whole = ovr(X, labels, tol=1e-7)
    resumed = ovr(X, labels, tol=1e-7, warm_start=taken[-1])
    assert resumed.converged
    assert resumed.passes < whole.passes
    again = ovr(X, labels, tol=1e-7, warm_start=whole)
    from_weights = ovr(X, labels, tol=1e-7, warm_start=(whole.coef, whole.intercept))
    assert again.passes < whole.passes
    assert from_weights.converged
    assert from_weights.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-6)


def test_reports_never_go_back():
    X, labels = medium_problem("multiclass")
    reports = []
    result = ovr(X, labels, tol=1e-4, callback=lambda report: reports.append(report))
    assert [report.passes for report in reports] == sorted(report.passes for report in reports)
    assert result.trace[-1].certified
    assert result.trace[-1].relative_gap == pytest.approx(result.certificate.relative_gap, rel=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_interruption_soon_after_another_loses_nothing(threads):
    X, labels = medium_problem("multiclass")
    reports, states = [], []
    whole = ovr(X, labels, tol=1e-7, callback=reports.append)

    def interrupt_after(steps):
        def hear(report):
            hear.steps += 1
            if hear.steps == steps:
                states.append(report.snapshot())
                raise InterruptedError

        hear.steps = 0
        return hear

    with pytest.raises(InterruptedError):
        ovr(X, labels, tol=1e-7, threads=threads, callback=interrupt_after(len(reports) - 2))
    for _ in range(2):
        again = interrupt_after(1)
        with pytest.raises(InterruptedError):
            ovr(X, labels, tol=1e-7, threads=threads, warm_start=states[-1], resume=True, callback=again)
    first, last = states[0], states[-1]
    assert {name for name in first if name.endswith(".alpha")} == {name for name in last if name.endswith(".alpha")}
    resumed = ovr(X, labels, tol=1e-7, threads=threads, warm_start=last, resume=True)
    assert resumed.converged
    assert resumed.passes < 2 * whole.passes, "hardly anything was done twice"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_model_on_the_way_knows_the_classes_that_have_begun(threads):
    X, labels = medium_problem("multiclass")
    whole = ovr(X, labels, tol=1e-4)
    models = []

    def look(report):
        assert report.has_model
        models.append(report.model())

    ovr(X, labels, tol=1e-4, threads=threads, callback=look)
    assert (models[0].task, models[0].strategy, models[0].coef.shape) == ("multiclass", "ovr", whole.coef.shape)
    begun = models[0].coef.any(axis=1)
    assert begun.sum() in (1, 2)
    assert (models[0].intercept[~begun] == -1.0).all()
    agreement = [np.mean(model.predict(X) == whole.predict(X)) for model in models]
    assert agreement[-1] > 0.9
    assert agreement[0] < agreement[-1]
