"""`newton_logistic`: Newton's method for the logistic loss, with a matrix of features x features.

A Newton step needs H = I + sum_i C_i r_i (1 - r_i) h_i h_i'. Summing this matrix takes as long as many passes, so it is
summed over a sample of the rows and kept for several steps. The directions are those of L-BFGS (Nocedal 1980): they
start from the kept matrix and correct it by the measured changes of the gradient. A new matrix, from more rows, is
summed if the remaining steps would take longer than that. If the sum costs more than ten passes, conjugate gradients
compute the Newton step instead.

The first steps use a sample of the rows, which grows once its own error exceeds the gain of a further step. A step
costs one pass over X, at its end point. If that point is not good enough, the minimum along the line is found from the
slacks at both ends, without X.

With alpha_i = C_i r_i the gap is 1/2 |gradient|^2, so each pass yields the gap. After a Newton step the tangent of the
shares (logistic_terms.py) gives a dual point with a far smaller gap, so the run can end some steps earlier.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from solvers.cost import Footprint, Pace
from solvers.data.rows import read_only
from solvers.data.samples import first_stride, next_stride, row_numbers
from solvers.errors import InvalidOptions
from solvers.linalg.cholesky import cholesky_solve
from solvers.linalg.gram import add_gram_rows
from solvers.linalg.types import Floats
from solvers.method import Point, Progress, Rehearsal, Start
from solvers.methods.newton.direction import factor_raised
from solvers.methods.newton.feature_newton import MAX_FEATURES, PAIR_WORK, FeatureNewton, dot
from solvers.methods.newton.logistic_state import LogisticState
from solvers.methods.newton.logistic_terms import (
    LogisticLine,
    add_curved_rows,
    curvatures_of,
    evaluate_logistic,
    search_logistic_line,
    shares_of_slacks,
    tangent_shares,
)
from solvers.methods.newton.logistic_thresholds import (
    EXACT_SHARE,
    FEW_READS,
    GOOD_SLOPE,
    LEAST_KNOWN,
    LIGHT,
    LIGHT_NORM,
    LONG_SOLUTION,
    NEAR,
    PAIR_READS,
    PATIENCE,
    POOR_STRIDE,
    ROW_WORK,
    SAMPLE_SHARE,
    SPARSE_SAMPLE_SHARE,
    STEPS_AFTER,
    TANGENT_GAIN,
)
from solvers.methods.newton.newton_system import corrected_direction, solve_newton_system
from solvers.methods.newton.row_terms import SampledRows, sum_with_places
from solvers.problem.problems import BinaryProblem
from solvers.result import Status

__all__ = ["NewtonLogistic"]

_EPS = float(np.finfo(float).eps)


class NewtonLogistic(FeatureNewton[BinaryProblem, LogisticState]):
    name = "newton_logistic"
    tasks = ("binary",)
    losses = ("logistic",)
    state_type = LogisticState
    rehearsals = (Rehearsal(4800, {"task": "binary", "loss": "logistic"}),)  # enough rows for the sampled first steps
    footprint = Footprint(
        row=10.5, free_row=6.5, feature=40.0, square=4.1, kept_row=2.1, kept_feature=24.0, kept_square=1.0
    )
    pace = Pace(
        least=3.5,
        hardness=0.17,
        precision=0.05,
        tallness=-0.071,
        sparsity=0.2,
        entry_seconds=1.5e-9,
        row_seconds=3e-8,
        gram_seconds=1e-10,
        divided=0.3,
        cube_seconds=3e-12,
    )
    paper = "Lin, Weng, Keerthi (2008): Trust region Newton method for logistic regression; Nocedal (1980) for L-BFGS"
    notes = f"For many rows and up to a few hundred features: a few passes. At most {MAX_FEATURES} features."

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options, problem.signs)
        k = self.ridge.size
        pairs = k * k / PAIR_WORK if self.is_gathered else self.row_entries**2
        self.gram_reads = PAIR_READS * pairs / (self.row_entries + ROW_WORK)
        """Number of passes over the same rows that take as long as summing their matrix."""
        self.sample_share = SPARSE_SAMPLE_SHARE if problem.data.sparse else SAMPLE_SHARE
        self.squared_norm = problem.data.mean_squared_norm()
        self._factor: Floats | None = None

    def init(self, seed: int, start: Start) -> LogisticState:
        # These checksums depend on the order of the rows: the same costs in another order are a different problem.
        seen = [sum_with_places(self.problem.costs), sum_with_places(self.labels), self.constant]
        state = LogisticState.new(self.ridge.size, first_stride(self.problem.data, has_top=False), seed, np.array(seen))
        earlier = self.earlier(start)
        if earlier is not None:
            return self._resumed(state, earlier)
        if start.coef is not None:
            state.trial = np.append(start.coef, start.intercept / self.constant if self.constant > 0.0 else 0.0)
            state.stride = 1
        self._enter(state, state.stride)
        return state

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # overflow becomes a status
    def step(self, state: LogisticState, target: float) -> Progress:
        if state.phase == "aim":
            try:
                self._aim(state, target)
            except np.linalg.LinAlgError:
                return self._overflowed(state)
        (loss, mismatch), u, more = self._evaluate(state)  # `more`: the diagonal, or the tangent's u
        w = state.trial
        primal = 0.5 * self._dot(w, w) + loss
        if not math.isfinite(primal + float(u.sum())):
            return self._overflowed(state)
        state.iterations += 1
        if state.phase == "trial" and not self._is_good(state, primal, u):
            self._search(state)
            return self._progress(state)
        with_tangent = state.is_tangent
        self._accept(state, primal, u, more)
        return self._judged(state, mismatch, more if with_tangent else None)

    def extract(self, state: LogisticState) -> Point:
        alpha = None
        if state.stride == 1 and state.slack.size == self.problem.data.n_rows:
            alpha = np.empty(state.slack.size)
            if state.is_tangent:
                tangent_shares(read_only(state.trial_slack), read_only(state.slack), alpha)
            else:
                shares_of_slacks(read_only(state.slack), alpha)
            alpha *= self.problem.costs
        return Point(state.w[:-1].copy(), float(self.constant * state.w[-1]), alpha)

    # --- the next point -----------------------------------------------------------------------------------------------

    def _aim(self, state: LogisticState, target: float) -> None:
        """Set the next trial: a step, or w itself on more rows if the sample is exhausted."""
        gradient = state.w * self.ridge - state.u
        if state.gram_stride == 0:
            self._sum_gram(state, max(state.stride, first_stride(self.problem.data, has_top=False)))
        elif state.measure == math.inf and state.gram_steps > 0 and self._is_renewed(state, state.stride):
            self._sum_gram(state, state.stride)
        direction = self._direction(state, gradient)
        measure = self._measure(state, gradient, direction)
        error = state.w.size * (state.stride - 1) / self.problem.data.n_rows  # relative error of the sample's minimum
        size = max(state.primal, self.problem.primal_floor)
        if state.stride > 1 and measure <= self.sample_share * error * size:
            self._enter(state, next_stride(state.stride))
            state.trial, state.phase = state.w.copy(), "moved"
            return
        wanted = max(self.sample_share * error, 0.5 * target) * size
        direction, residual = self._improved(state, gradient, direction, measure, wanted)
        state.measure, state.slope = measure, dot(gradient, direction)
        state.trial, state.phase = state.w + direction, "trial"
        is_close = -0.5 * state.slope <= TANGENT_GAIN * wanted and residual <= wanted
        state.is_tangent = state.stride == 1 and is_close

    def _improved(
        self, state: LogisticState, gradient: Floats, direction: Floats, measure: float, wanted: float
    ) -> tuple[Floats, float]:
        """Return (direction, residual 1/2 |H d + gradient|^2). The direction is improved if the remaining L-BFGS steps
        would take longer than improving it."""
        left = self._steps_left(state, measure, wanted)
        is_near = -0.5 * dot(gradient, direction) <= NEAR * wanted
        is_solved = self.gram_reads > FEW_READS and left > state.solve_reads + STEPS_AFTER
        stride = self._better_gram(state, left) if self.gram_reads <= FEW_READS else 0
        if is_solved:
            stride = self._better_preconditioner(state, is_near)
        if stride > 0:
            self._sum_gram(state, stride)
            direction = self._direction(state, gradient)
        if state.gram_stride == state.stride and state.gram_steps == 0:
            return direction, 0.0
        return self._solved(state, gradient, wanted if is_near else math.inf) if is_solved else (direction, math.inf)

    def _better_preconditioner(self, state: LogisticState, is_near: bool) -> int:
        """Return the stride of the rows for a new matrix before a solution; 0 if the kept matrix is the better
        choice."""
        if state.gram_steps == 0 or state.solve_reads <= LONG_SOLUTION:
            return 0
        stride = math.ceil(state.stride * self.gram_reads / state.solve_reads)
        if is_near:
            stride = state.stride if state.solve_reads > EXACT_SHARE * self.gram_reads else 0
        return stride if stride <= state.gram_stride else 0

    def _solved(self, state: LogisticState, gradient: Floats, small: float) -> tuple[Floats, float]:
        """Solve H d = -gradient by conjugate gradients, to a residual of `small`; return d and its residual."""
        sample = self._sampled(state.stride, state.seed)
        n = sample.data.n_rows
        rows = SampledRows(sample.data.flat(), sample.labels, sample.costs, self.constant)
        weights = np.empty(n)
        curvatures_of(read_only(state.slack), sample.costs, row_numbers(n, 1), self._scale(state.stride), weights)
        curvatures = read_only(weights)

        def product(d: Floats) -> Floats:
            def read(first: int, past: int, into: Floats) -> None:
                add_curved_rows(rows, curvatures, read_only(d), first, past, into[0])

            curved: Floats = d * self.ridge + self._read_in_blocks(n, read)[1][0]
            state.rows_read += n
            return curved

        most = math.ceil(self.gram_reads)
        solution = solve_newton_system(product, lambda r: self._direction(state, -r), gradient, small, most)
        state.solve_reads = float(solution.reads)
        return solution.direction, solution.residual

    def _is_renewed(self, state: LogisticState, stride: int) -> bool:
        """Return whether to sum a new matrix when all rows come into use."""
        is_poor = not self.problem.data.sparse or state.gram_stride > POOR_STRIDE
        return stride == 1 and self.gram_reads <= FEW_READS and is_poor

    def _measure(self, state: LogisticState, gradient: Floats, direction: Floats) -> float:
        """Return the distance of w from the minimum: its gap, or on a sample the gain of the step."""
        return 0.5 * (-dot(gradient, direction) if state.stride > 1 else dot(gradient, gradient))

    def _steps_left(self, state: LogisticState, measure: float, wanted: float) -> float:
        """Return the number of L-BFGS steps still needed at the rate of the last step; 0 if there was no step yet."""
        if state.measure == math.inf or measure <= wanted:
            return 0.0
        ratio = measure / state.measure
        return math.log(measure / wanted) / -math.log(ratio) if ratio < 1.0 else math.inf

    def _better_gram(self, state: LogisticState, left: float) -> int:
        """Return the stride of the rows for a new matrix before this step; 0 to keep the current matrix."""
        if left == 0.0:
            return 0
        # The number of rows whose matrix costs half of the remaining passes, but not fewer than before.
        stride = math.ceil(state.stride * 2.0 * self.gram_reads / left)
        stride = max(min(stride, state.gram_stride), state.stride)
        cost = self.gram_reads * state.stride / stride
        return stride if left > cost + STEPS_AFTER else 0

    def _sum_gram(self, state: LogisticState, stride: int) -> None:
        """Sum the matrix at w over one row in `stride`, and discard the pairs that corrected the old matrix."""
        sample = self._sampled(state.stride, state.seed)
        rows = row_numbers(sample.data.n_rows, max(1, stride // state.stride), state.seed)
        weights = np.empty(rows.size)
        scale = self.problem.data.n_rows / rows.size
        curvatures_of(read_only(state.slack), sample.costs, rows, scale, weights)
        counted = weights > min(LIGHT * float(weights.mean()), LIGHT_NORM / max(1.0, self.squared_norm))
        state.rows_read += rows.size
        rows, weights = rows[counted], weights[counted]
        state.gram[:] = 0.0
        add_gram_rows(
            *sample.data.flat(), read_only(rows), read_only(weights), self.constant, *self.gathered, state.gram
        )
        if not math.isfinite(float(state.gram.trace())):
            raise np.linalg.LinAlgError("the matrix of the Newton step has numbers that overflow")
        state.gram_stride, state.gram_steps, state.pairs, self._factor = stride, 0, 0, None

    def _direction(self, state: LogisticState, gradient: Floats) -> Floats:
        """Return the L-BFGS direction from the kept matrix."""
        factor = self._factored(state)
        pairs = state.steps[: state.pairs], state.changes[: state.pairs]
        return corrected_direction(lambda q: cholesky_solve(factor, q), *pairs, gradient)

    def _factored(self, state: LogisticState) -> Floats:
        if self._factor is None:
            self._factor = factor_raised(state.gram, state.squares, state.gram_stride > state.stride, self.ridge)
        return self._factor

    def _search(self, state: LogisticState) -> None:
        """Set the trial to the minimum along the line through w and the current trial."""
        w, direction, costs = state.w, state.trial - state.w, self._sampled(state.stride, state.seed).costs
        lengths = self._dot(w, direction), self._dot(direction, direction)
        line = LogisticLine(self._scale(state.stride), *lengths, state.slope)
        t = search_logistic_line(read_only(state.slack), state.trial_slack, costs, line)
        # Slacks along a line need no pass over X, unless the step is so short that most of their digits cancel.
        state.trial, state.phase = w + t * direction, "known" if t > LEAST_KNOWN else "searched"
        state.is_tangent = False

    # --- this point ---------------------------------------------------------------------------------------------------

    def _evaluate(self, state: LogisticState) -> tuple[tuple[float, float], Floats, Floats]:
        """Evaluate the sample at the trial; return the sums of `evaluate_logistic`, scaled to all rows."""
        sample, scale = self._sampled(state.stride, state.seed), self._scale(state.stride)
        rows = SampledRows(sample.data.flat(), sample.labels, sample.costs, self.constant)
        w, slack = read_only(state.trial), state.trial_slack
        with_squares, with_scores = not state.squares_known, state.phase != "known"
        before = read_only(state.slack if state.is_tangent else state.slack[:0])

        def read(first: int, past: int, into: Floats) -> tuple[float, float]:
            return evaluate_logistic(rows, w, first, past, slack, before, into, with_squares, with_scores)

        parts, vectors = self._read_in_blocks(sample.data.n_rows, read)
        state.rows_read += sample.data.n_rows
        losses, mismatches = zip(*parts, strict=True)
        return (scale * math.fsum(losses), scale * math.fsum(mismatches)), scale * vectors[0], scale * vectors[1]

    def _is_good(self, state: LogisticState, primal: float, u: Floats) -> bool:
        """Return whether the trial is good enough to be accepted without a line search."""
        direction = state.trial - state.w
        slope = self._dot(state.trial, direction) - dot(u, direction)
        # At the minimum both slopes are rounding errors, and a line search based on them is meaningless.
        steep = max(GOOD_SLOPE * abs(state.slope), _EPS * primal)
        return abs(slope) <= steep and primal <= state.primal * (1.0 + 1e-13)

    def _accept(self, state: LogisticState, primal: float, u: Floats, squares: Floats) -> None:
        """Move to the trial, and keep the step with its change of the gradient as a pair."""
        step = state.trial - state.w
        change = step * self.ridge - (u - state.u)
        if state.phase != "moved" and dot(step, change) > 0.0:
            state.keep_pair(step, change)
        state.gram_steps += 1
        if not state.squares_known:
            state.squares, state.squares_known, self._factor = squares, True, None
        state.w, state.u, state.primal = state.trial, u, primal
        state.slack, state.trial_slack = state.trial_slack, state.slack
        state.phase = "aim"

    def _gap(self, state: LogisticState, u: Floats) -> float:
        """Return the gap between w and a dual point with weights u, without the rows' terms."""
        gradient = (state.w - u)[: state.w.size - self.is_free]
        gap = 0.5 * dot(gradient, gradient)
        if self.is_free:
            # A free bias requires equal sums of alpha in both classes. Reducing the larger sum lowers the bound.
            mass = float(self.problem.costs.sum())
            excess = abs(u[-1]) / mass
            gap += excess * (state.primal + excess * self._dot(u, u))
        return gap

    def _judged(self, state: LogisticState, mismatch: float, tangent: Floats | None) -> Progress:
        """Report the accepted point, with the smaller gap of its two dual points if the sample contains all rows."""
        if state.stride > 1:
            return self._progress(state)
        gap, state.is_tangent = self._gap(state, state.u), False
        if tangent is not None:
            of_tangent = self._gap(state, tangent) + mismatch
            gap, state.is_tangent = min(gap, of_tangent), of_tangent < gap
        is_better = gap < 0.99 * state.best_gap or state.primal < state.lowest * (1.0 - 1e-14)
        state.idle = 0 if is_better else state.idle + 1
        state.lowest, state.best_gap = state.primal, min(gap, state.best_gap)
        finished = Status.STALLED if state.idle >= PATIENCE else None
        relative = gap / max(state.primal, self.problem.primal_floor)
        return self._progress(state, finished)._replace(
            primal=state.primal, dual_bound=state.primal - gap, gap_estimate=relative
        )

    def _overflowed(self, state: LogisticState) -> Progress:
        """End the run, or raise the error that names the row that overflows."""
        self.problem.data.usable_squared_norms()
        return self._progress(state, Status.NONFINITE)

    def _progress(self, state: LogisticState, finished: Status | None = None) -> Progress:
        passes = state.rows_read // self.problem.data.n_rows
        return Progress(state.iterations, passes, None, None, None, finished, is_complete=state.stride == 1)

    # --- samples and starts -------------------------------------------------------------------------------------------

    def _enter(self, state: LogisticState, stride: int) -> None:
        """Continue with a sample of this stride; keep the matrix."""
        n = self.problem.data.n_rows // stride
        state.stride, state.pairs, state.squares_known = (
            stride,
            0,
            state.gram_stride > 0 and self._is_renewed(state, stride),
        )
        state.slack, state.trial_slack = np.zeros(n), np.zeros(n)
        state.measure = state.lowest = math.inf

    def _resumed(self, state: LogisticState, earlier: LogisticState) -> LogisticState:
        """Return the state `earlier`, which continues with bit-identical results. On another problem, return a start
        from its weights."""
        if earlier.w.shape != state.w.shape or not np.isfinite(earlier.w).all():
            size = state.w.size - 1
            raise InvalidOptions(
                "warm_start", f"is not a state of {self.name} on data with {size} features; leave it out"
            )
        n = self.problem.data.n_rows
        if np.array_equal(earlier.seen, state.seen) and earlier.slack.shape == (n // max(1, earlier.stride),):
            earlier.iterations, earlier.rows_read = 0, n
            return earlier
        state.trial = earlier.w
        self._enter(state, 1)
        return state
