"""Newton's method with a matrix of features x features, for tall data: the loop for squared and smoothed losses.

A step solves (I + X'VX) direction = -gradient, with V = C_i / h on the curved rows (row_terms.py). One pass over X at
the end point of the step yields the slacks, the gradient and the duality gap. If the end point is not good enough, the
minimum along the line is found from the slacks at both ends, without X, and is evaluated next.

- The method starts on a sample of the rows. The sample grows once its own error exceeds the gain of a further step, so
  all rows are read only a few times.
- The matrix is updated by the rows that became or ceased to be curved. If very many rows are curved, the matrix of a
  sample is used, with the exact diagonal; a rare column that the sample lacks would otherwise have no curvature. A
  matrix of more rows follows once the steps gain too little.
- For the dual point alpha(w), with u = sum alpha_i y_i x_i (targets: alpha_i x_i), the gap at w is 1/2 |w - u|^2 plus
  the terms of the curved rows. This formula is exact. The dual point is also scaled by the factor that gives the best
  bound.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from solvers.data.rows import read_only
from solvers.data.samples import RowSample, first_stride, next_stride
from solvers.errors import InvalidOptions
from solvers.linalg.gram import add_gram_rows
from solvers.linalg.types import Floats
from solvers.method import Point, Progress, Start
from solvers.methods.newton.direction import newton_direction
from solvers.methods.newton.exact_line_search import Line, search_line
from solvers.methods.newton.feature_newton import FeatureNewton, dot
from solvers.methods.newton.newton_state import NewtonState
from solvers.methods.newton.row_terms import (
    SampledRows,
    Smoothing,
    Sums,
    evaluate_rows,
    mark_changes,
    shares_of,
    sum_with_places,
)
from solvers.problem.problems import BinaryProblem, RegressionProblem
from solvers.result import Status

__all__ = ["RowNewton"]

SAMPLE_SHARE, SPARSE_SAMPLE_SHARE = 0.5, 4.0
"""A larger sample follows when a step gains at most this multiple of the sample's own error; the first is for dense,
the second for sparse rows. Larger: samples are left earlier. A sparse sample has few rows in most columns and overfits
them: w8a, squared hinge, C = 100, 1e-2 took 12 passes over the sample and 9 over all rows with 0.5, 2 and 8 with 4."""
LEAST_SHARE = 0.1
"""Least curvature of a column, as a fraction of the median. Larger: shorter, safer steps in columns with few curved
rows. covtype, C = 100, 1e-3 took 6 steps on all rows with 0, 4 with 0.1."""
SAMPLE_STEPS = 4
"""Assumed number of steps with the matrix of a sample that cost as much as summing the matrix of all rows. Larger: the
matrix of all rows is used later. Set by hand; no measurement is recorded."""
LEAST_KNOWN = 1e-3
"""Shortest step, as a fraction of the line, whose slacks are interpolated instead of computed from X. In shorter steps
digits cancel. Larger: more passes, more precise slacks. Set by hand; no measurement is recorded."""
PATIENCE = 16
"""Consecutive steps on all rows without a smaller gap or objective after which the run ends as `stalled`. Larger: more
steps without progress. Set by hand; no measurement is recorded."""
DRIFT = 1e-3
"""Rounding error of the updated matrix, relative to the identity added to it, at which the matrix is summed from zero.
Larger: fewer such sums, less precise steps. Set by hand; no measurement is recorded."""
RAISES = (0.0, 1e-13, 1e-11, 1e-9, 1e-7)
"""Fractions of the diagonal that are added to a matrix which rounding errors make indefinite. They are tried in this
order until the matrix is positive definite. Such a matrix has nearly equal columns, for example a free bias and a large
constant column. Larger: shorter steps. Set by hand; no measurement is recorded."""
_EPS = float(np.finfo(float).eps)


class RowNewton(FeatureNewton[BinaryProblem | RegressionProblem, NewtonState]):
    """The loop of Newton's method. A subclass defines the width of the smoothing and how the width changes."""

    tasks = ("binary", "regression")
    state_type = NewtonState
    top: float
    """Upper limit of a row's alpha, as a multiple of its cost."""

    def __init__(self, problem: BinaryProblem | RegressionProblem, options: Mapping[str, Any]) -> None:
        if isinstance(problem, RegressionProblem):
            super().__init__(problem, options, problem.targets)
            self.low, self.tube = -self.top, problem.spec.epsilon
        else:
            super().__init__(problem, options, problem.signs)
            self.low, self.tube = 0.0, 0.0
        data = problem.data
        self.changed, self.changes = np.empty(data.n_rows + 1, dtype=np.int64), np.empty(data.n_rows + 1)
        self.sample_share = SPARSE_SAMPLE_SHARE if data.sparse and self.top > 1.0 else SAMPLE_SHARE

    @abstractmethod
    def _change_smoothing(self, state: NewtonState, gain: float, wanted: float) -> bool:
        """Change the smoothed problem if it is solved precisely enough for the wanted gap; return whether it changed.

        `gain` is the possible decrease of the objective in the next step, relative to the objective.
        """

    def init(self, seed: int, start: Start) -> NewtonState:
        # These checksums depend on the order of the rows: the same costs in another order are a different problem.
        seen = [sum_with_places(self.labels), self.tube, self.constant]
        seen += [sum_with_places(self.problem.costs), self.problem.total_cost]
        stride = first_stride(self.problem.data, has_top=self.top == 1.0)
        state = NewtonState.new(self.ridge.size, LEAST_SHARE, stride, seed, np.array(seen))
        if self.is_free and self.low < 0.0:
            state.trial[-1] = np.median(self.labels[self.problem.costs > 0.0])  # targets can be far from 0
        self._enter(state, state.stride)
        self._prepare(state, is_warm=start.coef is not None)
        earlier = self.earlier(start)
        if earlier is not None:
            return self._resumed(state, earlier)
        if start.coef is not None:
            scale = self.constant
            state.trial = np.append(start.coef, start.intercept / scale if scale > 0.0 else 0.0)
            self._enter(state, 1)
            state.gram.stride = 1
        return state

    def _enter(self, state: NewtonState, stride: int) -> None:
        """Continue with a sample of this stride; reset slacks, matrix and multipliers."""
        n = self.problem.data.n_rows // stride
        state.stride, state.gram.summed_stride = stride, 0
        if stride > 1 or not self._is_long():
            state.gram.stride = stride
        state.slack, state.trial_slack = np.empty(n), np.empty(n)
        state.gram.summed = np.zeros(n, dtype=bool)
        state.before = np.zeros(0)

    def _prepare(self, state: NewtonState, *, is_warm: bool) -> None:
        """Set the smoothed problem at the start."""

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # overflow becomes a status
    def step(self, state: NewtonState, target: float) -> Progress:
        if state.phase == "aim":
            try:
                self._aim(state, target)
            except np.linalg.LinAlgError:
                return self._overflowed(state)
        sums, vectors = self._evaluate(state)
        w, u = state.trial, vectors[0]
        smooth = 0.5 * self._dot(w, w) + sums.smooth
        if not math.isfinite(smooth + float(u.sum())):
            return self._overflowed(state)
        state.iterations += 1
        if state.phase == "trial":
            direction = w - state.w
            slope = self._dot(w, direction) - dot(u, direction)
            rounding = 1e-13 * abs(smooth)
            # At the minimum both slopes are rounding errors, and a line search based on them is meaningless.
            steep = max(0.5 * abs(state.slope), _EPS * abs(smooth))
            if abs(slope) > steep or smooth > state.smooth + rounding:
                self._search(state, direction)
                if state.gram.stride > state.stride:
                    state.gram.stride = state.stride  # the matrix of the sample was not precise enough
                return self._progress(state)
        state.w, state.u, state.smooth = w, u, smooth
        if self.top > 1.0 or not state.squares_known:
            state.squares, state.squares_known = vectors[1], True
        state.slack, state.trial_slack = state.trial_slack, state.slack
        state.phase = "aim"
        scale = max(0.5 * self._dot(w, w) + sums.loss, self.problem.primal_floor)
        misfit = 0.5 * dot(w * self.ridge - u, w * self.ridge - u) + self._imbalance(sums, u)
        state.blur, state.misfit = sums.mismatch / scale, misfit / scale
        state.spread = sums.loss / self.problem.total_cost
        return self._judged(state, sums, target)

    def _overflowed(self, state: NewtonState) -> Progress:
        """End the run, or raise the error that names the row that overflows."""
        self.problem.data.usable_squared_norms()
        return self._progress(state, Status.NONFINITE)

    def extract(self, state: NewtonState) -> Point:
        w, alpha = state.w, None
        if state.stride == 1:
            alpha = np.empty(self.problem.data.n_rows)
            shares_of(read_only(state.slack), self._smoothing(state), alpha)
            alpha *= state.stretch * self.problem.costs
        return Point(w[:-1].copy(), float(self.constant * w[-1]), alpha)

    # --- the next point ----------------------------------------------------------------------------------------------

    def _aim(self, state: NewtonState, target: float) -> None:
        """Set the next trial: a Newton step, or w itself if the sample or the smoothing changes."""
        direction = self._direction(state)
        gradient = state.w * self.ridge - state.u
        state.slope = dot(gradient, direction)
        state.trial = state.w + direction
        state.phase = "trial"
        gain = -0.5 * state.slope / max(state.smooth, self.problem.primal_floor)
        n = self.problem.data.n_rows
        error = state.w.size * (state.stride - 1) / n  # relative error of the sample's minimum: the losses of k rows
        if state.stride > 1 and gain <= self.sample_share * error:
            self._enter(state, next_stride(state.stride))
            state.phase, state.squares_known, gain = "moved", False, 0.0
        if self._change_smoothing(state, gain, max(target, error)):
            state.phase, state.lowest = "moved", math.inf

    def _direction(self, state: NewtonState) -> Floats:
        self._update_gram(state)
        gradient = state.w * self.ridge - state.u
        direction: Floats = np.empty(gradient.size)
        curvature, of_sample = self._scale(state.gram.stride) / state.h, state.gram.stride > state.stride
        least_share = state.least_share if self.top == 1.0 else 0.0
        damping = state.h, state.squares, least_share, of_sample
        matrix = state.gram.matrix
        for more in RAISES:
            gram = matrix + np.diag(more * matrix.diagonal()) if more > 0.0 else matrix
            if newton_direction(gram, curvature, *damping, self.ridge, gradient, direction):
                return direction
        raise np.linalg.LinAlgError("the matrix is not positive definite, even with 1e-7 of its diagonal added")

    def _update_gram(self, state: NewtonState) -> None:
        gram, sample = state.gram, self._sample(state)
        stride = 1 if gram.stride == state.stride else gram.stride  # within the sample
        anew = gram.peak * _EPS > DRIFT or gram.summed_stride != stride
        if gram.summed_stride != stride:
            gram.summed[:], gram.summed_stride = False, stride
        sampling = self._smoothing(state), stride, state.seed
        into = gram.summed, self.changed, self.changes
        count, anew = mark_changes(read_only(state.slack), sample.costs, *sampling, *into, anew)
        if anew:
            gram.matrix[:], gram.peak = 0.0, 0.0
        changed = read_only(self.changed[:count]), read_only(self.changes[:count])
        add_gram_rows(*sample.data.flat(), *changed, self.constant, *self.gathered, gram.matrix)
        state.rows_read += count
        trace = float(gram.matrix.trace())
        if not math.isfinite(trace):
            raise np.linalg.LinAlgError("the matrix of the Newton step has numbers that overflow")
        gram.peak = max(gram.peak, trace)

    def _search(self, state: NewtonState, direction: Floats) -> None:
        """Set the trial to the minimum along the line through w and the current trial."""
        w, costs = state.w, self._sample(state).costs
        lengths = self._dot(w, direction), self._dot(direction, direction), state.slope
        line = Line(self._scale(state.stride), *lengths)
        scratch = self.changes[: costs.size], self.changed[: costs.size].view(np.float64)
        t = search_line(read_only(state.slack), state.trial_slack, costs, self._smoothing(state), line, *scratch)
        # Slacks along a line need no pass over X, unless the step is so short that most of their digits cancel.
        state.trial, state.phase = w + t * direction, "known" if t > LEAST_KNOWN else "searched"
        # The step was too long, or LEAST_SHARE made it too short.
        state.least_share = LEAST_SHARE if t < 0.2 else state.least_share * (0.1 if t > 1.0 else 1.0)

    # --- this point --------------------------------------------------------------------------------------------------

    def _evaluate(self, state: NewtonState) -> tuple[Sums, Floats]:
        """Evaluate the sample at the trial; return the sums, scaled to all rows, and the vectors u and squares."""
        sample, scale = self._sample(state), self._scale(state.stride)
        rows = SampledRows(sample.data.flat(), sample.labels, sample.costs, self.constant)
        smoothing, w, slack = self._smoothing(state), read_only(state.trial), state.trial_slack
        with_squares = state.gram.stride > state.stride if self.top > 1.0 else not state.squares_known
        with_scores = state.phase != "known"

        def read(first: int, past: int, into: Floats) -> Sums:
            return evaluate_rows(rows, smoothing, w, first, past, slack, into, with_squares, with_scores)

        parts, vectors = self._read_in_blocks(sample.data.n_rows, read)
        state.rows_read += sample.data.n_rows
        total = [scale * math.fsum(part[field] for part in parts) for field in range(len(Sums._fields))]
        return Sums(*total), scale * vectors

    def _judged(self, state: NewtonState, sums: Sums, target: float) -> Progress:
        """Report the accepted point, with its gap if the sample contains all rows."""
        if state.stride > 1:
            return self._progress(state)
        w, u = state.w, state.u
        primal = 0.5 * self._dot(w, w) + sums.loss
        gradient = (w - u)[: w.size - self.is_free]
        gap = 0.5 * dot(gradient, gradient) + sums.mismatch
        if state.gram.stride > 1 and state.gap < math.inf:
            # If too many such steps are needed for the wanted gap, the matrix of all rows is cheaper.
            ratio, wanted = gap / state.gap, target * max(primal, self.problem.primal_floor)
            state.gram.stride = 1 if ratio >= 1.0 or gap * ratio**SAMPLE_STEPS > wanted else state.gram.stride
        state.gap = gap
        gap += self._imbalance(sums, u)
        # D(t alpha) = t (earned + u . w) - t^2 / 2 curvature has its maximum at `stretch`.
        curvature = self._dot(u, u) + 2.0 * sums.conjugate
        rise = sums.earned - 2.0 * sums.conjugate + self._dot(u, w - u)
        stretch = max(0.0, 1.0 + rise / curvature) if curvature > 0.0 else 1.0
        state.stretch = min(stretch, 1.0) if self.top == 1.0 else stretch
        gap = max(0.0, gap - 0.5 * curvature * (1.0 - state.stretch) ** 2)
        scale = max(primal, self.problem.primal_floor)
        if gap < 0.99 * state.best_gap or state.smooth < state.lowest - 1e-14 * abs(state.lowest):
            state.idle = 0
        else:
            state.idle += 1
        state.lowest = state.smooth
        state.best_gap = min(gap, state.best_gap)
        finished = Status.STALLED if state.idle >= PATIENCE else None
        return self._progress(state, finished)._replace(
            primal=primal, dual_bound=primal - gap, gap_estimate=gap / scale
        )

    def _imbalance(self, sums: Sums, u: Floats) -> float:
        """Return how much a free bias lowers the bound: the sums of alpha in both classes must become equal, so the
        larger sum is reduced."""
        if not (self.is_free and sums.alpha > 0.0):
            return 0.0
        excess = abs(u[-1]) / sums.alpha
        return float(excess * (sums.loss + excess * self._dot(u, u)))

    def _progress(self, state: NewtonState, finished: Status | None = None) -> Progress:
        passes = state.rows_read // self.problem.data.n_rows
        return Progress(state.iterations, passes, None, None, None, finished, is_complete=state.stride == 1)

    # --- sizes -------------------------------------------------------------------------------------------------------

    def _sample(self, state: NewtonState) -> RowSample:
        return self._sampled(state.stride, state.seed)

    def _smoothing(self, state: NewtonState) -> Smoothing:
        return Smoothing(state.h, self.low, self.top, self.tube, read_only(state.before))

    def _is_long(self) -> bool:
        """Return whether summing the matrix of all rows is so much slower than a pass that a sample is worth trying."""
        return self.top > 1.0 and not self.problem.data.sparse and self.row_entries > 20

    def _resumed(self, state: NewtonState, earlier: NewtonState) -> NewtonState:
        """Return the state `earlier`, which continues with bit-identical results. On another problem, return a start
        from its weights."""
        if earlier.w.shape != state.w.shape or not np.isfinite(earlier.w).all():
            raise InvalidOptions(
                "warm_start",
                f"is not a state of {self.name} on data with {self.problem.data.n_features} features; leave it out",
            )
        n = self.problem.data.n_rows
        if np.array_equal(earlier.seen, state.seen) and earlier.slack.shape == (n // max(1, earlier.stride),):
            earlier.iterations, earlier.rows_read = 0, n
            return earlier
        state.trial = earlier.w
        self._enter(state, 1)
        state.gram.stride = 1
        self._prepare(state, is_warm=True)
        if self.top > 1.0 and (factor := _common_factor(earlier, state)) is not None:
            # The same rows at another C: their slacks at w stay, and the matrix is multiplied.
            state.gram, state.trial_slack, state.phase = earlier.gram, earlier.slack, "known"
            state.gram.matrix *= factor
            state.gram.peak *= factor
            state.gram.stride = 1
        return state


def _common_factor(earlier: NewtonState, state: NewtonState) -> float | None:
    """Return the factor between the costs of all rows now and in an earlier run on all of the same rows; None if there
    is none."""
    is_same_size = earlier.slack.shape == state.slack.shape == earlier.gram.summed.shape
    if not (is_same_size and earlier.stride == 1 and np.array_equal(earlier.seen[:3], state.seen[:3])):
        return None
    factors = state.seen[3:] / earlier.seen[3:]
    is_common = bool(abs(factors[0] - factors[1]) <= 1e-9 * factors[0])
    return float(factors[0]) if is_common else None
