"""Every method, interrupted after any step, written down, read back and resumed, gets where it would have got."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solvers
from solvers.engine.registry import registered
from tests.support.checkpoints import Interruption, written_and_read
from tests.support.conformance import CHOICES, HANG_SECONDS, INEXACT_PASSES, over
from tests.support.solver_problems import cases, examples

TOL = 1e-5


def check_interruption(case, method, storage, after):
    """Interrupts the run after this many steps, if it takes that many."""
    limits = {"tol": TOL, "max_seconds": HANG_SECONDS, "max_passes": None if method.exact else INEXACT_PASSES}
    arguments = {"solver": method.name, **case.definition, **limits}
    X = case.stored(storage, np.float64)
    taken, seen = {}, 0

    def interrupt(report):
        nonlocal seen
        seen += 1
        if seen == after:
            taken.update(report=report, state=report.snapshot(), model=report.model())
            raise Interruption

    try:
        solvers.train(X, case.labels, callback=interrupt, **arguments)
        return
    except Interruption:
        pass
    met, met_again, reports = {}, {}, []
    whole = solvers.train(X, case.labels, callback=lambda report: meet(report, met), **arguments)
    state = written_and_read(taken["state"])

    def look(report):
        reports.append(report)
        meet(report, met_again)

    if not method.exact:  # coming back takes a pass or two, and how far it gets depends on each
        arguments["max_passes"] *= 2
    resumed = solvers.train(X, case.labels, warm_start=state, resume=True, callback=look, **arguments)
    before = taken["report"]
    for report in reports:
        assert report.passes >= before.passes
        assert report.iterations >= before.iterations
        assert report.seconds >= before.seconds
    assert resumed.passes >= before.passes
    assert resumed.seconds > before.seconds
    assert taken["model"].decision_function(X).shape == whole.decision_function(X).shape
    if method.exact:
        assert whole.converged
        assert resumed.converged
        assert resumed.certificate.relative_gap <= TOL
        scale = max(whole.certificate.primal, 1e-12)
        assert abs(resumed.certificate.primal - whole.certificate.primal) <= 2 * TOL * scale
    elif case.definition.get("strategy") == "ovr" and case.task == "multiclass":
        assert resumed.certificate.primal <= whole.certificate.primal * (1 + 1e-3)
    else:
        common = met.keys() & met_again.keys()
        assert common or len(met) <= after
        assert all(met[number] == met_again[number] for number in common), "it continues with the same bits"


def meet(report, met):
    if report.has_model:
        met[report.iterations] = report.model().coef.tobytes()


steps = st.one_of(st.integers(1, 4), st.integers(1, 60))
storages = st.sampled_from(["csr", "dense"])


@over(CHOICES)
def test_an_interrupted_run_reaches_the_same_certified_gap(choice):
    @examples(4)
    @given(case=choice.cases("sum"), storage=storages, after=steps)
    def check(case, storage, after):
        check_interruption(case, choice.method, storage, after)

    check()


@pytest.mark.parametrize("name", [name for name, method in registered().items() if "binary" in method.tasks])
def test_an_interrupted_run_of_one_against_the_rest_reaches_it_too(name):
    method = registered()[name]
    ovr = {"task": "multiclass", "strategy": "ovr", "loss": method.losses[0], "bias": method.biases[0]}
    if ovr["loss"] == "hinge_p":
        ovr["loss"] = "hinge"

    @examples(4)
    @given(case=cases(c_scale="sum", **ovr), storage=storages, after=steps)
    def check(case, storage, after):
        check_interruption(case, method, storage, after)

    check()
