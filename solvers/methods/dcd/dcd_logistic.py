"""`dcd_logistic`: dual coordinate descent for logistic regression (Yu, Huang, Lin 2011).

The method maximises the dual

    D(alpha) = sum_i C_i H(alpha_i / C_i) - 1/2 |w(alpha)|^2,    w(alpha) = sum_i alpha_i y_i x_i,    0 < alpha_i < C_i,

with the entropy H(p) = -p log p - (1 - p) log(1 - p), in one alpha_i at a time, in random order. It keeps w up to date,
so a step reads only one row. The step of a row is a few safeguarded Newton iterations (logistic_epoch.py). As in `dcd`,
the bias stays near a moving centre (proximal_bias.py). No alpha is ever at a bound, so there is no shrinking. If the
gap falls slowly, all alphas take a conjugate-gradient step together (logistic_cg_step.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.cost import Footprint, Pace
from solvers.errors import InvalidOptions
from solvers.linalg.types import Floats
from solvers.method import Method, Point, Progress, Start
from solvers.methods.dcd.dcd_start import BinaryDual, rows_together
from solvers.methods.dcd.epoch import predict_gap
from solvers.methods.dcd.logistic_cg_step import MOST_READS, take_logistic_cg_step
from solvers.methods.dcd.logistic_epoch import LogisticPoint, LogisticSweep, entropy_sum, log_odds, run_epoch
from solvers.methods.dcd.proximal_bias import ProximalBias, adapt_pull
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import State

__all__ = ["LogisticDualDescent"]

LESS_PULL = 0.99
"""Factor by which the pull of the bias is multiplied after each epoch. At 0.99 a third of the pull remains after about
a hundred epochs. Smaller: the pull approaches 0, the method of the paper, sooner. Set by hand; no measurement is
recorded."""
CG_EPOCHS, FALL = 4, 0.25
"""Every CG_EPOCHS epochs a conjugate-gradient step is taken if more than the fraction FALL of the gap remained after
these epochs. Larger: fewer such steps, longer slow phases. Set by hand; no measurement is recorded."""
LATER = 0.35
"""Predicted gap after an epoch, as a fraction of the gap that the rows' terms at their visits give. Each term is
computed before the step of its row, so their sum is too large. Measured on a9a, w8a, news20 and mnist: 0.28 to 0.5.
Smaller: more certificates that fail."""
_BISECTIONS = 60
"""Number of bisections of the interval that contains the first intercept. 60 exceed the 53 bits of a double. Larger: no
effect."""


@dataclass(slots=True)
class LogisticDualState(State):
    alpha: Floats  # dual variables, one per row
    logits: Floats  # log-odds log(alpha_i / (C_i - alpha_i)); undefined where alpha_i = 0
    w: Floats  # sum_i alpha_i y_i x_i; the last entry is the weight of the bias feature
    bias: ProximalBias
    entropy: float  # sum_i C_i H(alpha_i / C_i)
    order: NDArray[np.int64]  # the rows with a positive cost, in the order of the last epoch
    random_state: NDArray[np.uint64]
    last_gap: float  # sum of the rows' terms of the gap in the last epoch; infinite after other steps
    until_cg_step: int  # epochs until the next conjugate-gradient step is considered
    gap_at_cg_step: float  # gap when such a step was last considered
    total_cost: float  # total cost of the problem, by which a warm start recognises the same problem
    epochs: int
    passes: int


class LogisticDualDescent(Method[BinaryProblem, LogisticDualState]):
    name = "dcd_logistic"
    tasks = ("binary",)
    losses = ("logistic",)
    biases = ("none", "regularized")
    state_type = LogisticDualState
    footprint = Footprint(row=22.0, feature=5.0, kept_row=3.0, kept_feature=1.0)  # with a conjugate-gradient step
    pace = Pace(
        least=1.5,
        hardness=0.63,
        hardest=1e12,
        precision=0.12,
        tallness=0.09,
        entry_seconds=1.3e-9,
        row_seconds=5.0e-8,
    )
    paper = "Yu, Huang, Lin (2011): Dual coordinate descent methods for logistic regression and maximum entropy models"
    notes = "Fast for sparse data and moderate C; slower as C grows or if features are badly scaled."

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.dual = BinaryDual(problem)
        self.together = rows_together(problem.data)

    def init(self, seed: int, start: Start) -> LogisticDualState:
        data = self.problem.data
        state = LogisticDualState(
            alpha=np.zeros(data.n_rows),
            logits=np.zeros(data.n_rows),
            w=np.zeros(data.n_features + 1),
            bias=ProximalBias(balance=np.zeros(2), pull=self.dual.first_pull),
            entropy=0.0,
            order=np.flatnonzero(self.dual.counted),
            random_state=np.array([seed], dtype=np.uint64),
            last_gap=np.inf,
            until_cg_step=CG_EPOCHS,
            gap_at_cg_step=np.inf,
            total_cost=self.problem.total_cost,
            epochs=0,
            passes=0,
        )
        earlier = self.earlier(start)
        if earlier is not None:
            return self._resumed(state, earlier)
        if start.coef is not None:
            self._approach(state, start.coef, float(start.intercept))
        elif self.problem.bias_feature > 0.0:
            state.bias.balance[0] = self._bias_of_classes()
        return state

    def step(self, state: LogisticDualState, target: float) -> Progress:
        was_pulled = state.bias.pull > 0.0
        point = LogisticPoint(state.alpha, state.logits, state.w, state.bias.balance)
        seen = run_epoch(self.dual.terms, point, state.order, state.random_state, self.together, state.bias.pull)
        state.epochs += 1
        state.passes += 1
        state.entropy += seen.entropy
        gap = self._estimated_gap(state, seen)
        dual = state.entropy - 0.5 * float((state.w * state.w).sum())
        if not (np.isfinite(dual) and np.isfinite(gap)):
            return Progress(state.epochs, state.passes, None, None, None, Status.NONFINITE)
        finished = Status.STALLED if seen.updates == 0 and not was_pulled else None
        primal = dual + gap
        relative_gap = gap / max(primal, self.problem.primal_floor)
        state.until_cg_step -= 1
        if state.until_cg_step <= 0 and finished is None and relative_gap > target:
            self._consider_cg_step(state, gap)
        return Progress(state.epochs, state.passes, primal, dual, relative_gap, finished)

    def extract(self, state: LogisticDualState) -> Point:
        intercept = float(state.bias.balance[0]) if self.problem.bias_feature > 0.0 else 0.0
        return Point(state.w[:-1].copy(), intercept, state.alpha.copy())

    def _estimated_gap(self, state: LogisticDualState, seen: LogisticSweep) -> float:
        """Estimate the gap after an epoch from the rows' terms at their visits and the mismatch of the bias."""
        bias = state.bias
        pull, mismatch = adapt_pull(self.problem.bias_feature, bias.pull, bias.balance, seen.gap, seen.updates)
        bias.pull = LESS_PULL * pull
        predicted = predict_gap(seen.gap, state.last_gap)
        state.last_gap = seen.gap
        return LATER * predicted + mismatch

    def _consider_cg_step(self, state: LogisticDualState, gap: float) -> None:
        """After CG_EPOCHS epochs, take a conjugate-gradient step if much of the gap is left."""
        is_slow = gap > FALL * state.gap_at_cg_step
        state.until_cg_step, state.gap_at_cg_step = CG_EPOCHS, gap
        if not is_slow or self.reads_left <= MOST_READS:
            return
        beta = self.problem.bias_feature
        norms = self.dual.terms.constants[:, 3] + beta * beta
        moved = take_logistic_cg_step(self.problem, norms, state.logits, state.alpha, state.w, state.entropy)
        state.passes += moved.reads
        if moved.is_better:
            state.logits, state.alpha, state.w, state.entropy = moved.logits, moved.alpha, moved.w, moved.entropy
            state.bias.balance = self.dual.balance_of(state.w)
            state.last_gap = np.inf

    def _bias_of_classes(self) -> float:
        """Return the intercept that minimises P at w = 0, computed from the costs of the classes."""
        problem, beta = self.problem, self.problem.bias_feature
        positive = float(problem.costs[problem.signs > 0.0].sum())
        negative = problem.total_cost - positive
        low, high = -beta * beta * negative, beta * beta * positive
        for _ in range(_BISECTIONS):
            b = 0.5 * (low + high)
            share = 1.0 / (1.0 + np.exp(min(-b, 700.0)))
            if b / (beta * beta) + negative * share > positive * (1.0 - share):
                high = b
            else:
                low = b
        return 0.5 * (low + high)

    def _approach(self, state: LogisticDualState, coef: Floats, intercept: float) -> None:
        """Start from a dual point built from these weights by the optimality conditions.

        The point is scaled by a factor that maximises a lower bound of the dual, so its value is never below that of
        zero.
        """
        problem = self.problem
        scores = np.empty(problem.data.n_rows)
        problem.data.margins(coef, scores)
        alpha, _ = problem.loss.dual_bounds(-problem.signs * (scores + intercept), problem.costs, 0.0)
        w = problem.weights_of(alpha)
        entropy, quadratic = entropy_sum(alpha, problem.costs), float((w * w).sum())
        length = min(1.0, entropy / quadratic) if quadratic > 0.0 else 1.0
        self._put(state, alpha * length, w * length)
        state.passes = 2

    def _put(self, state: LogisticDualState, alpha: Floats, w: Floats) -> None:
        """Start from this dual point with these weights."""
        state.alpha, state.w = alpha, w
        log_odds(alpha, self.problem.costs, state.logits)
        state.entropy = entropy_sum(alpha, self.problem.costs)
        state.bias.balance = self.dual.balance_of(w)

    def _resumed(self, state: LogisticDualState, earlier: LogisticDualState) -> LogisticDualState:
        """Continue from the state `earlier`. On the same problem results are bit-identical; otherwise the run starts
        from its log-odds."""
        problem = self.problem
        shapes = earlier.alpha.shape, earlier.logits.shape, earlier.w.shape
        if shapes != (state.alpha.shape, state.logits.shape, state.w.shape):
            rows, features = problem.data.n_rows, problem.data.n_features
            shape = f"{rows} rows x {features} features"
            raise InvalidOptions("warm_start", f"is not a state of {self.name} on data with {shape}; leave it out")
        if not (np.isfinite(earlier.alpha).all() and np.isfinite(earlier.logits).all()):
            raise InvalidOptions("warm_start", "has a dual point that is NaN or infinite; leave it out")
        shares, _ = problem.loss.dual_bounds(earlier.logits, problem.costs, 0.0)
        alpha = np.where(earlier.alpha > 0.0, shares, 0.0)
        w = problem.weights_of(alpha)
        self._put(state, alpha, w)
        state.logits = np.where(alpha > 0.0, earlier.logits, 0.0)
        state.passes = 1
        w_kept = np.allclose(w, earlier.w, rtol=1e-9, atol=1e-9 * max(1.0, float(np.abs(w).max())))
        rows_kept = np.array_equal(np.sort(earlier.order), state.order)
        if not (w_kept and rows_kept and earlier.total_cost == state.total_cost):
            return state
        earlier.epochs, earlier.passes = state.epochs, state.passes
        return earlier
