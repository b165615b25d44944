"""`tron`: trust-region Newton (Lin, Weng, Keerthi 2008), which for squared hinge is the finite Newton method.

This is LIBLINEAR's -s 2. Keerthi and DeCoste (2005) describe the finite Newton method. P is quadratic as long as no row
enters or leaves the margin, so few Newton steps are needed. Preconditioned conjugate gradients (Hsia, Chiang, Lin 2018)
compute each step. They need only products of the Hessian with vectors: the Hessian is never formed, and a product reads
only the active rows. One step of the method is either one evaluation of P or several products that together read at
most n rows.

If P decreases too little along a Newton step, the step is shortened instead of rejected. As in Keerthi and DeCoste, P
is minimised exactly along the step, which needs the slacks at both ends but no row of X. The trust region then shrinks
to twice that step. Shrinking it further, as Lin et al. do, makes steps very short if many rows lie on the margin
(nearly separable data), and they zigzag between the pieces of P.

The papers' symbols, in d + 1 dimensions of which the last is the regularised bias: g is the gradient of P at w; I are
the active rows (margin < 1); H = 1 + 2 X_I' C X_I is the generalised Hessian; M is its diagonal mixed with the
identity; s is the Newton step; r = -g - H s is its residual; d is the direction of conjugate gradients; Delta is the
radius of the trust region |s|_M <= Delta. The constants eta decide when Delta changes, the constants sigma by how much.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.cost import Footprint, Pace
from solvers.errors import InvalidOptions, InvalidProblem
from solvers.linalg.types import Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods._shared.signed_rows import signed_rows
from solvers.methods.tron.newton_kernels import CgLimits, CgVectors, evaluate_rows, run_products, search_line
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import State

__all__ = ["TronState", "TrustRegionNewton"]


ETA_BAD, ETA_GOOD = 0.25, 0.75
"""A step is bad if P decreases by less than ETA_BAD times the predicted decrease, and good above ETA_GOOD times it.
Larger values: the trust region shrinks more often and grows less often. Set by hand; no measurement is recorded."""
SIGMA_BAD, SIGMA_GOOD = 2.0, 4.0
"""After a bad step the radius is at most SIGMA_BAD times the length of the step; after a good step on the boundary the
radius is multiplied by SIGMA_GOOD. Larger: longer steps, more of them bad. Set by hand; no measurement is recorded."""
MOST_PRODUCTS = 150
"""Maximum Hessian products in one Newton step. After that many, a new quadratic model gains more than a more precise
minimum of the old one. Larger: more precise, slower Newton steps. Set by hand; no measurement is recorded."""
SPARE_PRECISION = 0.25
"""Conjugate gradients end when the gap of the quadratic model is this fraction of the target gap. Smaller: more
products, fewer Newton steps. Set by hand; no measurement is recorded."""
ROUNDING = 1e-10
"""Fraction of P below which a predicted decrease is lost in the rounding of P; the slopes at both ends then measure it.
Larger: the slopes are used earlier. Set by hand; no measurement is recorded."""
PATIENCE = 10
"""The run stalls after this many consecutive Newton steps whose predicted decrease is below ROUNDING and that do not
reduce the gap. Larger: more steps without progress. Set by hand; no measurement is recorded."""


@dataclass(slots=True)
class Evaluation(State):
    """The results of one pass over the rows at given weights."""

    w: Floats  # weights; the last entry is the bias's weight
    primal: float  # P
    gradient: Floats  # g
    M: Floats  # the preconditioner, a diagonal
    slack: Floats  # 1 - y_i f(x_i), one per row
    active_rows: NDArray[np.int64]  # rows of positive slack and cost
    dual_scale: float  # the t for which the dual point t * 2 C xi has the best bound
    gap: float  # duality gap to that dual point


@dataclass(slots=True)
class NewtonStep(State):
    """The Newton step that conjugate gradients compute."""

    s: Floats
    r: Floats
    d: Floats
    rho: float  # r' M^-1 r
    products: int  # number of Hessian products so far
    solved: bool  # whether s is ready to be tried
    on_boundary: bool  # whether s reached the boundary of the trust region
    shortened: bool  # whether the line search has shortened s
    drowned: bool  # whether the predicted decrease is below ROUNDING


@dataclass(slots=True)
class TronState(State):
    here: Evaluation
    newton: NewtonStep
    radius: float  # Delta
    first_gradient: float  # norm of the gradient at the start, or at zero if the option gradient_tol is set
    idle: int  # consecutive steps below ROUNDING without a smaller gap
    steps: int
    rows_read: int
    newton_steps: int  # number of Newton steps taken
    bad_steps: int  # number of Newton steps that were shortened


class TrustRegionNewton(Method[BinaryProblem, TronState]):
    state_type = TronState
    name = "tron"
    tasks = ("binary",)
    losses = ("squared_hinge",)
    biases = ("none", "regularized")
    options = (
        Option(
            "cg_tol",
            float,
            0.1,
            "relative residual at which the conjugate gradients of a Newton step end",
            low=1e-12,
            high=0.9,
        ),
        Option(
            "diagonal_share",
            float,
            0.01,
            "fraction of the Hessian's diagonal in the preconditioner; the rest is the identity; 0: no preconditioning",
            low=0.0,
            high=1.0,
        ),
        Option(
            "gradient_tol",
            float,
            0.0,
            "LIBLINEAR's stopping rule: stop once the norm of the gradient is this fraction of its norm at zero; "
            "0 leaves stopping to the certified gap",
            low=0.0,
        ),
    )
    footprint = Footprint(row=16.0, feature=11.0, kept_row=2.0, kept_feature=6.0)
    pace = Pace(
        least=23,
        hardness=0.11,
        hardest=1e6,
        precision=0.09,
        tallness=-0.11,
        entry_seconds=1.6e-9,
        row_seconds=1e-8,
        pass_seconds=9.5e-5,
    )
    paper = "Lin, Weng, Keerthi (2008): Trust region Newton method; Keerthi, DeCoste (2005): A modified finite Newton"
    notes = "Few passes for any C, and fast to high precision; coordinate descent is faster to a rough answer on text."

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.rows = signed_rows(problem)

    def init(self, seed: int, start: Start) -> TronState:
        n, earlier = self.problem.data.n_rows, self.earlier(start)
        w = np.zeros(self.problem.data.n_features + 1)
        if earlier is not None:
            w = self._checked_weights(earlier.here.w)
        elif start.coef is not None:
            w[:-1] = start.coef
            if self.problem.bias_feature:
                w[-1] = start.intercept / self.problem.bias_feature
        with np.errstate(over="ignore", invalid="ignore"):
            here = self._evaluate(w)
            first_gradient, rows_read = _length(here.gradient), n
        if not (math.isfinite(first_gradient) and np.isfinite(here.M).all()):
            raise InvalidProblem("X", "has values too large to be squared; rescale X")
        if self.chosen["gradient_tol"] > 0.0 and w.any():
            first_gradient, rows_read = _length(self._evaluate(np.zeros_like(w)).gradient), 2 * n
        state = TronState(
            here=here,
            newton=_first_direction(here),
            radius=math.sqrt(_weighted(here.gradient, 1.0 / here.M)),
            first_gradient=first_gradient,
            idle=0,
            steps=0,
            rows_read=rows_read,
            newton_steps=0,
            bad_steps=0,
        )
        if earlier is not None and np.array_equal(here.gradient, earlier.here.gradient):
            # The same problem: continue with bit-identical results.
            state.newton, state.radius, state.idle = earlier.newton, earlier.radius, earlier.idle
        return state

    def step(self, state: TronState, target: float) -> Progress:
        state.steps += 1
        finished = None
        if not state.here.gradient.any():
            finished = Status.STALLED  # the gradient is exactly 0, so w is optimal
        elif not state.newton.solved:
            self._run_conjugate_gradients(state, target)
        elif not self._try_newton_step(state):
            finished = Status.STALLED
        here, gradient_tol = state.here, self.chosen["gradient_tol"]
        if not math.isfinite(state.newton.rho + here.primal):
            finished = Status.NONFINITE
        elif gradient_tol > 0.0 and _length(here.gradient) <= gradient_tol * state.first_gradient:
            finished = Status.STOPPED
        passes = state.rows_read // self.problem.data.n_rows
        estimate = here.gap / max(here.primal, self.problem.primal_floor)
        return Progress(state.steps, passes, here.primal, here.primal - here.gap, estimate, finished)

    def extract(self, state: TronState) -> Point:
        here = state.here
        alpha = here.dual_scale * 2.0 * self.problem.costs * np.maximum(here.slack, 0.0)
        return Point(here.w[:-1].copy(), float(self.problem.bias_feature * here.w[-1]), alpha)

    def _run_conjugate_gradients(self, state: TronState, target: float) -> None:
        """Take conjugate-gradient steps that together read at most n rows."""
        here, newton = state.here, state.newton
        active = here.active_rows.size
        limits = CgLimits(
            radius=state.radius,
            small=self.chosen["cg_tol"] ** 2 * _weighted(here.gradient, 1.0 / here.M),
            # |r|^2 / 2 would be the gap at w + s if the active rows stayed the same: more precision is not needed.
            enough=SPARE_PRECISION * target * max(here.primal, self.problem.primal_floor),
            most=min(self.problem.data.n_rows // max(active, 1), MOST_PRODUCTS - newton.products),
        )
        vectors = CgVectors(newton.s, newton.r, newton.d)
        reached = run_products(self.rows, here.active_rows, here.M, limits, newton.rho, vectors)
        newton.rho, newton.solved, newton.on_boundary = reached.rho, reached.solved, reached.on_boundary
        newton.products += reached.products
        state.rows_read += reached.products * active
        if newton.products >= MOST_PRODUCTS:
            newton.solved = True

    def _try_newton_step(self, state: TronState) -> bool:
        """Move to w + s, or shorten s if P does not decrease as predicted. Return False if no step makes progress."""
        here, newton = state.here, state.newton
        w, s = here.w, newton.s
        there = self._evaluate(w + s)
        state.rows_read += self.problem.data.n_rows
        if not newton.shortened:
            slope = _dot(here.gradient, s)
            predicted = 0.5 * (_dot(s, newton.r) - slope)
            newton.drowned = predicted <= ROUNDING * here.primal
            decrease = here.primal - there.primal
            if newton.drowned:
                decrease = -0.5 * (slope + _dot(there.gradient, s))
            if not decrease > ETA_BAD * predicted:
                t = search_line(here.slack, there.slack, self.problem.costs, _dot(w, s), _dot(s, s))
                state.radius = min(state.radius, SIGMA_BAD * math.sqrt(_weighted(s, here.M)))
                newton.s, newton.shortened = t * s, True
                state.bad_steps += 1
                return True
            if decrease > ETA_GOOD * predicted and newton.on_boundary:
                state.radius *= SIGMA_GOOD
        state.newton_steps += 1
        state.idle = state.idle + 1 if newton.drowned and there.gap >= here.gap else 0
        if np.array_equal(there.w, w) or state.idle > PATIENCE:
            return False
        state.here, state.newton = there, _first_direction(there)
        return True

    def _evaluate(self, w: Floats) -> Evaluation:
        """Evaluate all rows at w: P, its derivatives, the slacks, and the gap to the best dual point t * 2 C xi."""
        n_rows = self.problem.data.n_rows
        slack, active_rows = np.empty(n_rows), np.empty(n_rows, dtype=np.int64)
        gradient, diagonal = w.copy(), np.ones_like(w)
        sums = evaluate_rows(self.rows, w, slack, active_rows, gradient, diagonal)
        # alpha = 2 C xi has w(alpha) = w - g, and D(t alpha) is a parabola in t.
        w_alpha = w - gradient
        curvature = 2.0 * sums.loss + _dot(w_alpha, w_alpha)
        t = sums.alpha / curvature if curvature > 0.0 else 1.0
        apart = (1.0 - t) * w + t * gradient
        share = self.chosen["diagonal_share"]
        return Evaluation(
            w=w,
            primal=0.5 * _dot(w, w) + sums.loss,
            gradient=gradient,
            M=(1.0 - share) + share * diagonal,
            slack=slack,
            active_rows=active_rows[: sums.active].copy(),
            dual_scale=t,
            gap=0.5 * _dot(apart, apart) + (1.0 - t) ** 2 * sums.loss,
        )

    def _checked_weights(self, w: Floats) -> Floats:
        size = self.problem.data.n_features + 1
        if w.shape != (size,) or not np.isfinite(w).all():
            raise InvalidOptions("warm_start", f"is not a state of tron on data with {size - 1} features; leave it out")
        if not self.problem.bias_feature:
            w[-1] = 0.0
        return w


def _first_direction(here: Evaluation) -> NewtonStep:
    """Start conjugate gradients at s = 0."""
    r = -here.gradient
    d = r / here.M
    return NewtonStep(
        s=np.zeros_like(r),
        r=r,
        d=d,
        rho=_dot(r, d),
        products=0,
        solved=False,
        on_boundary=False,
        shortened=False,
        drowned=False,
    )


def _dot(a: Floats, b: Floats) -> float:
    # Not a @ b: BLAS would start threads, which cost more than the sum on a busy machine.
    return float((a * b).sum())


def _length(a: Floats) -> float:
    return math.sqrt(_dot(a, a))


def _weighted(a: Floats, weights: Floats) -> float:
    return float((a * a * weights).sum())
