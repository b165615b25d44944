"""Newton's method on a matrix of features x features, for tall data: what squared and smoothed losses share.

A step solves (I + X'VX) direction = -gradient, with V = C_i / h on the rows whose loss curves, and reads X once at the
point that it leads to. That read gives slacks, gradient and duality gap together; if the point is no good, the least
one on the line is found from the slacks of both ends, without X, and read.

- It starts on a sample of the rows, which grows as soon as the sample's own error is larger than what a step
  can still gain: all rows are only read a handful of times.
- The matrix is kept, and brought up to date by the rows that began or ceased to curve. Where many curve, that of a
  sample serves, with the exact diagonal (a rare column that the sample has not seen would otherwise be taken for flat);
  a larger sample follows as soon as steps gain too little for the reads that are left to do.
- The gap at w is 1/2 |w - u|^2 plus what the rows between the kinks add, for the dual point alpha(w) with u = sum
  alpha_i y_i x_i (of targets, alpha_i x_i): nothing is estimated. That point is also lengthened or shortened to where
  its bound is best.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from solvers.data.rows import read_only
from solvers.data.samples import RowSample, first_stride, next_stride, take_sample
from solvers.errors import InvalidOptions, UnsupportedProblem
from solvers.linalg.gram import add_gram_rows, gram_room
from solvers.linalg.types import Floats
from solvers.method import Method, Point, Progress, Start
from solvers.methods.newton.direction import newton_direction
from solvers.methods.newton.exact_line_search import search_line
from solvers.methods.newton.row_terms import Sums, evaluate_rows, mark_changes, shares_of, sum_with_places
from solvers.problem.problems import BinaryProblem, RegressionProblem
from solvers.problem.spec import ProblemSpec
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["MAX_FEATURES", "RowNewton"]

MAX_FEATURES = 4096  # the matrix, its factor and a copy of the state are then 400 MB
SAMPLE_SHARE, SPARSE_SAMPLE_SHARE = 0.5, 4.0
"""Of a sample's own error: what a step on it must promise. Of sparse rows it has seen few in most columns, and fits
those too well (w8a, squared hinge, C = 100, 1e-2: 12 reads of the sample and 9 of all rows with 0.5; 2, 8 with 4)."""
BLOCK_ENTRIES = 1 << 20  # of X in a block of rows: blocks are added in their order, by any number of threads
LEAST_SHARE = 0.1  # of the usual curvature of a column: covtype, C = 100, 1e-3: 6 steps on all rows without, 4 with it
SAMPLE_STEPS = 4  # with a sample's matrix: so many reads take as long as the matrix of all rows
LEAST_KNOWN = 1e-3  # part of a line from which on its end's slacks tell those between
PAIR_WORK = 12  # an entry of the matrix added by itself, at any place, takes as long as so many of a tile
PATIENCE = 16  # so many steps on all rows without a smaller gap mean that rounding rules, and not that a kink narrows
DRIFT = 1e-3  # the error of a downdated matrix, beside the identity in it, at which it is summed up anew
RAISES = (0.0, 1e-13, 1e-11, 1e-9, 1e-7)
"""Of its diagonal: added to a matrix of columns that are the same to rounding (a free bias, a large constant one)."""
_EPS = float(np.finfo(float).eps)


class RowNewton(Method[BinaryProblem | RegressionProblem, Any]):
    """The loop; a method says how wide the kink is smoothed and what follows when a width is done."""

    tasks = ("binary", "regression")
    biases = ("regularized", "none", "free")
    uses_threads = True
    top: float
    """The largest share of its cost that a row's alpha can be."""

    def __init__(self, problem: BinaryProblem | RegressionProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        data = problem.data
        if isinstance(problem, RegressionProblem):
            self.labels, self.low, self.tube = problem.targets, -self.top, problem.spec.epsilon
        else:
            self.labels, self.low, self.tube = problem.signs, 0.0, 0.0
        self.is_free = problem.spec.bias == "free"
        self.constant = 1.0 if self.is_free else problem.bias_feature
        self.ridge = np.ones(data.n_features + 1)
        self.ridge[-1] = 0.0 if self.is_free else 1.0
        self.row_entries = max(1.0, data.stored_entries / data.n_rows)
        self.changed, self.changes = np.empty(data.n_rows + 1, dtype=np.int64), np.empty(data.n_rows + 1)
        k = data.n_features + 1
        # Rows are gathered for tiles of the matrix, unless they are so sparse that adding pairs of entries is less.
        is_gathered = not data.sparse or k * k <= PAIR_WORK * self.row_entries**2
        self.sample_share = SPARSE_SAMPLE_SHARE if data.sparse and self.top > 1.0 else SAMPLE_SHARE
        self._taken: RowSample | None = None
        self.gathered = gram_room(k, is_gathered=is_gathered)

    @classmethod
    def missing(cls, spec: ProblemSpec) -> UnsupportedProblem | None:
        lacks = super().missing(spec)
        if lacks is None and spec.n_features > MAX_FEATURES:
            limit = f"takes at most {MAX_FEATURES} features, for it solves with a matrix of features x features"
            return UnsupportedProblem("solver", f"{cls.name} {limit}; the data has {spec.n_features}")
        return lacks

    @abstractmethod
    def _advance(self, state: State, gain: float, wanted: float) -> bool:
        """Change what defines the smooth problem, if this one is solved well enough for the gap that is wanted here.

        `gain` is what the next step could still lower its objective by, relative to that.
        """

    def init(self, seed: int, start: Start) -> State:
        data = self.problem.data
        k = data.n_features + 1
        state: State = {
            # Of the trial: "moved", "searched", and "known" with its slacks, are taken as they are; "trial" is judged.
            "phase": "moved",
            "w": np.zeros(k),
            "trial": np.zeros(k),
            "u": np.zeros(k),
            "squares": np.zeros(k),  # sums of C_i h_i^2: squared losses: of the rows that curve; others: of all rows
            "squares_known": False,
            "least_share": LEAST_SHARE,  # of newton_direction
            "slack": np.zeros(0),  # like the other numbers of rows, of those in the sample
            "trial_slack": np.zeros(0),
            "before": np.zeros(0),
            "gram": np.zeros((k, k)),  # of the rows in `summed`, upper triangle
            "summed": np.zeros(0, dtype=bool),
            "summed_stride": 0,
            "peak": 0.0,  # the largest trace of `gram` since it was summed up anew
            "stride": first_stride(data, has_top=self.top == 1.0),
            "gram_stride": 1,
            "seed": seed % 2**31,
            "h": 0.5,
            "smooth": math.inf,  # the smooth objective at w
            "slope": 0.0,  # its derivative at w towards the trial
            "gap": math.inf,  # of alpha as it is, on all rows
            "blur": 0.0,  # what smoothing adds to the gap, relative to the objective
            "misfit": 0.0,  # what the gradient adds to it
            "spread": 0.0,  # the mean of the rows' losses
            "stretch": 1.0,  # what makes the best dual point of alpha
            "best_gap": math.inf,
            "lowest": math.inf,  # the smooth objective before, if it was the same one
            "idle": 0,
            # The place counts: weights may be the same numbers in another order.
            "seen": np.array(
                [sum_with_places(self.problem.costs), sum_with_places(self.labels), self.tube, self.constant]
            ),
            **dict.fromkeys(("iterations", "rows_read"), 0),
        }
        if self.is_free and self.low < 0.0:
            state["trial"][-1] = np.median(self.labels[self.problem.costs > 0.0])  # targets may be far from 0
        self._enter(state, state["stride"])
        self._prepare(state, is_warm=start.coef is not None)
        if start.state is not None:
            self._resume(state, start.state)
        elif start.coef is not None:
            scale = self.constant
            state["trial"] = np.append(start.coef, start.intercept / scale if scale > 0.0 else 0.0)
            self._enter(state, 1)
            state["gram_stride"] = 1
        return state

    def _enter(self, state: State, stride: int) -> None:
        """Go on with a sample of this stride, at the trial."""
        n = self.problem.data.n_rows // stride
        state["stride"], state["summed_stride"] = stride, 0
        if stride > 1 or not self._is_long():
            state["gram_stride"] = stride
        state["slack"], state["trial_slack"] = np.empty(n), np.empty(n)
        state["summed"] = np.zeros(n, dtype=bool)
        state["before"] = np.zeros(0)  # none yet

    def _prepare(self, state: State, *, is_warm: bool) -> None:
        """Set what defines the smooth problem at the start."""

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # it is a status
    def step(self, state: State, target: float) -> Progress:
        if state["phase"] == "aim":
            try:
                self._aim(state, target)
            except np.linalg.LinAlgError:
                return self._overflowed(state)
        sums, vectors = self._evaluate(state)
        w, u = state["trial"], vectors[0]
        smooth = 0.5 * self._dot(w, w) + sums.smooth
        if not math.isfinite(smooth + float(u.sum())):
            return self._overflowed(state)
        state["iterations"] += 1
        if state["phase"] == "trial":
            direction = w - state["w"]
            slope = self._dot(w, direction) - _dot(u, direction)
            rounding = 1e-13 * abs(smooth)
            # At the minimum both slopes are noise, and a line that is searched by noise leads anywhere.
            steep = max(0.5 * abs(state["slope"]), _EPS * abs(smooth))
            if abs(slope) > steep or smooth > state["smooth"] + rounding:
                self._search(state, direction)
                if state["gram_stride"] > state["stride"]:
                    state["gram_stride"] = state["stride"]  # a sample's matrix led astray
                return self._progress(state)
        state["w"], state["u"], state["smooth"] = w, u, smooth
        if self.top > 1.0 or not state["squares_known"]:
            state["squares"], state["squares_known"] = vectors[1], True
        state["slack"], state["trial_slack"] = state["trial_slack"], state["slack"]
        state["phase"] = "aim"
        scale = max(0.5 * self._dot(w, w) + sums.loss, self.problem.primal_floor)
        misfit = 0.5 * _dot(w * self.ridge - u, w * self.ridge - u) + self._imbalance(sums, u)
        state["blur"], state["misfit"] = sums.mismatch / scale, misfit / scale
        state["spread"] = sums.loss / self.problem.total_cost
        return self._judged(state, sums, target)

    def _overflowed(self, state: State) -> Progress:
        """The end, if not an error that names a row."""
        self.problem.data.usable_squared_norms()
        return self._progress(state, Status.NONFINITE)

    def extract(self, state: State) -> Point:
        w, alpha = state["w"], None
        if state["stride"] == 1:
            alpha = np.empty(self.problem.data.n_rows)
            shares_of(read_only(state["slack"]), *self._smoothing(state), alpha)
            alpha *= state["stretch"] * self.problem.costs
        return Point(w[:-1].copy(), float(self.constant * w[-1]), alpha)

    # --- where to go -------------------------------------------------------------------------------------------------

    def _aim(self, state: State, target: float) -> None:
        """The next trial: a Newton step, or, once that gains less than the smooth problem is wrong by, the next one."""
        direction = self._direction(state)
        gradient = state["w"] * self.ridge - state["u"]
        state["slope"] = _dot(gradient, direction)
        state["trial"] = state["w"] + direction
        state["phase"] = "trial"
        gain = -0.5 * state["slope"] / max(state["smooth"], self.problem.primal_floor)
        n = self.problem.data.n_rows
        error = state["w"].size * (state["stride"] - 1) / n  # of the sample's minimum: off by some k rows' losses
        if state["stride"] > 1 and gain <= self.sample_share * error:
            self._enter(state, next_stride(state["stride"]))
            state["phase"], state["squares_known"], gain = "moved", False, 0.0
        if self._advance(state, gain, max(target, error)):
            state["phase"], state["lowest"] = "moved", math.inf

    def _direction(self, state: State) -> Floats:
        self._update_gram(state)
        gradient = state["w"] * self.ridge - state["u"]
        direction: Floats = np.empty(gradient.size)
        curvature, of_sample = self._scale(state["gram_stride"]) / state["h"], state["gram_stride"] > state["stride"]
        least_share = state["least_share"] if self.top == 1.0 else 0.0
        damping = state["h"], state["squares"], least_share, of_sample
        for more in RAISES:
            gram = state["gram"] + np.diag(more * state["gram"].diagonal()) if more > 0.0 else state["gram"]
            if newton_direction(gram, curvature, *damping, self.ridge, gradient, direction):
                return direction
        raise np.linalg.LinAlgError("the matrix is not positive definite")

    def _update_gram(self, state: State) -> None:
        gram, sample = state["gram"], self._sample(state)
        stride = 1 if state["gram_stride"] == state["stride"] else state["gram_stride"]  # within the sample
        anew = state["peak"] * _EPS > DRIFT or state["summed_stride"] != stride
        if state["summed_stride"] != stride:
            state["summed"][:], state["summed_stride"] = False, stride
        arguments = sample.costs, *self._smoothing(state), stride, state["seed"]
        into = state["summed"], self.changed, self.changes
        count, anew = mark_changes(read_only(state["slack"]), *arguments, *into, anew)
        if anew:
            gram[:], state["peak"] = 0.0, 0.0
        changed = read_only(self.changed[:count]), read_only(self.changes[:count])
        add_gram_rows(*sample.data.flat(), *changed, self.constant, *self.gathered, gram)
        state["rows_read"] += count
        trace = float(gram.trace())
        if not math.isfinite(trace):
            raise np.linalg.LinAlgError("the matrix overflows")
        state["peak"] = max(state["peak"], trace)

    def _search(self, state: State, direction: Floats) -> None:
        """The least point of the line through w and the trial becomes the trial."""
        w, costs = state["w"], self._sample(state).costs
        arguments = costs, *self._smoothing(state)
        slopes = self._scale(state["stride"]), self._dot(w, direction), self._dot(direction, direction), state["slope"]
        n = costs.size
        room = self.changes[:n], self.changed[:n].view(np.float64)
        t = search_line(read_only(state["slack"]), state["trial_slack"], *arguments, *slopes, *room)
        # Slacks on a line need no read; unless its end was so far away that little of their digits is left.
        state["trial"], state["phase"] = w + t * direction, "known" if t > LEAST_KNOWN else "searched"
        # Too long a step, or one that the columns' least curvature made too short.
        state["least_share"] = LEAST_SHARE if t < 0.2 else state["least_share"] * (0.1 if t > 1.0 else 1.0)

    # --- where it is -------------------------------------------------------------------------------------------------

    def _evaluate(self, state: State) -> tuple[Sums, Floats]:
        """Read the sample at the trial: sums as if it were all rows."""
        sample, stride = self._sample(state), state["stride"]
        rows = sample.data.n_rows
        n_blocks = max(1, int(rows * self.row_entries) // BLOCK_ENTRIES)
        edges = [rows * block // n_blocks for block in range(n_blocks + 1)]
        vectors = np.zeros((n_blocks, 2, state["w"].size))
        weights = read_only(state["trial"])
        smoothing = self._smoothing(state)
        with_squares = state["gram_stride"] > stride if self.top > 1.0 else not state["squares_known"]
        with_scores = state["phase"] != "known"
        kernel: Callable[..., tuple[float, ...]] = evaluate_rows
        constants: tuple[Any, ...] = (*sample.data.flat(), sample.labels, sample.costs, self.constant, weights)

        def read(block: int) -> tuple[float, ...]:
            into: tuple[Any, ...] = edges[block], edges[block + 1], state["trial_slack"], vectors[block]
            return kernel(*constants, *smoothing, *into, with_squares, with_scores)

        if self.threads > 1 and n_blocks > 1:
            with ThreadPoolExecutor(min(self.threads, n_blocks)) as pool:
                parts = list(pool.map(read, range(n_blocks)))
        else:
            parts = [read(block) for block in range(n_blocks)]
        state["rows_read"] += rows
        scale = self._scale(stride)
        total = [scale * math.fsum(part[field] for part in parts) for field in range(len(Sums._fields))]
        return Sums(*total), scale * vectors.sum(axis=0)

    def _judged(self, state: State, sums: Sums, target: float) -> Progress:
        """The accepted point's figures, if they are those of all rows."""
        if state["stride"] > 1:
            return self._progress(state)
        w, u = state["w"], state["u"]
        primal = 0.5 * self._dot(w, w) + sums.loss
        gradient = (w - u)[: w.size - self.is_free]
        gap = 0.5 * _dot(gradient, gradient) + sums.mismatch
        if state["gram_stride"] > 1 and state["gap"] < math.inf:
            # The next steps will gain like this one; if too many are needed, all rows' matrix is cheaper.
            ratio, wanted = gap / state["gap"], target * max(primal, self.problem.primal_floor)
            state["gram_stride"] = 1 if ratio >= 1.0 or gap * ratio**SAMPLE_STEPS > wanted else state["gram_stride"]
        state["gap"] = gap
        gap += self._imbalance(sums, u)
        # D(t alpha) = t (earned + u . w) - t^2 / 2 curvature has its maximum at `stretch`.
        curvature = self._dot(u, u) + 2.0 * sums.conjugate
        rise = sums.earned - 2.0 * sums.conjugate + self._dot(u, w - u)
        stretch = max(0.0, 1.0 + rise / curvature) if curvature > 0.0 else 1.0
        state["stretch"] = min(stretch, 1.0) if self.top == 1.0 else stretch
        gap = max(0.0, gap - 0.5 * curvature * (1.0 - state["stretch"]) ** 2)
        scale = max(primal, self.problem.primal_floor)
        if gap < 0.99 * state["best_gap"] or state["smooth"] < state["lowest"] - 1e-14 * abs(state["lowest"]):
            state["idle"] = 0
        else:
            state["idle"] += 1
        state["lowest"] = state["smooth"]
        state["best_gap"] = min(gap, state["best_gap"])
        finished = Status.STALLED if state["idle"] >= PATIENCE else None
        return self._progress(state, finished)._replace(
            primal=primal, dual_bound=primal - gap, gap_estimate=gap / scale
        )

    def _imbalance(self, sums: Sums, u: Floats) -> float:
        """What a free bias adds to the gap: rows of the heavier side give up as much as there is too much of it."""
        if not (self.is_free and sums.alpha > 0.0):
            return 0.0
        excess = abs(u[-1]) / sums.alpha
        return float(excess * (sums.loss + excess * self._dot(u, u)))

    def _progress(self, state: State, finished: Status | None = None) -> Progress:
        passes = state["rows_read"] // self.problem.data.n_rows
        return Progress(state["iterations"], passes, None, None, None, finished, is_complete=state["stride"] == 1)

    # --- sizes -------------------------------------------------------------------------------------------------------

    def _sample(self, state: State) -> RowSample:
        if self._taken is None or self._taken.stride != state["stride"]:
            rows = self.problem.data, self.labels, self.problem.costs
            self._taken = take_sample(*rows, state["stride"], state["seed"])
        return self._taken

    def _smoothing(self, state: State) -> tuple[float, float, float, float, Floats]:
        """What row_terms.py calls h, low, top, tube and before."""
        return state["h"], self.low, self.top, self.tube, read_only(state["before"])

    def _is_long(self) -> bool:
        """Whether adding up the matrix of all rows takes so much longer than a read that a sample is worth trying."""
        return self.top > 1.0 and not self.problem.data.sparse and self.row_entries > 20

    def _scale(self, stride: int) -> float:
        n = self.problem.data.n_rows
        return n / (n // stride)

    def _dot(self, left: Floats, right: Floats) -> float:
        """Without the bias, if that is free."""
        return float((left * right * self.ridge).sum())

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state, to the same bits; on another problem, start from its weights."""
        if np.shape(earlier.get("w", 0.0)) != state["w"].shape or not np.isfinite(earlier["w"]).all():
            raise InvalidOptions(
                "warm_start", f"is not a state of {self.name} on {self.problem.data.n_features} features"
            )
        is_own = state.keys() <= earlier.keys() and np.array_equal(earlier["seen"], state["seen"])
        n = self.problem.data.n_rows
        if is_own and np.shape(earlier["slack"]) == (n // earlier["stride"],):
            for name, value in state.items():
                state[name] = np.array(earlier[name]) if isinstance(value, np.ndarray) else earlier[name]
            state["iterations"], state["rows_read"] = 0, n
        else:
            state["trial"] = np.array(earlier["w"])
            self._enter(state, 1)
            state["gram_stride"] = 1
            self._prepare(state, is_warm=True)


def _dot(left: Floats, right: Floats) -> float:
    # Not left @ right: BLAS would use threads, whose waiting costs more than the sum on a busy machine.
    return float((left * right).sum())
