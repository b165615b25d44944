"""`lsvm`: the Lagrangian support vector machine (Mangasarian and Musicant 2001), for squared hinge.

The dual is min over u >= 0 of 1/2 u'Qu - e'u. A point u is optimal if and only if Qu - e = ((Qu - e) - alpha u)+ for
some alpha > 0. The method uses this equation as a fixed-point iteration:

    u <- Q^-1 (e + s),    s <- ((Qu - e) - alpha u)+ = (s - alpha u)+

The paper has one cost nu and Q = 1/nu + HH', and proves convergence for 0 < alpha < 2/nu. Here H has the rows
h_i = y_i (x_i, bias feature), W_i = 2 C_i and Q = 1/W + HH'. In the variables u / sqrt(W) and s sqrt(W) this is the
paper's problem with nu = 1, so alpha can be any number in (0, 2). In u and s, the step of a row is alpha / W_i. The
option `alpha` is the number in (0, 2). Rows of cost 0 are left out.

By the Sherman-Morrison-Woodbury formula, with z = H'u and the slack 1 - h_i z of a row,

    (I + H'WH) z = H'W (e + s),    u = W (s + slack),    s_new = ((1 - alpha) s - alpha slack)+

Because e = Hz + slack, the next z is z + (I + H'WH)^-1 (H'W (slack + s_new) - z). The code uses this form, in which
rounding errors of the matrix do not accumulate in z. One matrix of features x features is factored once. An iteration
is one pass over the rows, and z are the primal weights. With alpha = 1, s_new = (-slack)+, and z moves by -(I +
H'WH)^-1 times the gradient of P.

In s the iteration is a projected gradient step of length alpha for min over s >= 0 of 1/2 (e + s)'Q^-1 (e + s). It
converges linearly, and slowly if few of many rows are support vectors. The default is therefore Nesterov's acceleration
(1983): s + t (s - s_before), restarted when the gradient shows an overshoot. The acceleration uses alpha = 1, the
longest step for which it converges. Because z is an affine function of s, the code extrapolates z instead of s.
`extrapolate` = false is the paper's iteration.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from solvers.cost import Footprint, Pace
from solvers.data.rows import read_only
from solvers.errors import InvalidOptions, UnsupportedProblem
from solvers.linalg.cholesky import cholesky_factor, cholesky_solve
from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods._shared.signed_rows import SignedRows, signed_rows
from solvers.problem.problems import BinaryProblem
from solvers.problem.spec import ProblemSpec
from solvers.result import Status
from solvers.state import State

__all__ = ["LagrangianSupportVectorMachine", "LsvmState"]


MAX_FEATURES = 4096
"""Maximum number of features. Larger: wider data is accepted; memory grows with the square: the matrix and its factor
take 270 MB at 4,096. The value limits memory."""


@dataclass(slots=True)
class LsvmState(State):
    z: Floats  # weights that the next pass evaluates; the last entry is the bias's weight
    evaluated: Floats  # weights that the last pass evaluated
    before: Floats  # result of the last iteration, before extrapolation
    s: Floats  # the paper's ((Qu - e) - alpha u)+, one number per row
    is_fresh: bool  # true before the first iteration: no s belongs to z yet
    momentum: float  # Nesterov's t; 1 after a restart
    iterations: int
    rows_read: int


class LagrangianSupportVectorMachine(Method[BinaryProblem, LsvmState]):
    state_type = LsvmState
    name = "lsvm"
    tasks = ("binary",)
    losses = ("squared_hinge",)
    biases = ("regularized", "none")
    options = (
        Option("extrapolate", bool, True, "accelerate the iteration by extrapolation; false: the paper's iteration"),
        Option(
            "alpha",
            float,
            1.9,
            "step length: the paper's alpha times nu; used only without extrapolation (with it, alpha is 1)",
            low=0.01,
            high=1.99,
        ),
    )
    footprint = Footprint(row=15.0, feature=8.0, square=3.0, kept_row=1.0, kept_feature=3.0)
    pace = Pace(
        least=3.3,
        hardness=0.54,
        precision=0.09,
        tallness=0.04,
        entry_seconds=3.7e-9,
        pass_seconds=1.1e-4,
        gram_seconds=5.4e-10,
    )
    paper = "Mangasarian, Musicant (2001): Lagrangian support vector machines"
    notes = (
        f"One factorisation, then cheap iterations, many of them if C is large; at most {MAX_FEATURES} features. "
        "Solver asvm solves the same problems in fewer passes."
    )

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.rows = signed_rows(problem)
        self.alpha = 1.0 if options["extrapolate"] else float(options["alpha"])
        self.factor: Floats | None = None

    @classmethod
    def missing(cls, spec: ProblemSpec) -> UnsupportedProblem | None:
        lacks = super().missing(spec)
        if lacks is None and spec.n_features > MAX_FEATURES:
            limit = f"takes at most {MAX_FEATURES} features because it factors a matrix of features x features"
            return UnsupportedProblem("solver", f"{cls.name} {limit}; the data has {spec.n_features}")
        return lacks

    def init(self, seed: int, start: Start) -> LsvmState:
        z = np.zeros(self.problem.data.n_features + 1)
        earlier = self.earlier(start)
        if earlier is None and start.coef is not None:
            bias = start.intercept / self.problem.bias_feature if self.problem.bias_feature > 0.0 else 0.0
            z = np.append(start.coef, bias)
        state = LsvmState(
            z=z,
            evaluated=z.copy(),
            before=z.copy(),
            s=np.zeros(self.problem.data.n_rows),
            is_fresh=True,
            momentum=1.0,
            iterations=0,
            rows_read=0,
        )
        if earlier is not None:
            self._resume(state, earlier)
        return state

    @np.errstate(over="ignore", invalid="ignore")  # overflow becomes a status
    def step(self, state: LsvmState, target: float) -> Progress:
        n = self.problem.data.n_rows
        state.rows_read += n
        if self.factor is None:
            finished = None if self._factorise() else Status.NONFINITE
            return Progress(state.iterations, state.rows_read // n, None, None, None, finished)
        # In the first iteration no s belongs to z. With alpha = 1 the new s depends only on the slacks.
        alpha = 1.0 if state.is_fresh else self.alpha
        z, sums = state.z, np.zeros((2, state.z.size))
        loss = _iterate(self.rows, read_only(z), alpha, state.s, sums)
        gradient = z - sums[0] - sums[1]
        reached = z + cholesky_solve(self.factor, sums[0] - z)
        state.z = self._extrapolated(state, reached, gradient) if self.chosen["extrapolate"] else reached
        state.evaluated, state.before, state.is_fresh = z, reached, False
        state.iterations += 1

        primal = 0.5 * float((z * z).sum()) + loss
        gap = 0.5 * float((gradient * gradient).sum())
        if not math.isfinite(primal + gap):
            return Progress(state.iterations, state.rows_read // n, None, None, None, Status.NONFINITE)
        estimate = gap / max(primal, self.problem.primal_floor)
        return Progress(state.iterations, state.rows_read // n, primal, primal - gap, estimate)

    def extract(self, state: LsvmState) -> Point:
        z = state.evaluated
        return Point(z[:-1].copy(), float(self.problem.bias_feature * z[-1]), None)

    def _factorise(self) -> bool:
        """Factor I + H'WH. Return False if its numbers overflow."""
        k = self.problem.data.n_features + 1
        matrix = np.zeros((k, k))
        self.problem.data.add_gram(2.0 * self.problem.costs, self.problem.bias_feature, matrix)
        trace = float(matrix.trace())
        if not math.isfinite(trace):
            return False
        # A trace above 1 / (k eps) would round the identity away and make the matrix singular.
        self.factor = cholesky_factor(matrix, max(1.0, k * float(np.finfo(float).eps) * trace))
        return True

    def _extrapolated(self, state: LsvmState, reached: Floats, gradient: Floats) -> Floats:
        step = reached - state.before
        if float((gradient * step).sum()) > 0.0:
            state.momentum = 1.0
        momentum = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state.momentum**2))
        share = (state.momentum - 1.0) / momentum
        state.momentum = momentum
        return np.asarray(reached + share * step)

    def _resume(self, state: LsvmState, earlier: LsvmState) -> None:
        """Continue from the state `earlier` with bit-identical results. If the rows differ, start from its weights."""
        vectors = earlier.z, earlier.evaluated, earlier.before
        if any(vector.shape != state.z.shape for vector in vectors):
            features = self.problem.data.n_features
            raise InvalidOptions("warm_start", f"is not a state of lsvm on data with {features} features; leave it out")
        if not all(np.isfinite(vector).all() for vector in vectors):
            raise InvalidOptions("warm_start", "has weights that are NaN or infinite; leave it out")
        state.z, state.evaluated, state.before = vectors
        if earlier.s.shape == state.s.shape:
            state.s = np.maximum(earlier.s, 0.0)
            state.is_fresh, state.momentum = earlier.is_fresh, earlier.momentum


# --- kernel. slack: 1 - h_i z of the current row, W: 2 C_i, move: slack + s_new ---------------------------------------


@njit(cache=True, nogil=True)
def _iterate(rows: SignedRows, z: Array, alpha: float, s: Array, sums: Array) -> float:
    """Replace s by s_new and return the loss at z. Add W move h to sums[0] and W (slack+ - move) h to sums[1]."""
    values, columns, starts, signs, costs = rows.values, rows.columns, rows.starts, rows.signs, rows.costs
    bias_feature = rows.bias_feature
    dense, d = starts.size == 0, z.size - 1
    loss = 0.0
    for i in range(costs.size):
        W = 2.0 * costs[i]
        if W == 0.0:
            continue
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = dot_dense(values[first:past], z) if dense else dot_sparse(values, columns, first, past, z)
        slack = 1.0 - signs[i] * (score + bias_feature * z[d])
        s[i] = max((1.0 - alpha) * s[i] - alpha * slack, 0.0)
        move, violation = slack + s[i], max(slack, 0.0)
        loss += 0.5 * W * violation * violation
        for part in range(2):
            multiplier = W * signs[i] * (move if part == 0 else violation - move)
            if multiplier == 0.0:
                continue
            out = sums[part]
            out[d] += multiplier * bias_feature
            if dense:
                add_dense(values[first:past], multiplier, out)
            else:
                add_sparse(values, columns, first, past, multiplier, out)
    return loss
