"""`crammer_singer`: dual coordinate descent for all classes jointly (Keerthi, Sundararajan, Chang, Hsieh, Lin 2008).

The dual has one variable A_i^m per row and class. A step minimises exactly over the k variables of one row and updates
the weights W = sum_i x_i A_i'. The shares q divide the cost C_i of a row among the classes; v are its violations:

    q_m = C_i [m = y_i] - A_i^m >= 0,    sum_m q_m = C_i,    v_m = [m != y_i] + f_m(x_i) - f_yi(x_i).

A step projects q + v / |x_i|^2 onto {q >= 0, sum_m q_m = C_i}. The row's term of the duality gap is
sum_m q_m (max v - v_m).

W is stored by feature, so that an entry of X finds the weights of all classes in adjacent memory. Rows whose whole cost
belongs to one class are shrunk until the other rows are solved. The classes of a row are not shrunk: up to about thirty
classes, computing all of them costs hardly more than computing a few. Every FACE_PASSES passes the shares above zero
are solved together (dual_face.py). A free bias stays near a centre that moves (class_bias.py).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from solvers.cost import Footprint, Pace
from solvers.errors import InvalidOptions
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods._shared.dual_face import ascend
from solvers.methods.crammer_singer.class_bias import FreeBias
from solvers.methods.crammer_singer.class_descent import (
    ACTIVE_SHARE,
    ClassPoint,
    ClassTerms,
    ClassVisits,
    Goal,
    PassReport,
    run_pass,
)
from solvers.methods.crammer_singer.class_duals import ClassDuals, SharesFace
from solvers.methods.crammer_singer.class_state import CrammerSingerState, FreeBiasState
from solvers.problem.problems import MulticlassProblem
from solvers.result import Status

__all__ = ["CrammerSinger"]


FACE_PASSES, FACE_READS = 50, 100
"""Passes between two joint solves of the shares above zero, and the maximum passes over X in one of them. More passes
between solves: slow phases of coordinate descent last longer. More passes in a solve: more precise and longer solves.
Set by hand; no measurement is recorded."""
FACE_PRODUCTS = 100_000_000
"""Maximum multiplications of an entry of X by a weight in a joint solve. The solve is part of one step, so this limits
the time of a step. Larger: longer steps on large data. Set by hand; no measurement is recorded."""
ENOUGH = 0.1
"""Once the gap of the rows is below this fraction of the target, the rows count as solved and the centre of a free bias
moves. Larger: earlier moves from less precise solutions. Set by hand; no measurement is recorded."""


class CrammerSinger(Method[MulticlassProblem, CrammerSingerState]):
    name = "crammer_singer"
    tasks = ("multiclass",)
    losses = ("hinge",)
    biases = ("none", "regularized", "free")
    state_type = CrammerSingerState
    options = (
        Option("shrinking", bool, True, "skip rows while their whole cost belongs to one class"),
        Option(
            "violation_tol",
            float,
            0.0,
            "LIBLINEAR's own stopping rule: stop once the largest violation of any row is below this; "
            "0 leaves stopping to the certified gap",
            low=0.0,
        ),
    )
    footprint = Footprint(row=13.7, feature=3.1, row_and_class=7.1, feature_and_class=3.1, kept_feature=1.0)
    pace = Pace(least=1.8, hardness=1.69, hardest=1e12, precision=0.46, entry_seconds=4.6e-9, row_seconds=4.3e-7)
    paper = "Keerthi et al. (2008): A sequential dual method for large scale multi-class linear SVMs"
    notes = (
        "All classes jointly; stores one number per row and class. Slower as C grows or if features are badly scaled."
    )

    def __init__(self, problem: MulticlassProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.shape = problem.data.n_rows, problem.classes.size
        self.duals = ClassDuals(problem)
        norms = problem.data.usable_squared_norms()
        self.terms = ClassTerms(problem.data.flat(), problem.costs, norms, problem.codes, options["shrinking"])
        self.bias = FreeBias(problem, norms) if problem.spec.bias == "free" else None

    def init(self, seed: int, start: Start) -> CrammerSingerState:
        state = self._zero_state(seed)
        intercept = np.zeros(self.shape[1])
        if start.coef is not None:
            intercept = np.asarray(start.intercept, dtype=np.float64)
            intercept = intercept if self.bias is None else self.bias.held_low(intercept)
            state.alpha, state.W = self.duals.suggested(start.coef, intercept)
            state.rows_read = 2 * self.shape[0]
        if self.bias is not None:
            self.bias.begin(state, intercept)
        earlier = self.earlier(start)
        return state if earlier is None else self._resumed(state, earlier)

    def step(self, state: CrammerSingerState, target: float) -> Progress:
        seen = self._run_pass(state, target)
        primal, gap = seen.dual + seen.gap, seen.gap
        is_settled, bound = seen.updates == 0, seen.dual if self.bias is None else None
        if self.bias is not None:
            primal -= float((self.bias.bias(state) * state.bias.balance).sum())
            gap += self.bias.imbalance(state)
            enough = ENOUGH * target * max(primal, self.problem.primal_floor)
            is_settled = self._follow_bias(self.bias, state, seen, enough)
        if state.rows_until_face <= 0:
            self._solve_face(state)
        passes = state.rows_read // self.shape[0]
        if not np.isfinite(primal):
            return Progress(state.epochs, passes, None, None, None, Status.NONFINITE)
        finished = None
        if seen.is_whole and is_settled:
            finished = Status.STALLED
        elif seen.is_whole and seen.violation < self.chosen["violation_tol"]:
            finished = Status.STOPPED
        # With W = W(A) the gap is the sum of the rows' terms; each was computed when its row was visited.
        relative_gap = gap / max(primal, self.problem.primal_floor)
        return Progress(state.epochs, passes, primal, bound, relative_gap, finished, seen.is_whole)

    def extract(self, state: CrammerSingerState) -> Point:
        W = state.W
        intercept = self.problem.bias_feature * W[-1] if self.bias is None else self.bias.intercept(state)
        return Point(W[:-1].T.copy(), intercept, state.alpha.copy())

    def _zero_state(self, seed: int) -> CrammerSingerState:
        order = np.flatnonzero(self.problem.costs > 0.0)
        return CrammerSingerState(
            alpha=np.zeros(self.shape),
            W=np.zeros((self.problem.data.n_features + 1, self.shape[1])),
            bias=FreeBiasState(np.zeros(0), 0.0, 0, 0, np.inf, np.inf, np.inf),
            order=order,
            active=order.size,
            active_goal=np.inf,
            random_state=np.array([seed], dtype=np.uint64),
            rows_until_face=FACE_PASSES * order.size,
            total_cost=self.problem.total_cost,
            epochs=0,
            rows_read=0,
        )

    def _run_pass(self, state: CrammerSingerState, target: float) -> PassReport:
        moves = 0 if self.bias is None else self.bias.moves(state)
        point = ClassPoint(state.alpha, state.W, state.bias.balance, self._bias_feature(state))
        visits = ClassVisits(state.order, state.active, state.random_state, moves)
        goal = Goal(state.active_goal, target, self.problem.primal_floor, self.chosen["violation_tol"])
        seen = run_pass(self.terms, point, visits, goal)
        state.active, state.active_goal = seen.active, seen.active_goal
        state.epochs += seen.epochs
        state.rows_read += seen.visited
        state.rows_until_face -= seen.visited
        return seen

    def _follow_bias(self, bias: FreeBias, state: CrammerSingerState, seen: PassReport, enough: float) -> bool:
        """Move the free bias after a pass; rows with a gap of at most `enough` count as solved.

        Returns whether the method stalls: the pass changed no row, and the imbalance is only rounding error.
        """
        imbalance, is_settled = bias.imbalance(state), seen.updates == 0
        is_solved = is_settled or seen.gap <= enough
        is_balanced = bias.follow(state, seen.gap, seen.visited, seen.is_whole, is_solved)
        # Shrunk rows can become violators when the bias moves.
        if not seen.is_whole and (imbalance > seen.gap or ACTIVE_SHARE * seen.gap > seen.active_goal):
            state.active = state.order.size
        return is_balanced and is_settled

    def _bias_feature(self, state: CrammerSingerState) -> float:
        return self.problem.bias_feature if self.bias is None else self.bias.feature(state)

    def _solve_face(self, state: CrammerSingerState) -> None:
        """Solve for all shares above zero together, with the other shares fixed."""
        n, k = self.shape
        affordable = FACE_PRODUCTS // max(1, k * self.problem.data.stored_entries)
        reads = min(FACE_READS, affordable, self.reads_left - 1)
        state.rows_until_face = FACE_PASSES * state.order.size
        if self.bias is not None:
            self.bias.look_back(state)
        if reads < 6:
            return
        feature, W = self._bias_feature(state), state.W
        if self.bias is None:
            face = SharesFace(self.duals, feature, np.zeros(k))
            state.alpha, state.W, used = ascend(face, state.alpha, W, reads)
        else:
            centre, weights = self.bias.centre(state), W.copy()
            weights[-1] = feature * state.bias.balance
            face = SharesFace(self.duals, feature, centre)
            state.alpha, state.W, used = ascend(face, state.alpha, weights, reads)
            state.bias.balance = state.W[-1] / feature
            state.W[-1] += centre / feature
        state.rows_read += used * n

    def _resumed(self, state: CrammerSingerState, earlier: CrammerSingerState) -> CrammerSingerState:
        """Continue from the state `earlier`. On the same problem results are bit-identical; otherwise the run starts
        from its dual point."""
        if earlier.alpha.shape != state.alpha.shape or earlier.W.shape != state.W.shape:
            shape = f"{self.shape[0]} rows x {self.problem.data.n_features} features and {self.shape[1]} classes"
            raise InvalidOptions("warm_start", f"is not a state of crammer_singer on data with {shape}; leave it out")
        given = earlier.alpha.copy()
        if not np.isfinite(given).all():
            raise InvalidOptions("warm_start", "has a dual point that is NaN or infinite; leave it out")
        if self.bias is not None:
            given[:, self.bias.is_absent] = 0.0
        A = self.duals.feasible(given)
        W = self.duals.weights_of(A, self.problem.bias_feature)
        rows_kept = np.array_equal(np.sort(earlier.order), state.order)
        summed = slice(None) if self.bias is None else slice(-1)  # a free bias is not a sum over the dual point
        W_kept = np.allclose(W[summed], earlier.W[summed], rtol=1e-9, atol=1e-9 * max(1.0, float(np.abs(W).max())))
        A_kept = np.allclose(A, given, rtol=1e-9, atol=1e-9 * float(self.problem.costs.max()))
        bias_kept = earlier.bias.balance.shape == state.bias.balance.shape
        state.alpha, state.W = A, W
        state.rows_read = self.shape[0]
        if self.bias is not None:
            self.bias.begin(state, self.bias.intercept(earlier) if bias_kept else np.zeros(self.shape[1]))
        kept = rows_kept and W_kept and A_kept and bias_kept
        if not (kept and earlier.total_cost == state.total_cost):
            return state
        earlier.epochs, earlier.rows_read = state.epochs, state.rows_read
        earlier.active = min(max(earlier.active, 1), earlier.order.size)
        return earlier
