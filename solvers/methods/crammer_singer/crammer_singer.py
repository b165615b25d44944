"""`crammer_singer`: dual coordinate descent for all classes jointly.

Keerthi, Sundararajan, Chang, Hsieh, Lin: A sequential dual method for large scale multi-class linear SVMs, KDD 2008.
The dual has one variable A_i^m a row and class. A step minimises exactly over all k variables of a row, and the
weights W = sum_i x_i A_i' are kept up to date. In the shares q of a row's cost C_i,

    q_m = C_i [m = y_i] - A_i^m >= 0,    sum_m q_m = C_i,    v_m = [m != y_i] + f_m(x_i) - f_yi(x_i),

a step is the projection of q + v / |x_i|^2 onto that simplex; the row's term of the gap is sum_m q_m (max v - v_m).

W is stored by features, so that an entry of X meets the weights of all classes side by side. Rows whose cost has
settled on one class are left out ("shrunk") until the rest is solved; classes of a row are not: up to some thirty, all
together cost hardly more than a few picked out. Every FACE_PASSES passes the shares that are not zero are solved for
together, see dual_face.py. A free bias is held near a centre that moves, see class_bias.py.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from solvers.cost import Footprint, Pace
from solvers.errors import InvalidOptions
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods._shared.dual_face import ascend
from solvers.methods.crammer_singer.class_bias import FreeBias
from solvers.methods.crammer_singer.class_descent import ACTIVE_SHARE, run_pass
from solvers.methods.crammer_singer.class_duals import ClassDuals, SharesFace
from solvers.problem.problems import MulticlassProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["CrammerSinger"]


FACE_PASSES, FACE_READS = 50, 100
"""After so many passes without an end, the shares above zero are solved for together, by at most so many reads."""
FACE_PRODUCTS = 100_000_000
"""At most so many products of an entry of X and a weight are taken for that at once: it is within a step."""
ENOUGH = 0.1
"""Of the gap that is wanted: that of the rows need not be less before the centre of a free bias moves."""


class CrammerSinger(Method[MulticlassProblem, Any]):
    name = "crammer_singer"
    tasks = ("multiclass",)
    losses = ("hinge",)
    biases = ("none", "regularized", "free")
    options = (
        Option("shrinking", bool, True, "leave rows out while their cost is settled on one class"),
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
    notes = "All classes jointly; holds one number a row and class. Slows down as C grows or features are badly scaled."

    def __init__(self, problem: MulticlassProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.shape = problem.data.n_rows, problem.classes.size
        self.rows = problem.data.flat()
        self.duals = ClassDuals(problem)
        self.norms = problem.data.usable_squared_norms()
        self.bias = FreeBias(problem, self.norms) if problem.spec.bias == "free" else None

    def init(self, seed: int, start: Start) -> State:
        order = np.flatnonzero(self.problem.costs > 0.0)
        state: State = {
            "alpha": np.zeros(self.shape),
            "W": np.zeros((self.problem.data.n_features + 1, self.shape[1])),
            "order": order,
            "active": order.size,
            "active_goal": np.inf,
            "random_state": np.array([seed], dtype=np.uint64),
            "rows_until_face": FACE_PASSES * order.size,
            "total_cost": self.problem.total_cost,
            "balance": np.zeros(0),
            "epochs": 0,
            "rows_read": 0,
        }
        intercept = np.zeros(self.shape[1])
        if start.coef is not None:
            intercept = np.asarray(start.intercept, dtype=np.float64)
            intercept = intercept if self.bias is None else self.bias.held_low(intercept)
            state["alpha"], state["W"] = self.duals.suggested(start.coef, intercept)
            state["rows_read"] = 2 * self.shape[0]
        if self.bias is not None:
            self.bias.begin(state, intercept)
        if start.state is not None:
            self._resume(state, start.state)
        return state

    def step(self, state: State, target: float) -> Progress:
        floor = self.problem.primal_floor
        active, goal, epochs, visited, is_whole, gap, violation, updates, dual = run_pass(
            *self.rows,
            self.problem.costs,
            self.norms,
            self.problem.codes,
            self._bias_feature(state),
            self.chosen["shrinking"],
            state["active_goal"],
            state["active"],
            state["order"],
            state["alpha"],
            state["W"],
            state["balance"],
            0 if self.bias is None else self.bias.moves(state),
            state["random_state"],
            target,
            floor,
            self.chosen["violation_tol"],
        )
        state["active"], state["active_goal"] = active, goal
        state["epochs"] += epochs
        state["rows_read"] += visited
        state["rows_until_face"] -= visited
        # With W = W(A) the gap is the sum of the rows' terms, each taken when its row was visited.
        primal, is_settled = dual + gap, updates == 0
        bound: float | None = dual
        if self.bias is not None:
            primal -= float((self.bias.bias(state) * state["balance"]).sum())
            imbalance = self.bias.imbalance(state)
            is_solved = is_settled or gap <= ENOUGH * target * max(primal, floor)
            is_settled = self.bias.follow(state, gap, visited, is_whole, is_solved) and is_settled
            # The rows left out may have to answer to the bias.
            if not is_whole and (imbalance > gap or ACTIVE_SHARE * gap > goal):
                state["active"] = state["order"].size
            gap += imbalance
            bound = None
        if state["rows_until_face"] <= 0:
            self._explore_face(state)
        passes = state["rows_read"] // self.shape[0]
        if not np.isfinite(primal):
            return Progress(state["epochs"], passes, None, None, None, Status.NONFINITE)
        finished = None
        if is_whole and is_settled:
            finished = Status.STALLED
        elif is_whole and violation < self.chosen["violation_tol"]:
            finished = Status.STOPPED
        return Progress(state["epochs"], passes, primal, bound, gap / max(primal, floor), finished, is_whole)

    def extract(self, state: State) -> Point:
        W = state["W"]
        intercept = self.problem.bias_feature * W[-1] if self.bias is None else self.bias.intercept(state)
        return Point(W[:-1].T.copy(), intercept, state["alpha"].copy())

    def _bias_feature(self, state: State) -> float:
        return self.problem.bias_feature if self.bias is None else self.bias.feature(state)

    def _explore_face(self, state: State) -> None:
        n, k = self.shape
        affordable = FACE_PRODUCTS // max(1, k * self.problem.data.stored_entries)
        reads = min(FACE_READS, affordable, self.reads_left - 1)
        state["rows_until_face"] = FACE_PASSES * state["order"].size
        if self.bias is not None:
            self.bias.look_back(state)
        if reads < 6:
            return
        feature, W = self._bias_feature(state), state["W"]
        if self.bias is None:
            face = SharesFace(self.duals, feature, np.zeros(k))
            state["alpha"], state["W"], used = ascend(face, state["alpha"], W, reads)
        else:
            centre, weights = self.bias.centre(state), W.copy()
            weights[-1] = feature * state["balance"]
            face = SharesFace(self.duals, feature, centre)
            state["alpha"], state["W"], used = ascend(face, state["alpha"], weights, reads)
            state["balance"] = state["W"][-1] / feature
            state["W"][-1] += centre / feature
        state["rows_read"] += used * n

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state; its dual point is a start for other costs, too."""
        if any(key not in earlier or np.shape(earlier[key]) != np.shape(state[key]) for key in ("alpha", "W")):
            shape = f"{self.shape[0]} rows x {self.problem.data.n_features} features and {self.shape[1]} classes"
            raise InvalidOptions("warm_start", f"is not a state of crammer_singer on {shape}")
        given = np.array(earlier["alpha"], dtype=np.float64)
        if not np.isfinite(given).all():
            raise InvalidOptions("warm_start", "has a dual point that is NaN or infinite")
        if self.bias is not None:
            given[:, self.bias.is_absent] = 0.0
        A = self.duals.feasible(given)
        W = self.duals.weights_of(A, self.problem.bias_feature)
        rows_kept = np.array_equal(np.sort(earlier.get("order", ())), state["order"])
        summed = slice(None) if self.bias is None else slice(-1)  # a free bias is no sum over the dual point
        W_kept = np.allclose(W[summed], earlier["W"][summed], rtol=1e-9, atol=1e-9 * max(1.0, float(np.abs(W).max())))
        A_kept = np.allclose(A, given, rtol=1e-9, atol=1e-9 * float(self.problem.costs.max()))
        scalars = "rows_until_face", "active_goal", "active", *(self.bias.SCALARS if self.bias is not None else ())
        is_whole = earlier.keys() >= {"balance", "random_state", *scalars}
        bias_kept = is_whole and np.shape(earlier["balance"]) == state["balance"].shape
        state["alpha"], state["W"] = A, W
        state["rows_read"] = self.shape[0]
        if self.bias is not None:
            self.bias.begin(state, self.bias.intercept(earlier) if bias_kept else np.zeros(self.shape[1]))
        kept = rows_kept and W_kept and A_kept and bias_kept
        if kept and earlier.get("total_cost") == state["total_cost"]:
            # The same problem: everything is taken over, so that going on from a checkpoint repeats
            # the uninterrupted run to the last bit.
            for key in ("alpha", "W", "order", "balance", "random_state"):
                state[key] = np.array(earlier[key], dtype=state[key].dtype)
            for key in scalars:
                state[key] = type(state[key])(earlier[key])
            state["active"] = min(max(state["active"], 1), state["order"].size)
