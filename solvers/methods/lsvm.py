"""`lsvm`: the Lagrangian support vector machine of Mangasarian and Musicant, for squared hinge.

Lagrangian Support Vector Machines, JMLR 2001. The dual is min over u >= 0 of 1/2 u'Qu - e'u, and u is optimal
exactly if Qu - e = ((Qu - e) - alpha u)+ for some alpha > 0, which the method uses as an iteration:

    u <- Q^-1 (e + s),    s <- ((Qu - e) - alpha u)+ = (s - alpha u)+

The paper has one cost nu, Q = 1/nu + HH' and convergence for 0 < alpha < 2/nu. With H's rows h_i =
y_i (x_i, bias feature), W_i = 2 C_i and Q = 1/W + HH', the variables u / sqrt(W) and s sqrt(W) give the paper's
problem with nu = 1, where alpha may be anything in (0, 2); in u and s themselves it is alpha / W_i, a step for each
row. The option `alpha` is that number; rows of cost 0 are left out.

By the Sherman-Morrison-Woodbury formula, with z = H'u and the slack 1 - h_i z of a row,

    (I + H'WH) z = H'W (e + s),    u = W (s + slack),    s_new = ((1 - alpha) s - alpha slack)+

and as e = Hz + slack, the next z is z + (I + H'WH)^-1 (H'W (slack + s_new) - z), the form used here: rounding in the
matrix does not stay in z. So one matrix of the order of the features is factored once, an iteration is one pass
over the rows, and z are the primal weights. With alpha = 1, s_new = (-slack)+, and z moves by -(I + H'WH)^-1 times the
gradient of P.

In s the iteration is a projected gradient step of length alpha for min over s >= 0 of 1/2 (e + s)'Q^-1 (e + s),
whose convergence is linear and can be slow: many rows, few of them support vectors. By default it is therefore
extrapolated as by Nesterov, s + t (s - s_before), with a restart when the gradient says that it went too far, and
with alpha = 1, the longest step for which that converges. As z is an affine function of s, z is extrapolated instead.
`extrapolate` = false is the paper's iteration and nothing else.
"""

import math
from collections.abc import Mapping
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
from solvers.problem.problems import BinaryProblem
from solvers.problem.spec import ProblemSpec
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["LagrangianSupportVectorMachine"]


MAX_FEATURES = 4096  # the matrix and its factor are then 270 MB


class LagrangianSupportVectorMachine(Method[BinaryProblem, Any]):
    name = "lsvm"
    tasks = ("binary",)
    losses = ("squared_hinge",)
    biases = ("regularized", "none")
    options = (
        Option("extrapolate", bool, True, "extrapolate the iteration; false: the paper's iteration and nothing else"),
        Option(
            "alpha",
            float,
            1.9,
            "the paper's alpha times nu, without extrapolation; with it alpha is 1",
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
        self.W = read_only(2.0 * problem.costs)
        self.alpha = 1.0 if options["extrapolate"] else float(options["alpha"])
        self.factor: Floats | None = None

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
            "z": np.zeros(k),  # where the next pass evaluates
            "evaluated": np.zeros(k),
            "before": np.zeros(k),  # the z of the last s that was not extrapolated
            "s": np.zeros(n),
            "is_fresh": True,  # z is not yet that of s
            "momentum": 1.0,
            "iterations": 0,
            "rows_read": 0,
        }
        if start.state is not None:
            self._resume(state, start.state)
        elif start.coef is not None:
            bias = start.intercept / self.problem.bias_feature if self.problem.bias_feature > 0.0 else 0.0
            for name in ("z", "evaluated", "before"):
                state[name] = np.append(start.coef, bias)
        return state

    @np.errstate(over="ignore", invalid="ignore")  # it is a status
    def step(self, state: State, target: float) -> Progress:
        n = self.problem.data.n_rows
        state["rows_read"] += n
        if self.factor is None:
            is_finite = self._factorise()
            finished = None if is_finite else Status.NONFINITE
            return Progress(state["iterations"], state["rows_read"] // n, None, None, None, finished)
        # s can be found from the slacks alone if alpha is 1; at a start there is no s that belongs to z.
        alpha = 1.0 if state["is_fresh"] else self.alpha
        z, sums = state["z"], np.zeros((2, state["z"].size))
        constants = self.problem.signs, self.W, self.problem.bias_feature
        loss = _iterate(*self.problem.data.flat(), *constants, read_only(z), alpha, state["s"], sums)
        gradient = z - sums[0] - sums[1]
        reached = z + cholesky_solve(self.factor, sums[0] - z)
        state["evaluated"], state["is_fresh"] = z, False
        state["z"] = self._extrapolated(state, reached, gradient) if self.chosen["extrapolate"] else reached
        state["before"] = reached
        state["iterations"] += 1

        primal = 0.5 * float((z * z).sum()) + loss
        gap = 0.5 * float((gradient * gradient).sum())
        if not math.isfinite(primal + gap):
            return Progress(state["iterations"], state["rows_read"] // n, None, None, None, Status.NONFINITE)
        estimate = gap / max(primal, self.problem.primal_floor)
        return Progress(state["iterations"], state["rows_read"] // n, primal, primal - gap, estimate)

    def extract(self, state: State) -> Point:
        z = state["evaluated"]
        return Point(z[:-1].copy(), float(self.problem.bias_feature * z[-1]), None)

    def _factorise(self) -> bool:
        """Factor I + H'WH; False if its numbers overflow."""
        k = self.problem.data.n_features + 1
        matrix = np.zeros((k, k))
        self.problem.data.add_gram(self.W, self.problem.bias_feature, matrix)
        trace = float(matrix.trace())
        if not math.isfinite(trace):
            return False
        # Beside a larger trace the identity is lost in rounding, and the matrix would be singular.
        self.factor = cholesky_factor(matrix, max(1.0, k * float(np.finfo(float).eps) * trace))
        return True

    def _extrapolated(self, state: State, reached: Floats, gradient: Floats) -> Floats:
        step = reached - state["before"]
        if float((gradient * step).sum()) > 0.0:
            state["momentum"] = 1.0
        momentum = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * state["momentum"] ** 2))
        share = (state["momentum"] - 1.0) / momentum
        state["momentum"] = momentum
        return np.asarray(reached + share * step)

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state, to the same bits; on other rows, start from its weights."""
        vectors = ("z", "evaluated", "before")
        if any(name not in earlier or np.shape(earlier[name]) != state[name].shape for name in vectors):
            features = self.problem.data.n_features
            raise InvalidOptions("warm_start", f"is not a state of lsvm on {features} features")
        if any(not np.isfinite(earlier[name]).all() for name in vectors):
            raise InvalidOptions("warm_start", "has weights that are NaN or infinite")
        state.update({name: np.array(earlier[name], dtype=np.float64) for name in vectors})
        if np.shape(earlier.get("s", ())) == state["s"].shape:
            state["s"] = np.maximum(np.array(earlier["s"], dtype=np.float64), 0.0)
            state["is_fresh"], state["momentum"] = bool(earlier["is_fresh"]), float(earlier["momentum"])


# --- kernels. slack: 1 - h_i z of the row at hand, move: its slack + s_new --------------------------------------------


@njit(cache=True, nogil=True)
def _iterate(
    values: Array,
    columns: Array,
    starts: Array,
    signs: Array,
    W: Array,
    bias_feature: float,
    z: Array,
    alpha: float,
    s: Array,
    sums: Array,
) -> float:
    """Replaces s by s_new; adds up W move h in sums[0], and in sums[1] what W slack+ h is more; returns the loss."""
    dense, d = starts.size == 0, z.size - 1
    loss = 0.0
    for i in range(W.size):
        if W[i] == 0.0:
            continue
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = dot_dense(values[first:past], z) if dense else dot_sparse(values, columns, first, past, z)
        slack = 1.0 - signs[i] * (score + bias_feature * z[d])
        s[i] = max((1.0 - alpha) * s[i] - alpha * slack, 0.0)
        move, violation = slack + s[i], max(slack, 0.0)
        loss += 0.5 * W[i] * violation * violation
        for part in range(2):
            multiplier = W[i] * signs[i] * (move if part == 0 else violation - move)
            if multiplier == 0.0:
                continue
            out = sums[part]
            out[d] += multiplier * bias_feature
            if dense:
                add_dense(values[first:past], multiplier, out)
            else:
                add_sparse(values, columns, first, past, multiplier, out)
    return loss
