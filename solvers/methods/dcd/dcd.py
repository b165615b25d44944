"""Dual coordinate descent: what `dcd` and its parallel sibling share.

Hsieh, Chang, Lin, Keerthi, Sundararajan: A dual coordinate descent method for large-scale linear SVM,
ICML 2008. It raises the dual one alpha_i at a time in random order and keeps w = sum_i alpha_i y_i x_i
up to date, so a step costs one row. Two things differ from the paper, because they save passes:

A row whose alpha_i sits at a bound naps (the paper: is left out until all others are solved). It is visited
again after as many epochs as its gradient holds the usual gradient of the others, so those far from leaving
their bound are hardly ever read, and nothing has to be undone at the end.

A regularised bias is a feature that all rows have. It adds as much to the curvature of each alpha_i as the rest
of a normalised row and halves every step. With S = sum_i alpha_i y_i its term of the dual is

    -1/2 beta^2 S^2 = min over b of  b^2 / (2 beta^2) - b S

and b is held close to a centre b_0 instead: with pull/2 (b - b_0)^2 added, b = share (S + pull b_0), where share =
1 / (1 / beta^2 + pull) replaces beta^2 in the curvature. Moving the centre to b some times an epoch is the proximal
point method in b, which converges fast as long as many alphas answer to b. Whether they do is seen by b and beta^2 S
staying apart; then the pull is weakened, and without it this is the paper's method. It is also weakened with time, so
that the limit is the paper's method whatever happens. At the beginning the centre is the best b for the scores of
some rows: with a small C b is far from 0 and most alphas, at their bound, would not move it there.

Where C is so small that nearly all alphas end at C, hinge begins there and not at zero; that may be near enough.

Where few rows are awake and the gap still falls slowly, those are solved for together (direct_solve.py); where
many are, those between their bounds are moved together now and then (cg_step.py).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from solvers.cost import Footprint, Pace
from solvers.data.rows import read_only
from solvers.data.samples import row_numbers
from solvers.errors import InvalidOptions
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Point, Progress, Rehearsal, Start
from solvers.methods.dcd.cg_step import MOST_READS, climb, combine
from solvers.methods.dcd.direct_solve import solve_awake
from solvers.methods.dcd.epoch import dual_value, run_pass
from solvers.methods.dcd.proximal_bias import bias_mismatch
from solvers.methods.dcd.sampled_gap import best_bias, likely_gap
from solvers.methods.dcd.shrinking import NEVER, wake_all
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["DualCoordinateDescent", "DualDescent"]

AWAKE_COST, AWAKE_READS, CREEPING = 8, 8, 0.1
"""Rows awake, cubed, for each stored entry, and squared, for each row, up to which they are solved for together, if
more than this part of the gap is left after a pass: it takes as long as a few passes."""
CLIMB_PASSES, FALL, NEAR = 8, 0.25, 0.5
"""Every so many passes, if more than this part of the gap before them is left, and the gap is below this part of the
objective, the rows between their bounds are moved together."""
LESS_PULL = 0.9
"""What is left of the pull after so many passes: about a quarter after a hundred."""
TOGETHER, CACHED_BYTES, THIN = 8, 32 << 20, 0.01
"""Rows are visited in random order, but so many neighbours together if the data is more than the cache holds: memory is
then read ahead (rcv1-like, 200k rows: an epoch takes half the time). Only of rows that share few columns, having less
than this part of all: others, if they are sorted, need more epochs (w8a up to three times as many)."""
FEEBLE, SLACK, SOME_ROWS = 0.1, 0.5, 2048
"""The mean C |x|^2 up to which alpha_i = C_i may be where to begin, if |w|^2 is up to so much of sum_i alpha_i, as some
rows tell, about so many at most."""
PULL = 30.0
"""Over the mean |x_i|^2: the bias then adds 1/30 to the curvature, and thirty free alphas are enough to move it."""


class DualDescent(Method[BinaryProblem, Any]):
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
    biases = ("none", "regularized")
    footprint = Footprint(row=19.0, squared_row=2.0, feature=4.5, kept_row=2.0, kept_feature=1.0)
    pace = Pace(
        least=5.4,
        hardness=0.78,
        hardest=1e12,
        precision=0.076,
        tallness=-0.09,
        squared=1.17,
        entry_seconds=8.4e-10,
        row_seconds=1.2e-7,
    )
    options = (
        Option("shrinking", bool, True, "visit rows seldom while their alpha is settled at a bound"),
        Option(
            "violation_tol",
            float,
            0.0,
            "LIBLINEAR's own stopping rule: stop once the largest minus the smallest projected gradient "
            "over all rows is below this; 0 leaves stopping to the certified gap",
            low=0.0,
        ),
    )
    rehearsals = (
        Rehearsal(600, {"loss": "hinge", "C": 0.1, "tol": 1e-8}),  # reaches the direct solve of a small active set
        Rehearsal(4800, {"loss": "hinge", "C": 1e-4}),  # enough rows for the sampled gap
    )

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        squared = problem.spec.exponent == 2.0
        counted = problem.costs > 0.0
        diagonal = np.zeros_like(problem.costs)
        if squared:
            np.divide(0.5, problem.costs, out=diagonal, where=counted)
        norms = problem.data.usable_squared_norms()
        self.upper = np.where(counted, np.inf, 0.0) if squared else problem.costs
        # Side by side, because a random row costs one cache miss for each array it is looked up in.
        self.constants = read_only(np.stack([problem.signs, problem.costs, diagonal, norms + diagonal], axis=1))
        self.counted = counted
        self.mean_norm = float(norms[counted].mean())
        self.first_pull = PULL / self.mean_norm if problem.bias_feature > 0.0 and self.mean_norm > 0.0 else 0.0
        self.rows = problem.data.flat()
        self.together = self._rows_together()

    def init(self, seed: int, start: Start) -> State:
        pool = np.flatnonzero(self.counted)
        state: State = {
            "alpha": np.zeros(self.problem.data.n_rows),
            "w": np.zeros(self.problem.data.n_features + 1),
            "balance": np.zeros(2),
            "pull": self.first_pull,
            "pool": pool,
            "pool_size": pool.size,
            "until_scan": pool.size,
            "until_sample": 0,
            "wake": np.where(self.counted, 0, NEVER).astype(np.int32),
            "now": 0,
            "usual": np.inf,
            "target": np.inf,
            "last_gap": np.inf,
            "gap": np.inf,
            "creeps": False,
            "is_at_bounds": False,
            "random_state": np.array([seed], dtype=np.uint64),
            "rows_until_climb": CLIMB_PASSES * pool.size,
            "gap_then": np.inf,
            "total_cost": self.problem.total_cost,
            "epochs": 0,
            "rows_read": 0,
        }
        if start.state is not None:
            self._resume(state, start.state)
        elif start.coef is not None:
            self._approach(state, start.coef, float(start.intercept))
        else:
            self._begin_at_bounds(state)
        return state

    def step(self, state: State, target: float) -> Progress:
        if state["is_at_bounds"]:
            state["is_at_bounds"] = False
            progress = self._look_at_bounds(state)
            if progress.gap_estimate is not None and progress.gap_estimate <= target:
                return progress
        if target < state["target"] < np.inf:
            # A certificate did not see what the estimate saw: some of those asleep have something to say.
            wake_all(state["wake"], state["now"])
            state["until_scan"] = 0
        state["target"] = target
        if self._is_worth_solving(state):
            self._solve_awake(state)
        before = state["now"]
        was_pulled = state["pull"] > 0.0
        visited, is_whole, gap, violation, updates, dual = self._run_pass(state, target)
        state["epochs"] += state["now"] - before
        state["rows_read"] += visited
        state["rows_until_climb"] -= visited
        state["gap"], state["creeps"] = gap, bool(gap > CREEPING * state["gap"])
        if state["rows_until_climb"] <= 0:
            scale = max(dual + gap, self.problem.primal_floor)
            self._look_back(state, gap, is_near=target * scale < gap < NEAR * scale)
        passes = state["rows_read"] // self.problem.data.n_rows
        if not (np.isfinite(dual) and np.isfinite(gap)):
            return Progress(state["epochs"], passes, None, None, None, Status.NONFINITE)
        finished = None
        if is_whole and updates == 0 and not was_pulled:
            finished = Status.STALLED
        elif is_whole and violation < self.chosen["violation_tol"]:
            finished = Status.STOPPED
        # With w = w(alpha) the gap is the sum of the rows' terms, each taken when its row was visited, and the bias's.
        primal = dual + gap
        return Progress(state["epochs"], passes, primal, dual, gap / max(primal, self.problem.primal_floor), finished)

    def extract(self, state: State) -> Point:
        intercept = float(state["balance"][0]) if self.problem.bias_feature > 0.0 else 0.0
        return Point(state["w"][:-1].copy(), intercept, state["alpha"].copy())

    def _run_pass(self, state: State, target: float) -> tuple[int, bool, float, float, int, float]:
        """(rows visited, whether the last epoch saw all, its gap, violation and updates, the dual objective)"""
        scalars = "pull", "usual", "now", "pool_size", "until_scan", "until_sample", "last_gap"
        *changed, visited, is_whole, gap, violation, updates, dual = run_pass(
            *self.rows,
            self.constants,
            self.problem.bias_feature,
            state["pull"],
            self.chosen["shrinking"],
            state["usual"],
            state["now"],
            state["pool_size"],
            state["until_scan"],
            state["until_sample"],
            state["last_gap"],
            state["pool"],
            self.together,
            state["wake"],
            state["alpha"],
            state["w"],
            state["balance"],
            state["random_state"],
            target,
            self.problem.primal_floor,
            self.chosen["violation_tol"],
        )
        state.update(zip(scalars, changed, strict=True))
        return visited, is_whole, gap, violation, updates, dual

    def _is_worth_solving(self, state: State) -> bool:
        size, data = state["pool_size"], self.problem.data
        is_short = size**3 <= AWAKE_COST * data.stored_entries and size**2 <= 2 * AWAKE_READS * data.n_rows
        is_allowed = self.reads_left > AWAKE_READS + 1
        return bool(0 < size < state["pool"].size and is_short and is_allowed and state["creeps"])

    def _solve_awake(self, state: State) -> None:
        """The rows that are awake, and then a look at all."""
        self._make_exact(state)
        rows = state["pool"][: state["pool_size"]]
        solve_awake(
            *self.rows, self.constants, self.problem.bias_feature, rows, state["alpha"], state["w"], state["balance"]
        )
        wake_all(state["wake"], state["now"])
        state["until_scan"], state["last_gap"] = 0, np.inf
        state["rows_read"] += rows.size * (rows.size + 3) // 2

    def _look_back(self, state: State, gap: float, *, is_near: bool) -> None:
        """After some passes: if they were worth little, move the rows between their bounds together."""
        size = state["pool"].size
        creeps = gap > FALL * state["gap_then"]
        state["rows_until_climb"], state["gap_then"] = CLIMB_PASSES * size, gap
        state["pull"] *= LESS_PULL
        if creeps and is_near and self.reads_left > MOST_READS:
            self._make_exact(state)
            read = climb(
                *self.rows, self.constants, self.problem.bias_feature, state["alpha"], state["w"], state["balance"]
            )
            state["rows_read"] += read
            state["rows_until_climb"] = max(state["rows_until_climb"], read)
            state["last_gap"] = np.inf

    def _make_exact(self, state: State) -> None:
        """Make w what alpha says: of use to a method that lets them drift apart."""

    def _rows_together(self) -> int:
        data, (values, columns, _) = self.problem.data, self.rows
        is_thin = data.stored_entries < THIN * data.n_rows * data.n_features
        return TOGETHER if is_thin and values.nbytes + columns.nbytes > CACHED_BYTES else 1

    def _balance(self, state: State) -> None:
        """b and S as alpha has them."""
        beta = self.problem.bias_feature
        if beta > 0.0:
            state["balance"] = np.array([beta * state["w"][-1], state["w"][-1] / beta])

    def _begin_at_bounds(self, state: State) -> None:
        """With hinge and a C so small that hardly any row reaches the margin, begin where nearly all end: at alpha_i =
        C_i, with a bias less for the larger class, so that S = 0. A read in order does what the first epoch would."""
        problem, data = self.problem, self.problem.data
        if problem.spec.exponent != 1.0 or problem.total_cost / data.n_rows * self.mean_norm > FEEBLE:
            return
        shares = np.ones(2)
        if problem.bias_feature > 0.0:
            both = problem.total_cost, float((problem.costs * problem.signs).sum())
            shares = 0.5 * np.array([both[0] - both[1], both[0] + both[1]])
            if shares.min() <= 0.0:  # all weights are those of one class
                return
            shares = shares.min() / shares
        signed = problem.costs * np.where(problem.signs > 0.0, shares[1], -shares[0])
        worth = SLACK * float((signed * problem.signs).sum())
        some = self._some_rows()
        if self._estimated_norm(signed, some) > worth:
            return
        w = np.zeros_like(state["w"])
        data.add_weighted_column_sums(signed, w[:-1])
        state["rows_read"] = data.n_rows
        if float((w * w).sum()) <= worth:
            state["alpha"], state["w"], state["epochs"], state["is_at_bounds"] = np.abs(signed), w, 1, True
            if problem.bias_feature > 0.0:
                state["balance"][0] = best_bias(*self.rows, self.constants, problem.bias_feature, w, some)

    def _look_at_bounds(self, state: State) -> Progress:
        """Where the run begins there, it may be over: some rows tell."""
        alpha, w, balance, beta = state["alpha"], state["w"], state["balance"], self.problem.bias_feature
        gap = likely_gap(*self.rows, self.constants, balance[0], w, alpha, self._some_rows())
        gap += bias_mismatch(beta, balance)
        dual = dual_value(alpha, self.constants, w)
        primal = dual + gap
        return Progress(state["epochs"], 1, primal, dual, gap / max(primal, self.problem.primal_floor))

    def _some_rows(self) -> Array:
        n_rows = self.problem.data.n_rows
        return row_numbers(n_rows, max(16, n_rows // SOME_ROWS))

    def _estimated_norm(self, signed: Floats, some: Array) -> float:
        """About |sum_i signed_i x_i|^2, from some rows."""
        alpha, total = np.abs(signed[some]), np.zeros(self.problem.data.n_features + 1)
        combine(*self.rows, self.constants, 0.0, some, alpha, total)
        stride = signed.size / some.size
        noise = float((alpha * alpha * self.constants[some, 3]).sum())  # what the sum of unrelated rows would have
        return stride * (stride * float((total * total).sum()) - (stride - 1.0) * noise)

    def _approach(self, state: State, coef: Floats, intercept: float) -> None:
        """Start from the dual point that the optimality conditions suggest for these weights, shortened
        to the length at which it is worth most: never worse than starting from zero."""
        scores = np.empty(self.problem.data.n_rows)
        self.problem.data.margins(coef, scores)
        slack = 1.0 - self.problem.signs * (scores + intercept)
        if self.problem.spec.exponent == 2.0:
            alpha = 2.0 * self.problem.costs * np.maximum(slack, 0.0)
        else:
            alpha = np.where(slack > 0.0, self.problem.costs, 0.0)
        w = self.problem.weights_of(alpha)
        quadratic = float((w * w).sum() + (self.constants[:, 2] * alpha * alpha).sum())
        length = min(1.0, float(alpha.sum()) / quadratic) if quadratic > 0.0 else 1.0
        state["alpha"], state["w"] = alpha * length, w * length
        self._balance(state)
        state["rows_read"] = 2 * self.problem.data.n_rows

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state; its alpha is a start for other costs, too."""
        if any(key not in earlier or np.shape(earlier[key]) != np.shape(state[key]) for key in ("alpha", "w")):
            rows, features = self.problem.data.n_rows, self.problem.data.n_features
            raise InvalidOptions("warm_start", f"is not a state of {self.name} on {rows} rows x {features} features")
        alpha = np.asarray(earlier["alpha"], dtype=np.float64)
        if not np.isfinite(alpha).all():
            raise InvalidOptions("warm_start", "has a dual point that is NaN or infinite")
        alpha = np.clip(alpha, 0.0, self.upper)
        w = self.problem.weights_of(alpha)
        w_kept = np.allclose(w, earlier["w"], rtol=1e-9, atol=1e-9 * max(1.0, float(np.abs(w).max())))
        state["alpha"], state["w"] = alpha, w
        self._balance(state)
        state["rows_read"] = self.problem.data.n_rows
        rows_kept = np.array_equal(np.asarray(earlier.get("wake", ())) == NEVER, state["wake"] == NEVER)
        counts = "pool_size", "until_scan", "until_sample", "rows_until_climb", "now"
        scalars = *counts, "pull", "usual", "target", "last_gap", "gap", "gap_then", "creeps"
        is_own = earlier.get("total_cost") == state["total_cost"] and earlier.keys() >= set(scalars)
        if rows_kept and w_kept and is_own:
            # The same problem: everything is taken over, so that going on from a checkpoint repeats
            # the uninterrupted run to the last bit.
            for key in ("w", "balance", "pool", "wake", "random_state"):
                state[key] = np.array(earlier[key], dtype=state[key].dtype)
            for key in scalars:
                state[key] = type(state[key])(earlier[key])


class DualCoordinateDescent(DualDescent):
    name = "dcd"
    paper = (
        "Hsieh, Chang, Lin, Keerthi, Sundararajan (2008): A dual coordinate descent method for large-scale linear SVM"
    )
    notes = "Fast for sparse data and moderate C; slows down as C grows or features are badly scaled."
