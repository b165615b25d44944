"""Truncated Newton by preconditioned conjugate gradients: the loop shared by the methods of this family.

    minimise P(w) = 1/2 |w|^2 + sum_i (a smooth term of row i)

Conjugate gradients, preconditioned by the diagonal of H, solve H s = -g for a Newton step. The iterates lower P but not
always |g|, and the certified gap contains 1/2 |g|^2. So the loop also keeps the combination of all iterates with the
least |g + H s| (residual smoothing, Weiss 1990). This combination is the step if its residual is small enough. If P
does not fall as predicted, or if the step could be much longer, the step length is the minimiser of P along the step.
It is found from the scores at both ends, without a pass over X.

On tall data the first Newton steps use only every 125th, 25th or 5th row.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from solvers.errors import InvalidOptions, InvalidProblem
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Progress, Start
from solvers.methods.tncg.conjugate_gradients import ConjugateGradients
from solvers.methods.tncg.line import Line
from solvers.problem.problems import Problem
from solvers.result import Status
from solvers.state import State

__all__ = ["SOLVED_SHARE", "NewtonCg", "NewtonCgState", "dot"]


FIRST_PRODUCTS, MOST_PRODUCTS = 30, 240
"""Maximum products with H in one Newton step: the first limit, and the largest. The limit doubles if it ended a step
whose quadratic model was accurate. Larger: more precise minima of the quadratic model, fewer new models. With a limit
above MOST_PRODUCTS the driver would see no progress for too long and report `stalled`. Set by hand; no measurement is
recorded."""
SPARE_PRECISION = 0.4
"""Conjugate gradients end when the gap of the quadratic model is this fraction of the wanted gap. Smaller: more
products, fewer Newton steps. Set by hand; no measurement is recorded."""
GOOD_AGREEMENT = 0.05
"""A quadratic model counts as accurate if the error of the gradient that it predicts is below this fraction of the
gradient before the step. Larger: the limit of products grows sooner. Set by hand; no measurement is recorded."""
SOLVED_SHARE = 1.0
"""The gap is 1/2 |g|^2 plus the rows' terms. The smoothing changes once 1/2 |g|^2 is at most this multiple of the rows'
terms. Larger: the smoothing changes earlier, from less precise solutions. Set by hand; no measurement is recorded."""
ROWS_A_FEATURE, LEAST_ROWS, STRIDE = 100, 2000, 5
"""A subset of the rows is used for the first steps if it has at least ROWS_A_FEATURE rows per feature and LEAST_ROWS
rows in total. Each subset has one in STRIDE rows of the next larger subset. Larger limits: fewer steps on subsets. With
10 rows per feature, mnist took a quarter longer than with all rows from the start."""
PART_GAP = 0.05
"""Relative gap on a subset of the rows at which the next larger subset follows. A smaller gap there says nothing about
all rows. Smaller: more steps on subsets. Set by hand; no measurement is recorded."""
GOOD_SHARE = 0.25
"""The whole step is taken if P decreases by at least this fraction of the predicted decrease. Larger: more line
searches. Set by hand; no measurement is recorded."""
RISE = 0.01
"""Maximum rise of P in a step of least residual, as a fraction of 1/2 |g|^2, the most that P can still fall. Larger:
such steps are accepted more often. Set by hand; no measurement is recorded."""
ROUNDING = 1e-10
"""Fraction of P below which a predicted decrease is lost in the rounding of P; the slopes at both ends then measure it.
Larger: the slopes are used earlier. Set by hand; no measurement is recorded."""


@dataclass(slots=True)
class NewtonCgState(State):
    steps: int  # number of calls of `step`
    rows_read: int
    newton_steps: int
    w: Floats  # weights, one per feature or one row per feature; the last belong to the bias feature
    scores: Floats  # arguments of the rows' terms at w: slacks of two classes, or one score per class
    gradient: Floats  # gradient of P at w
    primal: float  # objective with the true loss
    half_gg: float  # 1/2 |gradient|^2, the first term of the gap
    apart: float  # sum of the rows' terms of the gap
    stride: int  # every stride-th row is used
    most_products: int  # current limit of products in a Newton step
    total_cost: float  # total cost of the problem, by which a warm start recognises the same problem
    cg: ConjugateGradients  # the Newton step in progress


AnyProblem = TypeVar("AnyProblem", bound=Problem)
AnyState = TypeVar("AnyState", bound=NewtonCgState)


class NewtonCg(Method[AnyProblem, AnyState]):
    """The loop of truncated Newton. A subclass provides the terms of the rows."""

    biases = ("none", "regularized")
    options = (
        Option("cg_tol", float, 0.2, "relative residual that ends the conjugate gradients", low=1e-12, high=0.9),
        Option("subsample", bool, True, "take the first steps on a subset of the rows if there are many per feature"),
    )
    uses_threads = True

    def __init__(self, problem: AnyProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)

    # --- provided by a subclass ---------------------------------------------------------------------------------------

    @abstractmethod
    def _new_state(self) -> AnyState:
        """Return the state at w = 0, without the gradient."""

    @abstractmethod
    def _scores(self, state: AnyState, w: Floats) -> Floats:
        """Read the rows in use; return the arguments of their terms at w."""

    @abstractmethod
    def _arrive(self, state: AnyState) -> None:
        """Compute the gradient and the diagonal of H at w from its scores, and call `_begin_newton_step`."""

    @abstractmethod
    def _add_product(self, state: AnyState, v: Floats, out: Floats) -> None:
        """Add the product of v with the rows' part of H to `out`."""

    @abstractmethod
    def _choose_length(self, state: AnyState, after: Floats, line: Line) -> float:
        """Return the step length, given the scores after the step."""

    @abstractmethod
    def _set_weights(self, state: AnyState, start: Start) -> None:
        """Set the weights to those of the starting point."""

    @abstractmethod
    def _repeats(self, earlier: AnyState) -> bool:
        """Return whether the state `earlier` belongs to this problem: whether recomputing its gradient gives identical
        bits.

        Sets `earlier.rows_read` to the number of rows that this reads.
        """

    @abstractmethod
    @contextmanager
    def _using_threads(self) -> Iterator[None]:
        """Use `self.threads` threads for passes over the rows within this context."""

    def _change_smoothing(self, state: AnyState, factor: float) -> bool:
        """Make the smoothed terms closer to the loss by this factor; return False if they cannot change."""
        return False

    # --- the loop -----------------------------------------------------------------------------------------------------

    def init(self, seed: int, start: Start) -> AnyState:
        state = self._new_state()
        is_resumed = False
        with np.errstate(over="ignore", invalid="ignore"):
            earlier = self.earlier(start)
            if earlier is not None:
                state, is_resumed = self._resumed(state, earlier)
            elif start.coef is not None:
                self._set_weights(state, start)
                state.stride = 1
                state.scores = self._scores(state, state.w)
            if not is_resumed:
                self._arrive(state)
        if not np.isfinite(state.cg.M).all() or not np.isfinite(state.gradient).all():
            raise InvalidProblem("X", "has values too large to be squared; rescale X")
        return state

    def step(self, state: AnyState, target: float) -> Progress:
        state.steps += 1
        finished = None
        with self._using_threads():
            if not state.cg.solved:
                self._run_conjugate_gradients(state, target)
            elif not self._move(state):
                finished = Status.STALLED
            if not state.cg.solved and state.cg.products == 0:
                self._go_on(state, target)
        return self._progress(state, finished)

    def _run_conjugate_gradients(self, state: AnyState, target: float) -> None:
        """Take conjugate-gradient steps whose products with H together read about n rows."""
        cg, rows = state.cg, self._rows_of_product(state)
        Hd = np.empty_like(cg.d)
        enough = max(self._wanted(state, target), 0.25 * SOLVED_SHARE * state.apart)
        most = min(max(1, self.problem.data.n_rows // max(rows, 1)), state.most_products - cg.products)
        for _ in range(most):
            Hd[:] = cg.d
            self._add_product(state, cg.d, Hd)
            state.rows_read += rows
            best = cg.advance(Hd)
            if 0.5 * best <= enough and cg.may_be_least:
                cg.solved = cg.is_least = True
                return
            if cg.is_small(self.chosen["cg_tol"]):
                cg.solved = True
                return
        cg.solved = cg.products >= state.most_products

    def _move(self, state: AnyState) -> bool:
        """Move along s by the chosen step length. Return False if neither w nor the problem can change any more."""
        cg, w, before = state.cg, state.w, state.scores
        s, r = (cg.best_s, cg.best_r) if cg.is_least else (cg.s, cg.r)
        there = w + s
        if np.array_equal(there, w):
            return self._use_more_rows(state) or self._change_smoothing(state, 1.0)
        after = self._scores(state, there)
        slope = dot(state.gradient, s)
        predicted = 0.5 * (dot(s, r) - slope)
        # A step of least residual may raise P, by a small fraction of the largest possible decrease.
        least_decrease = -RISE * state.half_gg if cg.is_least else GOOD_SHARE * predicted
        is_drowned = predicted <= ROUNDING * state.primal
        line = Line(dot(w, s), dot(s, s), slope, least_decrease, is_drowned, cg.is_least)
        t = self._choose_length(state, after, line)
        if cg.is_least and t != 1.0:
            cg.is_least, cg.may_be_least, cg.solved = False, False, cg.is_small(self.chosen["cg_tol"])
            return True
        if t == 1.0:
            state.w, state.scores = there, after
        else:
            state.w, state.scores = w + t * s, before + t * (after - before)
        state.newton_steps += 1
        foretold = (1.0 - t) * state.gradient - t * r
        was_cut = cg.products >= state.most_products
        self._arrive(state)
        if was_cut:
            error = state.gradient - foretold
            was_right = dot(error, error / cg.M) < GOOD_AGREEMENT**2 * cg.first_rho
            state.most_products = min(2 * state.most_products, MOST_PRODUCTS) if was_right else FIRST_PRODUCTS
        return True

    def _begin_newton_step(self, state: AnyState, gradient: Floats, M: Floats, *, loss: float, apart: float) -> None:
        """Start conjugate gradients at w, given the gradient of P and the diagonal of H there."""
        state.gradient, state.apart = gradient, apart
        state.primal, state.half_gg = 0.5 * dot(state.w, state.w) + loss, 0.5 * dot(gradient, gradient)
        state.cg = ConjugateGradients.started(gradient, M)

    def _go_on(self, state: AnyState, target: float) -> None:
        """Use more rows, or change the smoothing, if w is precise enough for the current problem."""
        wanted = self._wanted(state, target)
        primal = max(state.primal, self.problem.primal_floor)
        if state.stride > 1 and state.half_gg + state.apart <= PART_GAP * primal:
            self._use_more_rows(state)
        elif state.apart > wanted and state.half_gg <= SOLVED_SHARE * state.apart:
            self._change_smoothing(state, min(max(math.sqrt(state.apart / wanted), 2.0), 10.0))

    def _use_more_rows(self, state: AnyState) -> bool:
        """Continue with the next larger subset of the rows; return False if all are in use."""
        if state.stride == 1:
            return False
        state.stride //= STRIDE
        state.scores = self._scores(state, state.w)
        self._arrive(state)
        return True

    def _wanted(self, state: AnyState, target: float) -> float:
        """Return the wanted gap: the limit for the gradient's part and for the rows' part."""
        tolerance = target if state.stride == 1 else max(target, PART_GAP)
        return SPARE_PRECISION * tolerance * max(state.primal, self.problem.primal_floor)

    def _progress(self, state: AnyState, finished: Status | None) -> Progress:
        primal, gap = state.primal, state.half_gg + state.apart
        if not math.isfinite(primal + gap):
            finished = Status.NONFINITE
        passes = state.rows_read // self.problem.data.n_rows
        if state.stride > 1:
            return Progress(state.steps, passes, None, None, 1.0, finished, is_complete=False)
        floor = max(primal, self.problem.primal_floor)
        if state.cg.products > 0:
            # w has not changed. The gap of the quadratic model shows the driver that there is progress.
            promised = 0.5 * dot(state.cg.best_r, state.cg.best_r) + state.apart
            return Progress(state.steps, passes, primal, primal - gap, promised / floor, finished, is_complete=False)
        return Progress(state.steps, passes, primal, primal - gap, gap / floor, finished)

    # --- rows and starts ----------------------------------------------------------------------------------------------

    def _rows_of_product(self, state: AnyState) -> int:
        """Return the number of rows that a product with H reads."""
        return self._rows(state).size

    def _rows(self, state: AnyState) -> Array:
        return np.arange(0, self.problem.data.n_rows, state.stride)

    def _first_stride(self) -> int:
        n, d, stride = self.problem.data.n_rows, self.problem.data.n_features, 1
        while (
            self.chosen["subsample"]
            and stride < STRIDE**3
            and n >= stride * STRIDE * max(ROWS_A_FEATURE * d, LEAST_ROWS)
        ):
            stride *= STRIDE
        return stride

    def _resumed(self, state: AnyState, earlier: AnyState) -> tuple[AnyState, bool]:
        """Return (state, whether it is `earlier`). If `earlier` belongs to another problem, the state starts from its
        weights."""
        if earlier.w.shape != state.w.shape or not np.isfinite(earlier.w).all():
            raise InvalidOptions(
                "warm_start",
                f"is not a state of {self.name} on data with {self.problem.data.n_features} features; leave it out",
            )
        is_alike = earlier.scores.shape == state.scores.shape and earlier.total_cost == state.total_cost
        if is_alike and self._repeats(earlier):
            # Continuing from a checkpoint gives bit-identical results to the uninterrupted run.
            earlier.steps, earlier.newton_steps = 0, 0
            return earlier, True
        state.w, state.stride = earlier.w, 1
        if not self.problem.bias_feature:
            state.w[-1] = 0.0
        state.scores = self._scores(state, state.w)
        return state, False


def dot(a: Floats, b: Floats) -> float:
    # Not a @ b: BLAS would start threads, which cost more than the sum on a busy machine.
    return float((a * b).sum())
