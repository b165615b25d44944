"""The state of dual coordinate descent, and its starting points: zero, the bounds, given weights, or an earlier
state."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.data.rows import Rows, read_only
from solvers.data.samples import row_numbers
from solvers.errors import InvalidOptions
from solvers.linalg.types import Array, Floats
from solvers.methods.dcd.cg_step import combine_rows
from solvers.methods.dcd.dual_problem import DualPoint, DualTerms, dual_value
from solvers.methods.dcd.epoch import Carried
from solvers.methods.dcd.proximal_bias import ProximalBias, bias_mismatch
from solvers.methods.dcd.sampled_gap import best_bias, likely_gap
from solvers.methods.dcd.shrinking import NEVER, Shrinking
from solvers.problem.problems import BinaryProblem
from solvers.state import State

__all__ = [
    "CG_PASSES",
    "BinaryDual",
    "DcdState",
    "approach_weights",
    "gap_at_bounds",
    "resume",
    "rows_together",
    "start_at_bounds",
    "zero_state",
]

SMALL_COST, WORTH, SAMPLED_ROWS = 0.1, 0.5, 2048
"""With hinge, the run starts at alpha_i = C_i instead of 0 if two conditions hold: the mean C |x|^2 is at most
SMALL_COST, and |w|^2 at that point is at most WORTH times sum_i alpha_i. A sample of about SAMPLED_ROWS rows first
estimates |w|^2. Larger SMALL_COST or WORTH: more runs start there, even if zero is closer to the optimum. Set by hand;
no measurement is recorded."""
PULL = 30.0
"""First pull of the proximal bias, as a multiple of 1 / mean |x_i|^2. At 30 the bias adds 1/30 to the curvature of a
row. Larger: longer steps in alpha, slower moves of the bias. Set by hand; no measurement is recorded."""
CG_PASSES = 8
"""Passes after which a conjugate-gradient step is considered. Larger: fewer such steps, longer slow phases. Set by
hand; no measurement is recorded."""
TOGETHER, CACHED_BYTES, THIN = 8, 32 << 20, 0.01
"""Shuffling keeps TOGETHER neighbouring rows together if X takes more than CACHED_BYTES bytes, because the processor
then reads memory ahead: an epoch over 200,000 rows like rcv1's takes half the time. This applies only if a row has less
than THIN of all columns on average; other data, if sorted, needs more epochs (w8a up to three times as many)."""


@dataclass(slots=True)
class DcdState(State):
    alpha: Floats  # dual variables, one per row
    w: Floats  # sum_i alpha_i y_i x_i; the last entry is the weight of the bias feature
    bias: ProximalBias
    shrinking: Shrinking
    random_state: NDArray[np.uint64]
    target: float  # relative gap that was the target of the last step
    gap: float  # estimate of the gap after the last step
    last_gap: float  # sum of the rows' terms of the gap in the last epoch; infinite after other steps
    until_sample: int  # visits until the gap can be sampled again
    is_slow: bool  # whether the last step left most of the gap
    rows_until_cg_step: int  # visits until the next conjugate-gradient step is considered
    gap_at_cg_step: float  # gap when such a step was last considered
    is_at_bounds: bool  # whether the run starts at alpha_i = C_i and has taken no step yet
    rows_adrift: int  # rows visited by several threads since w was computed from alpha; 0 with one thread
    total_cost: float  # total cost of the problem, by which a warm start recognises the same problem
    epochs: int
    rows_read: int

    @property
    def point(self) -> DualPoint:
        return DualPoint(self.alpha, self.w, self.bias.balance)

    @property
    def carried(self) -> Carried:
        shrinking = self.shrinking
        return Carried(
            self.bias.pull,
            shrinking.typical_gradient,
            shrinking.epoch,
            shrinking.size,
            shrinking.until_scan,
            self.until_sample,
            self.last_gap,
        )

    @carried.setter
    def carried(self, left: Carried) -> None:
        shrinking = self.shrinking
        self.bias.pull, shrinking.typical_gradient, shrinking.epoch = left.pull, left.typical_gradient, left.epoch
        shrinking.size, shrinking.until_scan = left.size, left.until_scan
        self.until_sample, self.last_gap = left.until_sample, left.last_gap


class BinaryDual:
    """The dual of one problem: its terms for the kernels, the bounds of alpha, and the first pull."""

    def __init__(self, problem: BinaryProblem) -> None:
        self.problem = problem
        self.counted = problem.costs > 0.0
        diagonal = problem.loss.dual_diagonal(problem.costs)
        norms = problem.data.usable_squared_norms()
        self.upper = problem.loss.dual_top(problem.costs)
        constants = read_only(np.stack([problem.signs, problem.costs, diagonal, norms + diagonal], axis=1))
        self.terms = DualTerms(problem.data.flat(), constants, problem.bias_feature)
        self.mean_norm = float(norms[self.counted].mean())

    @property
    def first_pull(self) -> float:
        return PULL / self.mean_norm if self.problem.bias_feature > 0.0 and self.mean_norm > 0.0 else 0.0

    def balance_of(self, w: Floats) -> Floats:
        """Return [b, S] for these weights, with b = beta^2 S."""
        beta = self.problem.bias_feature
        return np.array([beta * w[-1], w[-1] / beta]) if beta > 0.0 else np.zeros(2)


def rows_together(data: Rows) -> int:
    """Return the number of neighbouring rows that shuffling keeps together."""
    rows = data.flat()
    is_thin = data.stored_entries < THIN * data.n_rows * data.n_features
    return TOGETHER if is_thin and rows.values.nbytes + rows.columns.nbytes > CACHED_BYTES else 1


def zero_state(dual: BinaryDual, seed: int) -> DcdState:
    """Return the state at alpha = 0, with every row of positive cost active."""
    problem = dual.problem
    pool = np.flatnonzero(dual.counted)
    return DcdState(
        alpha=np.zeros(problem.data.n_rows),
        w=np.zeros(problem.data.n_features + 1),
        bias=ProximalBias(balance=np.zeros(2), pull=dual.first_pull),
        shrinking=Shrinking(
            pool=pool,
            due=np.where(dual.counted, 0, NEVER).astype(np.int32),
            size=pool.size,
            epoch=0,
            until_scan=pool.size,
            typical_gradient=np.inf,
        ),
        random_state=np.array([seed], dtype=np.uint64),
        target=np.inf,
        gap=np.inf,
        last_gap=np.inf,
        until_sample=0,
        is_slow=False,
        rows_until_cg_step=CG_PASSES * pool.size,
        gap_at_cg_step=np.inf,
        is_at_bounds=False,
        rows_adrift=0,
        total_cost=problem.total_cost,
        epochs=0,
        rows_read=0,
    )


def start_at_bounds(dual: BinaryDual, state: DcdState) -> None:
    """Start at alpha_i = C_i, with hinge and a C so small that hardly any row reaches the margin.

    Nearly all alphas are at this bound in the optimum. With a bias the alphas of the larger class are scaled down so
    that S = 0. One pass over the rows in order replaces the first epoch.
    """
    problem, data = dual.problem, dual.problem.data
    if not problem.loss.is_piecewise_linear or problem.total_cost / data.n_rows * dual.mean_norm > SMALL_COST:
        return
    shares = np.ones(2)
    if problem.bias_feature > 0.0:
        both = problem.total_cost, float((problem.costs * problem.signs).sum())
        shares = 0.5 * np.array([both[0] - both[1], both[0] + both[1]])
        if shares.min() <= 0.0:  # one class has the whole cost
            return
        shares = shares.min() / shares
    signed = problem.costs * np.where(problem.signs > 0.0, shares[1], -shares[0])
    worth = WORTH * float((signed * problem.signs).sum())
    sample = _sampled_rows(problem)
    if _estimated_norm(dual, signed, sample) > worth:
        return
    w = np.zeros_like(state.w)
    data.add_weighted_column_sums(signed, w[:-1])
    state.rows_read = data.n_rows
    if float((w * w).sum()) <= worth:
        state.alpha, state.w, state.epochs, state.is_at_bounds = np.abs(signed), w, 1, True
        if problem.bias_feature > 0.0:
            state.bias.balance[0] = best_bias(dual.terms, w, sample)


def _sampled_rows(problem: BinaryProblem) -> Array:
    n_rows = problem.data.n_rows
    return row_numbers(n_rows, max(16, n_rows // SAMPLED_ROWS))


def gap_at_bounds(dual: BinaryDual, state: DcdState) -> tuple[float, float]:
    """Return the dual objective and an estimate of the gap from a sample."""
    gap = likely_gap(dual.terms, state.point, _sampled_rows(dual.problem))
    gap += bias_mismatch(dual.problem.bias_feature, state.bias.balance)
    return dual_value(state.alpha, dual.terms.constants, state.w), gap


def _estimated_norm(dual: BinaryDual, signed: Floats, sample: Array) -> float:
    """Estimate |sum_i signed_i x_i|^2 from a sample of the rows."""
    alpha, total = np.abs(signed[sample]), np.zeros(dual.problem.data.n_features + 1)
    combine_rows(dual.terms._replace(bias_feature=0.0), sample, alpha, total)
    stride = signed.size / sample.size
    noise = float((alpha * alpha * dual.terms.constants[sample, 3]).sum())  # the squared norm of orthogonal rows
    return stride * (stride * float((total * total).sum()) - (stride - 1.0) * noise)


def approach_weights(dual: BinaryDual, state: DcdState, coef: Floats, intercept: float) -> None:
    """Start from a dual point built from these weights by the optimality conditions.

    The point is scaled by the factor that maximises the dual, so its value is never below that of zero.
    """
    problem = dual.problem
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(coef, scores)
    slack = 1.0 - problem.signs * (scores + intercept)
    alpha, _ = problem.loss.dual_bounds(slack, problem.costs, 0.0)
    w = problem.weights_of(alpha)
    quadratic = float((w * w).sum() + (dual.terms.constants[:, 2] * alpha * alpha).sum())
    length = min(1.0, float(alpha.sum()) / quadratic) if quadratic > 0.0 else 1.0
    state.alpha, state.w = alpha * length, w * length
    state.bias.balance = dual.balance_of(state.w)
    state.rows_read = 2 * problem.data.n_rows


def resume(dual: BinaryDual, state: DcdState, earlier: DcdState, solver: str) -> DcdState:
    """Continue from the state `earlier`. On the same problem results are bit-identical; otherwise the run starts from
    its alpha."""
    problem = dual.problem
    if earlier.alpha.shape != state.alpha.shape or earlier.w.shape != state.w.shape:
        rows, features = problem.data.n_rows, problem.data.n_features
        raise InvalidOptions(
            "warm_start", f"is not a state of {solver} on data with {rows} rows x {features} features; leave it out"
        )
    if not np.isfinite(earlier.alpha).all():
        raise InvalidOptions("warm_start", "has a dual point that is NaN or infinite; leave it out")
    alpha = np.clip(earlier.alpha, 0.0, dual.upper)
    w = problem.weights_of(alpha)
    state.alpha, state.w = alpha, w
    state.bias.balance = dual.balance_of(w)
    state.rows_read = problem.data.n_rows
    w_kept = np.allclose(w, earlier.w, rtol=1e-9, atol=1e-9 * max(1.0, float(np.abs(w).max())))
    rows_kept = np.array_equal(earlier.shrinking.due == NEVER, state.shrinking.due == NEVER)
    if not (w_kept and rows_kept and earlier.total_cost == state.total_cost):
        return state
    earlier.alpha, earlier.epochs, earlier.rows_read = alpha, state.epochs, state.rows_read
    return earlier
