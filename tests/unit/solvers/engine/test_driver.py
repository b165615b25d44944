"""The driver with scripted methods: every exit has its status, and what is returned is the best point."""

from dataclasses import dataclass

import numpy as np
import pytest

import solvers
from solvers.data.rows import as_rows
from solvers.engine.auto import Handover
from solvers.engine.driver import Limits, solve
from solvers.engine.registry import registered
from solvers.method import Method, Point, Progress, Start
from solvers.problem.build import build_problem
from solvers.problem.labels import read_labels
from solvers.problem.spec import resolve_spec
from solvers.result import Status
from solvers.state import State

X = np.array([[1.0, 0.2], [0.3, -0.5], [-1.0, 0.4], [-0.6, -0.9]])
Y = np.array([1, 1, 0, 0])
DCD = Handover(registered()["dcd"], 60.0)
OPTIMUM = solvers.train(X, Y, solver="dcd", tol=1e-12)


@dataclass(slots=True)
class At(State):
    at: int


class Scripted(Method):
    """Plays back a list of (scale of the optimal weights, progress fields)."""

    name = "scripted"
    tasks = ("binary",)
    losses = ("hinge",)
    biases = ("regularized",)
    paper = "none"
    notes = ""

    def __init__(self, problem, script):
        super().__init__(problem, {})
        self.script = script
        self.targets = []

    def init(self, seed, start):
        return At(0)

    def step(self, state, target):
        state.at += 1
        self.targets.append(target)
        _, fields = self.script[min(state.at, len(self.script)) - 1]
        return Progress(**{**self.defaults(state), **fields})

    @staticmethod
    def defaults(state):
        at = state.at
        return {"iterations": at, "passes": at, "primal": None, "dual_bound": float(at), "gap_estimate": None}

    def extract(self, state):
        scale, _ = self.script[min(state.at, len(self.script)) - 1]
        optimum = OPTIMUM.state["alpha"]
        return Point(scale * OPTIMUM.coef, scale * OPTIMUM.intercept, min(scale, 1.0) * optimum)


def play(script, *, tol=1e-6, max_seconds=None, max_passes=None, callback=None, successor=None):
    data = as_rows(X)
    setting = resolve_spec(
        n_rows=4, n_features=2, n_classes=2, sparse=False, task="binary", strategy="ovr", loss="hinge", p=None,
        C=1.0, c_scale="sum", bias="regularized", bias_scale=1.0, epsilon=0.1,
    )  # fmt: skip
    problem = build_problem(setting, data, read_labels(Y, "binary"), sample_weight=None, class_weight=None)
    method = Scripted(problem, script)
    limits = Limits.checked(tol=tol, max_seconds=max_seconds, max_passes=max_passes)
    common = {"seed": 0, "start": Start(), "callback": callback, "started": 0.0, "reason": "a play"}
    return method, solve(method, limits, successor=successor, **common)


def test_an_optimistic_method_is_not_believed():
    """It claims a tiny gap at once; only the certificate's word counts."""
    script = [(0.5, {"gap_estimate": 1e-9})] * 3 + [(1.0, {"gap_estimate": 1e-9})]
    method, result = play(script, max_passes=50)
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-6
    assert result.passes >= 4
    assert method.targets[0] == 1e-6
    assert method.targets[-1] < 1e-6, "after a failure it asks for more"


def test_failed_certificates_become_rarer():
    _, result = play([(0.5, {"gap_estimate": 0.0})], max_passes=200)
    assert result.status is Status.PASS_LIMIT
    certified = [point.passes for point in result.trace if point.certified]
    assert len(certified) <= 10
    assert result.certificate.relative_gap > 0.1


def test_the_best_point_is_returned_and_not_the_last():
    script = [(0.9, {"gap_estimate": 0.0}), (0.1, {})]
    _, result = play(script, max_passes=5)
    assert result.coef == pytest.approx(0.9 * OPTIMUM.coef)
    assert result.certificate.primal == pytest.approx(
        0.5 * result.coef @ result.coef
        + 0.5 * result.intercept**2
        + np.maximum(0, 1 - np.where(Y == 1, 1, -1) * result.decision_function(X)).sum()
    )


def test_points_and_bounds_of_different_steps_combine():
    script = [(1.5, {"gap_estimate": 0.0}), (0.999, {})]
    _, result = play(script, max_passes=3, tol=1e-9)
    assert result.certificate.dual_bound == pytest.approx(OPTIMUM.certificate.dual_bound, rel=1e-9)
    assert result.certificate.gap == pytest.approx(result.certificate.primal - result.certificate.dual_bound, rel=1e-9)


def falling(gap, factor, steps):
    return [(0.9, {"gap_estimate": gap * factor**k}) for k in range(steps)]


def test_a_method_that_becomes_slow_hands_its_weights_over():
    """It would need some 700 more passes; the successor counts on from its 8 and reaches the tolerance."""
    reports = []
    _, result = play(falling(1e-1, 0.98, 1000), callback=reports.append, successor=DCD)
    assert result.status == "converged"
    assert result.solver == result.state["solver"] == "dcd"
    assert result.solver_reason == "a play; dcd took over after 8 passes because progress had become slow"
    passes = [report.passes for report in reports]
    assert passes[:8] == list(range(1, 9))
    assert passes == sorted(passes)
    assert result.passes > 8
    assert result.certificate.relative_gap <= 1e-6


def test_a_method_that_only_leads_in_hands_over_soon_unless_it_arrives():
    led = DCD._replace(passes=0.0, fair_passes=3)
    _, result = play(falling(1e-1, 0.1, 9), successor=led)
    assert result.solver_reason == "a play; dcd took over after 3 passes as planned"
    assert result.converged
    arriving = [*falling(1e-1, 0.1, 2), (1.0, {"gap_estimate": 1e-9})]
    assert play(arriving, successor=led)[1].solver == "scripted"


def test_a_successor_may_have_one_itself():
    failing = type("Failing", (Scripted,), {"name": "failing", "by_default": classmethod(_failing)})
    last_resort = DCD._replace(passes=np.inf)
    _, result = play(falling(1e-1, 0.98, 1000), successor=Handover(failing, 60.0, successor=last_resort))
    assert (result.solver, result.converged) == ("dcd", True)
    assert result.solver_reason.endswith("; dcd took over after 9 passes because progress had stopped")


def _failing(method, problem):
    return method(problem, [(0.9, {"finished": Status.STALLED})])


def test_a_method_at_a_good_pace_or_the_last_in_line_goes_on():
    script = [*falling(1e-1, 0.5, 30), (1.0, {"gap_estimate": 1e-9})]
    assert play(script, successor=DCD)[1].solver == "scripted"
    assert play(falling(1e-1, 0.98, 1000), max_passes=200)[1].passes == 200


def test_a_gap_that_rises_for_a_pass_just_before_the_end_is_no_reason_to_hand_over():
    end = [(0.9, {"gap_estimate": gap}) for gap in (*[1.05e-6] * 8, 2e-6)]
    script = [*falling(1e-1, 0.3, 10), *end, (1.0, {"gap_estimate": 1e-9})]
    assert play(script, successor=DCD)[1].solver == "scripted"


def test_a_method_that_is_stuck_hands_over_too():
    script = [(0.9, {"finished": Status.STALLED})]
    assert play(script)[1].status == "stalled"
    assert play(script, successor=DCD)[1].converged


@pytest.mark.parametrize("failure", [Status.STALLED, Status.NONFINITE])
def test_the_last_resort_is_for_failures_far_from_the_optimum(failure):
    last = DCD._replace(passes=np.inf)
    _, result = play([(0.9, {"finished": failure})], successor=last)
    assert result.converged
    assert result.solver_reason == "a play; dcd took over after 1 passes because progress had stopped"
    near = [(1.0 + 1e-9, {"finished": Status.STALLED})]
    _, result = play(near, tol=1e-13, successor=last)
    assert (result.status, result.solver) == ("stalled", "scripted")
    assert 1e-13 < result.certificate.relative_gap < 1e-6
    assert play(falling(1e-1, 0.999, 300), max_passes=200, successor=last)[1].solver == "scripted"


def test_every_exit_has_its_name():
    assert play([(0.5, {})], max_passes=3)[1].status is Status.PASS_LIMIT
    assert play([(0.5, {})], max_seconds=1e-9)[1].status is Status.TIME_LIMIT
    assert play([(0.5, {})], callback=lambda report: True)[1].status is Status.STOPPED
    assert play([(0.5, {"finished": Status.STALLED})])[1].status is Status.STALLED
    assert play([(0.5, {"finished": Status.STOPPED})])[1].status is Status.STOPPED
    assert play([(1.0, {"finished": Status.STALLED})])[1].status is Status.CONVERGED
    assert play([(0.5, {"dual_bound": 1.0})])[1].status is Status.STALLED


def test_only_true_itself_stops_a_run():
    """Callbacks that return counts or tables by accident do not stop training."""
    _, result = play([(0.5, {})], max_passes=4, callback=lambda report: report.passes)
    assert (result.status, result.passes) == (Status.PASS_LIMIT, 4)


def test_overflow_returns_the_last_finite_point_or_zero():
    nothing = play([(np.nan, {"finished": Status.NONFINITE})])[1]
    assert nothing.status is Status.NONFINITE
    assert not nothing.coef.any()
    assert nothing.certificate.primal == pytest.approx(4.0, rel=1e-13)
    assert nothing.certificate.dual_bound == 0.0
    assert play([(np.nan, {"finished": Status.NONFINITE})], tol=1.0)[1].converged, "the zero vector is within tol"
    later = play([(0.5, {"gap_estimate": 0.0}), (np.nan, {"finished": Status.NONFINITE})])[1]
    assert later.status is Status.NONFINITE
    assert later.coef == pytest.approx(0.5 * OPTIMUM.coef)


def test_the_trace_stays_short_and_ends_with_the_certificate():
    _, result = play([(0.5, {})], max_passes=5000)
    assert 100 <= len(result.trace) <= 512
    passes = [point.passes for point in result.trace]
    assert passes == sorted(passes)
    assert result.trace[-1].certified
    assert result.trace[-1].primal == result.certificate.primal
    with pytest.raises(RuntimeError, match="inside the callback"):
        result.trace[0].snapshot()


def test_liblinears_own_rule_stops_without_claiming_convergence():
    random = np.random.default_rng(0)
    table = random.standard_normal((300, 20))
    labels = table[:, 0] + random.standard_normal(300) > 0
    loose = solvers.train(table, labels, solver="dcd", tol=1e-12, options={"violation_tol": 0.5})
    tight = solvers.train(table, labels, solver="dcd", tol=1e-12, options={"violation_tol": 0.1})
    assert loose.status is tight.status is Status.STOPPED
    assert loose.certificate.relative_gap > tight.certificate.relative_gap > 1e-12


def test_shrinking_changes_the_work_and_not_the_answer():
    random = np.random.default_rng(0)
    table = random.standard_normal((500, 10))
    labels = table[:, 0] + random.standard_normal(500) > 0
    runs = {
        shrinking: solvers.train(table, labels, solver="dcd", tol=1e-8, options={"shrinking": shrinking})
        for shrinking in (True, False)
    }
    assert runs[True].passes < runs[False].passes
    assert runs[True].iterations > runs[True].passes, "some epochs left rows out"
    assert runs[False].iterations <= runs[False].passes, "every epoch reads every row"
    assert runs[True].certificate.primal == pytest.approx(runs[False].certificate.primal, rel=2e-8)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_rows_of_weight_zero_leave_no_trace_in_the_answer(loss):
    random = np.random.default_rng(0)
    table = random.standard_normal((120, 5))
    labels = table[:, 0] + random.standard_normal(120) > 0
    arguments = {"solver": "dcd", "loss": loss, "tol": 1e-12, "options": {"violation_tol": 0.3}}
    without = solvers.train(table[:100], labels[:100], **arguments)
    counted = np.arange(120) < 100
    ignored = solvers.train(table, labels, sample_weight=counted, **arguments)
    assert without.status is ignored.status is Status.STOPPED
    assert without.coef.tobytes() == ignored.coef.tobytes()
