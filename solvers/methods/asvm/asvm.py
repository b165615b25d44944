"""`asvm`: the active-set method for squared hinge (Mangasarian and Musicant 2000, Algorithm 3.1).

The dual's only constraint is u >= 0. The method keeps a set B of rows, the basis. Steps 1 to 3 of the paper form a
loop: minimise the dual over u_B with the other variables at zero, set negative components to zero, and remove their
rows from B. This loop can only shrink B. The paper applies its safeguards, steps 2a to 4b, only if the loop "gets
stuck"; with them the method ends at the optimum. Here the loop counts as stuck if it reaches a minimiser over B that is
no better than the one at which rows last entered. The method then returns to that point and continues with step 2a in
force, so f never increases.

Symbols are the paper's, with one cost per row instead of one nu: H has the rows h_i = y_i (x_i, bias feature);
W_i = 2 C_i (the paper's nu); Q = 1/W + HH'; f(u) = 1/2 u'Qu - e'u; u is the dual point alpha. By the
Sherman-Morrison-Woodbury formula the minimiser over u_B is

    u_B = W (e - H_B z),    (I + H_B' W H_B) z = H_B' W e,

so every linear system has one unknown per feature, and z = H_B' u_B are primal weights. Details of this implementation:

- z is computed as a correction of the last z: (I + H_B' W H_B) dz = H_B' W (e - H_B z) - z. The matrix is updated and
  downdated by the rows that enter and leave B. In this form rounding errors of the matrix do not accumulate in z.
- Values of f are compared by their differences from the minimum over u_B. These are sums of squares, so no digits
  cancel.
- Step 4b is misprinted in the paper: the direction is (u - (Qu - e))+ - u. It is taken in the variables u / sqrt(W),
  which give weighted rows the paper's form with nu = 1. With equal weights it is the same direction. The step starts at
  a minimiser over B, so exactly the violators outside B enter, and its exact line search needs no pass over the data.
- The first iterate is the same step from the given weights. At z = 0 every row enters, as in the paper's step 0.
- The result is z with the dual point u. One step of the method either updates the matrix or makes one pass over all
  rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.cost import Footprint, Pace
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions, UnsupportedProblem
from solvers.linalg.cholesky import cholesky_factor, cholesky_solve
from solvers.linalg.types import Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods._shared.signed_rows import signed_rows
from solvers.methods.asvm.basis_moves import Move, evaluate_move, update_dual
from solvers.problem.problems import BinaryProblem
from solvers.problem.spec import ProblemSpec
from solvers.result import Status
from solvers.state import State

__all__ = ["ActiveSupportVectorMachine", "AsvmState"]


MAX_FEATURES = 4096
"""Maximum number of features. Larger: wider data is accepted; memory grows with the square: 400 MB at 4,096 for the
matrix, its factor and a copy of the state. The value limits memory."""
PATIENCE = 10
"""Number of consecutive minimisers without a better bound or gap after which the run ends as `stalled`. Only rounding
errors remain then. Larger: more iterations without progress. Set by hand; no measurement is recorded."""
SAME = 1e-13
"""Relative difference below which two values of f count as equal. 1e-13 is about 900 times the largest rounding error
of one operation. Larger: the loop counts as stuck less often, and the run stalls sooner. Set by hand; no measurement is
recorded."""
DRIFT = 1e-3
"""Maximum rounding error of a downdated matrix, relative to the identity that is part of it. Above this error, the
matrix is summed again from all rows of the basis. Larger: fewer such sums, less precise steps. Set by hand; no
measurement is recorded."""
_EPS = float(np.finfo(float).eps)


@dataclass(slots=True)
class Iterate(State):
    """A dual point, its basis, and the vectors that the next linear system needs."""

    alpha: Floats  # the dual point u, one number per row
    basis: NDArray[np.bool_]  # whether the row is in B
    w: Floats  # H'u
    z: Floats  # primal weights of the minimiser over u_B; the last entry is the bias's weight
    rhs: Floats  # H_B' W (e - H_B z) - z

    def copied(self) -> "Iterate":
        return Iterate(self.alpha.copy(), self.basis.copy(), self.w.copy(), self.z.copy(), self.rhs.copy())


@dataclass(slots=True)
class AsvmState(State):
    phase: str  # what the next step does: start, solve, move or residual
    iterate: Iterate
    held: Iterate  # the iterate at which rows last entered; the loop returns to it if it gets stuck
    held_bound: float  # dual bound at `held`
    next_z: Floats  # solution of the last linear system
    gram: Floats  # H_B' W H_B for the rows in `summed`, upper triangle
    summed: NDArray[np.bool_]  # rows whose W h h' are in `gram`
    peak: float  # largest trace of `gram` since it was last summed from all rows
    guarded: bool  # whether step 2a is in force
    best_gap: float  # smallest gap at a minimiser so far
    idle: int  # consecutive minimisers that improved neither bound nor gap
    costs_seen: float  # checksum of the costs, by which a warm start recognises the same problem
    iterations: int
    rows_read: int
    face_moves: int  # number of steps 2a with 4a
    gradient_steps: int  # number of steps 2b with 4b
    returns: int  # number of times the loop got stuck


class ActiveSupportVectorMachine(Method[BinaryProblem, AsvmState]):
    state_type = AsvmState
    name = "asvm"
    tasks = ("binary",)
    losses = ("squared_hinge",)
    biases = ("regularized", "none")
    options = (
        Option(
            "safeguards",
            str,
            "when_stuck",
            "when step 2a requires f to fall in every step: when_stuck, only after the plain loop got stuck; "
            "every_step, always, as printed in the paper (slow)",
            choices=("when_stuck", "every_step"),
        ),
        Option(
            "residual_tol",
            float,
            0.0,
            "the paper's stopping rule: stop once |u - (u - Qu + e)+| is below this (0.1 in the paper); costs one more "
            "pass per iteration; 0 leaves stopping to the certified gap",
            low=0.0,
        ),
    )
    footprint = Footprint(row=18.5, feature=9.0, square=3.0, kept_row=2.4, kept_feature=9.0, kept_square=1.0)
    pace = Pace(least=3.4, hardness=0.1, tallness=0.05, row_seconds=5.2e-8, pass_seconds=2.9e-4, gram_seconds=1.2e-9)
    paper = "Mangasarian, Musicant (2000): Active support vector machine classification"
    notes = f"A handful of passes for many rows and up to a few hundred features; at most {MAX_FEATURES} features."

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.rows = signed_rows(problem)
        self.W = read_only(2.0 * problem.costs)
        self.slack = np.empty(problem.data.n_rows)

    @classmethod
    def missing(cls, spec: ProblemSpec) -> UnsupportedProblem | None:
        lacks = super().missing(spec)
        if lacks is None and spec.n_features > MAX_FEATURES:
            limit = f"takes at most {MAX_FEATURES} features because it factors a matrix of features x features"
            return UnsupportedProblem("solver", f"{cls.name} {limit}; the data has {spec.n_features}")
        return lacks

    def init(self, seed: int, start: Start) -> AsvmState:
        n, k = self.problem.data.n_rows, self.problem.data.n_features + 1
        earlier = self.earlier(start)
        z = np.zeros(k)
        if earlier is None and start.coef is not None:
            bias = start.intercept / self.problem.bias_feature if self.problem.bias_feature > 0.0 else 0.0
            z = np.append(start.coef, bias)
        iterate = Iterate(np.zeros(n), np.zeros(n, dtype=bool), np.zeros(k), z, np.zeros(k))
        state = AsvmState(
            phase="start",
            iterate=iterate,
            held=iterate.copied(),
            held_bound=-np.inf,
            next_z=z.copy(),
            gram=np.zeros((k, k)),
            summed=np.zeros(n, dtype=bool),
            peak=0.0,
            guarded=self.chosen["safeguards"] == "every_step",
            best_gap=np.inf,
            idle=0,
            # Weighted by the row number: the same costs in another order are a different problem.
            costs_seen=float((self.problem.costs * np.arange(1, n + 1)).sum()),
            iterations=0,
            rows_read=0,
            face_moves=0,
            gradient_steps=0,
            returns=0,
        )
        if earlier is not None:
            self._resume(state, earlier)
        return state

    @np.errstate(over="ignore", invalid="ignore")  # overflow becomes a status
    def step(self, state: AsvmState, target: float) -> Progress:
        if state.phase == "solve":
            return self._solve_on_basis(state)
        if state.phase == "residual":
            return self._check_residual(state)
        return self._move(state)

    def extract(self, state: AsvmState) -> Point:
        z = state.iterate.z
        return Point(z[:-1].copy(), float(self.problem.bias_feature * z[-1]), state.iterate.alpha.copy())

    def _solve_on_basis(self, state: AsvmState) -> Progress:
        """Carry out step 1: compute z of the minimiser over u_B."""
        self._sum_gram(state)
        k, trace = state.next_z.size, float(state.gram.trace())
        if not np.isfinite(trace):
            return self._progress(state, Status.NONFINITE)
        # A trace above 1 / (k eps) would round the identity away and make the matrix singular.
        factor = cholesky_factor(state.gram, max(1.0, k * _EPS * trace))
        state.next_z = state.iterate.z + cholesky_solve(factor, state.iterate.rhs)
        state.phase = "move"
        return self._progress(state)

    def _sum_gram(self, state: AsvmState) -> None:
        """Update H_B' W H_B by the rows that changed, or sum it from all rows of B if that is cheaper or needed."""
        basis, summed = state.iterate.basis, state.summed
        changed = basis != summed
        has_drifted = state.peak * _EPS > DRIFT and bool((summed & ~basis).any())
        if has_drifted or np.count_nonzero(changed) >= np.count_nonzero(basis):
            state.gram[:], state.peak = 0.0, 0.0
            changes = np.where(basis, self.W, 0.0)
        else:
            changes = np.where(changed, np.where(basis, self.W, -self.W), 0.0)
        self.problem.data.add_gram(changes, self.problem.bias_feature, state.gram)
        state.rows_read += int(np.count_nonzero(changes))
        state.summed = basis.copy()
        state.peak = max(state.peak, float(state.gram.trace()))

    def _move(self, state: AsvmState) -> Progress:
        """Carry out steps 2 to 4b: compute the next u and basis from z."""
        now, z = state.iterate, state.next_z
        basis, w = now.basis, now.w
        is_start = state.phase == "start"
        parts = np.zeros((3, z.size))
        about = evaluate_move(self.rows, read_only(z), now.alpha, basis, self.slack, parts)
        state.rows_read += basis.size
        state.iterations += not is_start
        kept, clipped, entering = parts
        minimiser = kept + clipped  # H_B' of the minimiser over u_B; equal to z up to rounding
        at_minimiser = about.n_clipped == 0 and not is_start
        bound = about.kept_total - 0.5 * (about.kept_energy + _dot(minimiser, minimiser))
        if at_minimiser and not state.guarded and bound < state.held_bound - SAME * abs(bound):
            return self._go_back(state)

        along, entry, rhs, phase, finished = 1.0, 0.0, kept - z, "solve", None
        if at_minimiser and np.sqrt(about.enter_squares) < self.chosen["residual_tol"]:
            w, finished = kept, Status.STOPPED
        elif at_minimiser or is_start:  # step 2b, then 4b
            if about.enter_energy > 0.0:
                entry = about.enter_energy / (about.enter_energy + _dot(entering, entering))
            w, rhs = kept + entry * entering, kept + entering - z
            state.gradient_steps += entry > 0.0 and not is_start
        elif not state.guarded or _is_lower_clipped(about, w, minimiser, clipped, z):  # step 2
            w = kept
            phase = "residual" if self.chosen["residual_tol"] > 0.0 else "solve"
        else:  # step 2a, then 4a
            along = about.longest
            w = w + along * (minimiser - w)
            state.face_moves += 1
        before = basis.copy() if along < 1.0 else basis
        dual = update_dual(self.rows.costs, self.slack, basis, now.alpha, along, entry)
        if along < 1.0:
            rhs = minimiser - z - self.problem.weights_of(np.where(before & ~basis, self.W * self.slack, 0.0))
        now.w, now.z, now.rhs, state.phase = w, z, rhs, phase

        primal = 0.5 * (_dot(z, z) + about.kept_energy + about.enter_energy)
        bound = dual.total - 0.5 * (dual.squares + _dot(w, w))
        gap = 0.5 * _dot(z - w, z - w) + dual.mismatch
        if not np.isfinite(primal + gap):
            return self._progress(state, Status.NONFINITE)
        if at_minimiser and finished is None:
            finished = self._hold(state, bound, gap)
        estimate = gap / max(primal, self.problem.primal_floor)
        return self._progress(state, finished)._replace(primal=primal, dual_bound=bound, gap_estimate=estimate)

    def _hold(self, state: AsvmState, bound: float, gap: float) -> Status | None:
        """Store the minimiser, with the rows that enter, as the iterate to return to. Return STALLED after PATIENCE
        minimisers without improvement."""
        improves = gap < 0.99 * state.best_gap or bound > state.held_bound + 0.1 * SAME * abs(bound)
        state.best_gap = min(gap, state.best_gap)
        state.idle = 0 if improves else state.idle + 1
        state.held_bound = bound
        state.guarded = self.chosen["safeguards"] == "every_step"
        state.held = state.iterate.copied()
        return Status.STALLED if state.idle >= PATIENCE else None

    def _go_back(self, state: AsvmState) -> Progress:
        """Return to the iterate at which rows last entered the basis, and apply step 2a from now on."""
        state.iterate = state.held.copied()
        state.guarded, state.phase = True, "solve"
        state.returns += 1
        return self._progress(state)

    def _check_residual(self, state: AsvmState) -> Progress:
        """Apply the paper's stopping rule, which needs Qu at the clipped u."""
        w, u = state.iterate.w, state.iterate.alpha
        self.problem.data.margins(w[:-1], self.slack)
        counted = self.W > 0.0
        gradient = self.problem.signs * (self.slack + self.problem.bias_feature * w[-1]) - 1.0
        gradient += np.divide(u, self.W, out=np.zeros_like(u), where=counted)
        residual = np.where(counted, u - np.maximum(u - gradient, 0.0), 0.0)
        state.rows_read += u.size
        state.phase = "solve"
        is_small = np.sqrt(_dot(residual, residual)) < self.chosen["residual_tol"]
        if is_small:
            state.iterate.z = w.copy()
        return self._progress(state, Status.STOPPED if is_small else None)

    def _progress(self, state: AsvmState, finished: Status | None = None) -> Progress:
        passes = state.rows_read // self.problem.data.n_rows
        return Progress(state.iterations, passes, None, None, None, finished)

    def _resume(self, state: AsvmState, earlier: AsvmState) -> None:
        """Continue from the state `earlier` with bit-identical results. On another problem, start from its weights."""
        expected, stored = state.stored(copy=False), earlier.stored(copy=False)
        arrays = [name for name, value in expected.items() if isinstance(value, np.ndarray)]
        if any(stored[name].shape != expected[name].shape for name in arrays):
            raise InvalidOptions(
                "warm_start", "is not a state of asvm on data with these rows and features; leave it out"
            )
        if any(not np.isfinite(stored[name]).all() for name in arrays):
            raise InvalidOptions("warm_start", "has numbers that are NaN or infinite; leave it out")
        w = self.problem.weights_of(earlier.iterate.alpha)
        is_own = np.allclose(w, earlier.iterate.w, rtol=0.0, atol=1e-9 * max(1.0, float(np.abs(w).max())))
        if is_own and earlier.costs_seen == state.costs_seen:
            state.iterate, state.held, state.held_bound = earlier.iterate, earlier.held, earlier.held_bound
            state.gram, state.summed, state.peak = earlier.gram, earlier.summed, earlier.peak
            state.phase, state.next_z, state.guarded = earlier.phase, earlier.next_z, earlier.guarded
            state.best_gap, state.idle = earlier.best_gap, earlier.idle
        else:
            state.iterate.z, state.next_z = earlier.iterate.z, earlier.iterate.z.copy()
        state.rows_read = self.problem.data.n_rows


def _is_lower_clipped(about: Move, w: Floats, minimiser: Floats, clipped: Floats, z: Floats) -> bool:
    """Return whether f is smaller at the clipped minimiser than at u. Both are compared with the minimiser itself."""
    rounding = minimiser - z
    of_clipped = -_dot(clipped, rounding) + 0.5 * (about.clipped_energy + _dot(clipped, clipped))
    of_u = _dot(w - minimiser, rounding) + 0.5 * (about.distance + _dot(w - minimiser, w - minimiser))
    return of_clipped < of_u


def _dot(left: Floats, right: Floats) -> float:
    # Not left @ right: BLAS would start threads, which cost more than the sum on a busy machine.
    return float((left * right).sum())
