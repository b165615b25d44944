"""`asvm`: the active-set method of Mangasarian and Musicant for squared hinge.

Active Support Vector Machine Classification, NIPS 2000, Algorithm 3.1. The dual has no constraint but
u >= 0. The method keeps a basis B of rows, takes the minimiser of the dual over u_B with the other u at
zero, sets negative components to zero and drops their rows from B. That loop (steps 1 to 3) alone can
only shrink B. The safeguards 2a to 4b, which the paper leaves out unless it "gets stuck", make it end at the
optimum. Here the loop is stuck if it comes to a minimiser over its B that is no better than where it last
let rows enter: it then goes back there and on with step 2a in force, which cannot get worse.

The paper's symbols, with one cost a row instead of one nu: H has rows h_i = y_i (x_i, bias feature);
W_i = 2 C_i (the paper's nu); Q = 1/W + HH'; f(u) = 1/2 u'Qu - e'u; u is the dual point alpha; B is the
basis and N the rest. By the Sherman-Morrison-Woodbury formula the minimiser over u_B is

    u_B = W (e - H_B z),    (I + H_B' W H_B) z = H_B' W e,

so only a matrix of the order of the features is ever solved with, and z = H_B' u_B are primal weights. Here

- z is solved for as a correction of the last z, (I + H_B' W H_B) dz = H_B' W (e - H_B z) - z. Rounding
  in the matrix, which is up- and downdated by the rows that enter and leave, then does not stay in z.
- differences of f are taken to the minimiser over u_B, where f is a sum of squares: nothing cancels.
- step 4b is misprinted: the direction is (u - (Qu - e))+ - u. It is taken in the variables u / sqrt(W),
  in which weighted rows have the paper's own form with nu = 1; with equal weights that is the same
  direction. It starts at a minimiser over B, so it lets exactly the violators outside B enter, and its
  exact line search needs no pass over the data.
- the start is the same step from the weights given; at z = 0 every row enters, as in step 0.
- the reported point is z with u. A step of the method is an update of the matrix or one pass over all rows.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from solvers.cost import Footprint, Pace
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions, UnsupportedProblem
from solvers.linalg.cholesky import cholesky_factor, cholesky_solve
from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.problem.problems import BinaryProblem
from solvers.problem.spec import ProblemSpec
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["ActiveSupportVectorMachine"]


MAX_FEATURES = 4096  # the matrix, its factor and a copy of the state are then 400 MB
PATIENCE = 10  # so many minimisers in a row that improve neither the bound nor the gap mean that rounding rules
SAME = 1e-13  # the relative difference below which two values of f are the same
DRIFT = 1e-3  # the error of a downdated matrix, beside the identity in it, at which it is summed up anew
_EPS = float(np.finfo(float).eps)
_HELD = ("alpha", "basis", "w", "z", "rhs")  # all that it takes to go back to where rows last entered


class ActiveSupportVectorMachine(Method[BinaryProblem, Any]):
    name = "asvm"
    tasks = ("binary",)
    losses = ("squared_hinge",)
    biases = ("regularized", "none")
    options = (
        Option(
            "safeguards",
            str,
            "when_stuck",
            "when f must fall from step to step (2a): once the plain loop got stuck; always, as printed, but slow",
            choices=("when_stuck", "every_step"),
        ),
        Option(
            "residual_tol",
            float,
            0.0,
            "the paper's own rule: stop once |u - (u - Qu + e)+| is below this (there 0.1), for one more pass an "
            "iteration; 0 leaves stopping to the certified gap",
            low=0.0,
        ),
    )
    footprint = Footprint(row=18.5, feature=9.0, square=3.0, kept_row=2.4, kept_feature=9.0, kept_square=1.0)
    pace = Pace(least=3.4, hardness=0.1, tallness=0.05, row_seconds=5.2e-8, pass_seconds=2.9e-4, gram_seconds=1.2e-9)
    paper = "Mangasarian, Musicant (2000): Active support vector machine classification"
    notes = f"A handful of passes for many rows and up to a few hundred features; at most {MAX_FEATURES} features."

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.W = read_only(2.0 * problem.costs)
        self.slack = np.empty(problem.data.n_rows)

    @classmethod
    def missing(cls, spec: ProblemSpec) -> UnsupportedProblem | None:
        lacks = super().missing(spec)
        if lacks is None and spec.n_features > MAX_FEATURES:
            limit = f"takes at most {MAX_FEATURES} features, for it solves with a matrix of features x features"
            return UnsupportedProblem("solver", f"{cls.name} {limit}; the data has {spec.n_features}")
        return lacks

    def init(self, seed: int, start: Start) -> State:
        n, k = self.problem.data.n_rows, self.problem.data.n_features + 1
        state: State = {
            "phase": "start",
            "alpha": np.zeros(n),
            "basis": np.zeros(n, dtype=bool),
            "w": np.zeros(k),  # H'u
            "z": np.zeros(k),
            "rhs": np.zeros(k),  # H_B' W (e - H_B z) - z
            "next_z": np.zeros(k),
            "gram": np.zeros((k, k)),  # upper triangle
            "summed": np.zeros(n, dtype=bool),  # the rows whose W h h' are in `gram`
            "peak": 0.0,  # the largest trace of `gram` since it was summed up anew
            "guarded": self.chosen["safeguards"] == "every_step",
            "held_bound": -np.inf,
            "best_gap": np.inf,
            "idle": 0,
            # The place counts: weights may be the same numbers in another order.
            "costs_seen": float((self.problem.costs * np.arange(1, n + 1)).sum()),
            **dict.fromkeys(("iterations", "rows_read", "face_moves", "gradient_steps", "returns"), 0),
        }
        state.update({f"held_{name}": state[name].copy() for name in _HELD})
        if start.state is not None:
            self._resume(state, start.state)
        elif start.coef is not None:
            bias = start.intercept / self.problem.bias_feature if self.problem.bias_feature > 0.0 else 0.0
            state["z"], state["next_z"] = np.append(start.coef, bias), np.append(start.coef, bias)
        return state

    @np.errstate(over="ignore", invalid="ignore")  # it is a status
    def step(self, state: State, target: float) -> Progress:
        act = {"solve": self._solve_on_basis, "residual": self._check_residual}.get(state["phase"], self._move)
        return act(state)

    def extract(self, state: State) -> Point:
        z = state["z"]
        return Point(z[:-1].copy(), float(self.problem.bias_feature * z[-1]), state["alpha"].copy())

    def _solve_on_basis(self, state: State) -> Progress:
        """The z of the minimiser over u_B."""
        self._sum_gram(state)
        k, trace = state["z"].size, float(state["gram"].trace())
        if not np.isfinite(trace):
            return self._progress(state, Status.NONFINITE)
        # Beside a larger trace the identity is lost in rounding, and the matrix would be singular.
        factor = cholesky_factor(state["gram"], max(1.0, k * _EPS * trace))
        state["next_z"] = state["z"] + cholesky_solve(factor, state["rhs"])
        state["phase"] = "move"
        return self._progress(state)

    def _sum_gram(self, state: State) -> None:
        """Bring H_B' W H_B up to date, by the rows that changed or from all rows of B."""
        basis, summed = state["basis"], state["summed"]
        changed = basis != summed
        has_drifted = state["peak"] * _EPS > DRIFT and bool((summed & ~basis).any())
        if has_drifted or np.count_nonzero(changed) >= np.count_nonzero(basis):
            state["gram"][:], state["peak"] = 0.0, 0.0
            changes = np.where(basis, self.W, 0.0)
        else:
            changes = np.where(changed, np.where(basis, self.W, -self.W), 0.0)
        self.problem.data.add_gram(changes, self.problem.bias_feature, state["gram"])
        state["rows_read"] += int(np.count_nonzero(changes))
        state["summed"] = basis.copy()
        state["peak"] = max(state["peak"], float(state["gram"].trace()))

    def _move(self, state: State) -> Progress:
        """Steps 2 to 4b: from u to the next u and basis, given z."""
        W, slack, basis, u, w, z = self.W, self.slack, state["basis"], state["alpha"], state["w"], state["next_z"]
        is_start = state["phase"] == "start"
        parts = np.zeros((3, z.size))
        constants = self.problem.signs, W, self.problem.bias_feature
        about = _Move(*_evaluate(*self.problem.data.flat(), *constants, read_only(z), u, basis, slack, parts))
        state["rows_read"] += W.size
        state["iterations"] += not is_start
        kept, clipped, entering = parts
        minimiser = kept + clipped  # H_B' of the minimiser over u_B; z, if nothing was rounded
        at_minimiser = about.n_clipped == 0 and not is_start
        bound = about.kept_total - 0.5 * (about.kept_energy + _dot(minimiser, minimiser))
        if at_minimiser and not state["guarded"] and bound < state["held_bound"] - SAME * abs(bound):
            return self._go_back(state)

        along, entry, rhs, phase, finished = 1.0, 0.0, kept - z, "solve", None
        if at_minimiser and np.sqrt(about.enter_squares) < self.chosen["residual_tol"]:
            w, finished = kept, Status.STOPPED
        elif at_minimiser or is_start:  # step 2b, then 4b
            if about.enter_energy > 0.0:
                entry = about.enter_energy / (about.enter_energy + _dot(entering, entering))
            w, rhs = kept + entry * entering, kept + entering - z
            state["gradient_steps"] += entry > 0.0 and not is_start
        elif not state["guarded"] or about.is_lower_clipped(w, minimiser, clipped, z):  # step 2
            w = kept
            phase = "residual" if self.chosen["residual_tol"] > 0.0 else "solve"
        else:  # step 2a, then 4a
            along = about.longest
            w = w + along * (minimiser - w)
            state["face_moves"] += 1
        before = basis.copy() if along < 1.0 else basis
        mismatch, total, squares = _update_dual(slack, W, basis, u, along, entry)
        if along < 1.0:
            rhs = minimiser - z - self.problem.weights_of(np.where(before & ~basis, W * slack, 0.0))
        state["w"], state["z"], state["rhs"], state["phase"] = w, z, rhs, phase

        primal = 0.5 * (_dot(z, z) + about.kept_energy + about.enter_energy)
        bound = total - 0.5 * (squares + _dot(w, w))
        gap = 0.5 * _dot(z - w, z - w) + mismatch
        if not np.isfinite(primal + gap):
            return self._progress(state, Status.NONFINITE)
        if at_minimiser and finished is None:
            finished = self._hold(state, bound, gap)
        estimate = gap / max(primal, self.problem.primal_floor)
        return self._progress(state, finished)._replace(primal=primal, dual_bound=bound, gap_estimate=estimate)

    def _hold(self, state: State, bound: float, gap: float) -> Status | None:
        """Remember the minimiser with the rows that enter; stalled, if none has been better for long."""
        improves = gap < 0.99 * state["best_gap"] or bound > state["held_bound"] + 0.1 * SAME * abs(bound)
        state["best_gap"] = min(gap, state["best_gap"])
        state["idle"] = 0 if improves else state["idle"] + 1
        state["held_bound"] = bound
        state["guarded"] = self.chosen["safeguards"] == "every_step"
        state.update({f"held_{name}": state[name].copy() for name in _HELD})
        return Status.STALLED if state["idle"] >= PATIENCE else None

    def _go_back(self, state: State) -> Progress:
        state.update({name: state[f"held_{name}"].copy() for name in _HELD})
        state["guarded"], state["phase"], state["returns"] = True, "solve", state["returns"] + 1
        return self._progress(state)

    def _check_residual(self, state: State) -> Progress:
        """The paper's stopping rule, which needs Qu at the clipped u."""
        w, u = state["w"], state["alpha"]
        self.problem.data.margins(w[:-1], self.slack)
        counted = self.W > 0.0
        gradient = self.problem.signs * (self.slack + self.problem.bias_feature * w[-1]) - 1.0
        gradient += np.divide(u, self.W, out=np.zeros_like(u), where=counted)
        residual = np.where(counted, u - np.maximum(u - gradient, 0.0), 0.0)
        state["rows_read"] += u.size
        state["phase"] = "solve"
        is_small = np.sqrt(_dot(residual, residual)) < self.chosen["residual_tol"]
        state["z"] = w.copy() if is_small else state["z"]
        return self._progress(state, Status.STOPPED if is_small else None)

    def _progress(self, state: State, finished: Status | None = None) -> Progress:
        passes = state["rows_read"] // self.problem.data.n_rows
        return Progress(state["iterations"], passes, None, None, None, finished)

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state, to the same bits; on another problem, start from its weights."""
        arrays = [name for name, value in state.items() if isinstance(value, np.ndarray)]
        if any(name not in earlier or np.shape(earlier[name]) != state[name].shape for name in arrays):
            raise InvalidOptions("warm_start", "is not a state of asvm on as many rows and features")
        if any(not np.isfinite(earlier[name]).all() for name in arrays):
            raise InvalidOptions("warm_start", "has numbers that are NaN or infinite")
        taken = {name: np.array(earlier[name], dtype=state[name].dtype) for name in arrays}
        w = self.problem.weights_of(taken["alpha"])
        is_own = np.allclose(w, taken["w"], rtol=0.0, atol=1e-9 * max(1.0, float(np.abs(w).max())))
        if is_own and earlier.get("costs_seen") == state["costs_seen"]:
            state.update(taken)
            for name in ("phase", "peak", "guarded", "held_bound", "best_gap", "idle"):
                state[name] = earlier[name]
        else:
            state["z"], state["next_z"] = taken["z"], taken["z"].copy()
        state["rows_read"] = self.problem.data.n_rows


class _Move(NamedTuple):
    """What decides a move: figures of rows with slack s, whose component of the minimiser is W s."""

    n_clipped: int  # rows of B with s < 0
    clipped_energy: float  # their sum of W s^2
    kept_energy: float  # sum of W s^2 over B's other rows
    kept_total: float  # sum of W s over those
    distance: float  # sum of (u - W s)^2 / W over B
    longest: float  # how far u can go towards the minimiser, as a fraction, before a component is zero
    enter_energy: float  # sum of W s^2 over violators outside B
    enter_squares: float  # sum of s^2 over those

    def is_lower_clipped(self, w: Floats, minimiser: Floats, clipped: Floats, z: Floats) -> bool:
        """Whether f is smaller at the clipped minimiser than at u, each compared with the minimiser itself."""
        rounding = minimiser - z
        of_clipped = -_dot(clipped, rounding) + 0.5 * (self.clipped_energy + _dot(clipped, clipped))
        of_u = _dot(w - minimiser, rounding) + 0.5 * (self.distance + _dot(w - minimiser, w - minimiser))
        return of_clipped < of_u


def _dot(left: Floats, right: Floats) -> float:
    # Not left @ right: BLAS would use threads, whose waiting costs more than the sum on a busy machine.
    return float((left * right).sum())


# --- kernels. s: slack 1 - h_i z of the row at hand, W s: its component of the minimiser ------------------------------


@njit(cache=True, nogil=True)
def _evaluate(
    values: Array,
    columns: Array,
    starts: Array,
    signs: Array,
    W: Array,
    bias_feature: float,
    z: Array,
    u: Array,
    basis: Array,
    slack: Array,
    parts: Array,
) -> tuple[int, float, float, float, float, float, float, float]:
    """The slack of every row, the sums of W s h over B's rows with s > 0, B's others and violators outside B into
    the rows of `parts`; returns the fields of _Move."""
    dense, d = starts.size == 0, z.size - 1
    n_clipped, clipped_energy, kept_energy, kept_total, distance, longest = 0, 0.0, 0.0, 0.0, 0.0, 1.0
    enter_energy, enter_squares = 0.0, 0.0
    for i in range(W.size):
        slack[i] = 0.0
        if W[i] == 0.0:
            continue
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = dot_dense(values[first:past], z) if dense else dot_sparse(values, columns, first, past, z)
        s = 1.0 - signs[i] * (score + bias_feature * z[d])
        slack[i] = s
        component = W[i] * s
        if basis[i]:
            distance += W[i] * (u[i] / W[i] - s) ** 2
            if s >= 0.0:
                part = 0
                kept_energy += component * s
                kept_total += component
            else:
                part = 1
                n_clipped += 1
                clipped_energy += component * s
                longest = min(longest, u[i] / (u[i] - component))
        elif s > 0.0:
            part = 2
            enter_energy += component * s
            enter_squares += s * s
        else:
            continue
        multiplier, out = component * signs[i], parts[part]
        out[d] += multiplier * bias_feature
        if dense:
            add_dense(values[first:past], multiplier, out)
        else:
            add_sparse(values, columns, first, past, multiplier, out)
    return n_clipped, clipped_energy, kept_energy, kept_total, distance, longest, enter_energy, enter_squares


@njit(cache=True, nogil=True)
def _update_dual(
    slack: Array, W: Array, basis: Array, u: Array, along: float, entry: float
) -> tuple[float, float, float]:
    """Move u_B the fraction `along` of the way to the minimiser, clipped; let violators enter with `entry` W s.

    Returns the sums over rows of the gap's terms, u, and u^2 / W.
    """
    mismatch, total, squares = 0.0, 0.0, 0.0
    for i in range(W.size):
        if W[i] == 0.0:
            continue
        s = slack[i]
        if basis[i]:
            leaves = s < 0.0 and u[i] / (u[i] - W[i] * s) <= along
            u[i] = W[i] * s if along == 1.0 else u[i] + along * (W[i] * s - u[i])
            if leaves or u[i] <= 0.0:
                u[i] = 0.0
                basis[i] = False
        elif entry > 0.0 and s > 0.0:
            u[i] = entry * W[i] * s
            basis[i] = u[i] > 0.0
        share = u[i] / W[i]
        mismatch += 0.5 * W[i] * (max(s, 0.0) - share) ** 2 + u[i] * max(-s, 0.0)
        total += u[i]
        squares += u[i] * share
    return mismatch, total, squares
