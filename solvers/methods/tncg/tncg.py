"""`tncg`: truncated Newton by preconditioned conjugate gradients, for both hinge losses and data of any width.

Squared hinge is minimised as it is. Hinge is smoothed, with the dual points of the last smoothing as centres, which is
the proximal method of multipliers (Rockafellar 1976) with a Newton method inside. Both are the one function

    P(w) = 1/2 |w|^2 + sum_i max over 0 <= a <= U_i of  a xi_i - (a - c_i)^2 / (2 k_i),    xi_i = 1 - y_i h_i . w

with k_i = 2 C_i, U_i infinite, c_i = 0 for squared hinge and k_i = C_i sharpness, U_i = C_i, c_i = the last alpha_i
for hinge. The a that attains the maximum, alpha_i = clip(c_i + k_i xi_i, 0, U_i), is the derivative; together these are
a dual point, with which the gap of the true loss is

    1/2 |g|^2 + sum_i (U_i - alpha_i) max(0, xi_i) + alpha_i max(0, -xi_i)      (squared hinge: no sum),

g being the gradient. So each point comes with a tight bound for nothing.

A Newton step solves H s = -g, H = 1 + sum over free rows (0 < alpha_i < U_i) of k_i h_i h_i', by conjugate gradients
preconditioned by H's diagonal; a product reads the free rows only. Conjugate gradients lower P, not |g|, and what can
be proved is |g|: beside s a combination of all s so far with the least |g + H s| is kept (residual smoothing, Weiss
1990), and where that is small enough it is the step. A step that P does not follow, or that could be much longer, is
cut or stretched to the minimum of P along it, from the slacks at both ends and without a row of X.

On tall data the first Newton steps are taken on every 125th, 25th or 5th row.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from solvers.cost import Footprint, Pace
from solvers.errors import InvalidOptions, InvalidProblem
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods.tncg.row_sums import RowProducts
from solvers.methods.tncg.smoothed_losses import choose_length, slacks_of_scores, weigh_rows
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["TruncatedNewton"]


FIRST_PRODUCTS, MOST_PRODUCTS = 30, 240
"""Of one Newton step: past these a new quadratic is worth more than a better minimum of the old one. Twice as many next
time if they were too few and the old one had been right, up to what the driver does not take for a standstill."""
SPARE_PRECISION = 0.4
"""Conjugate gradients end where the quadratic's own gap is this share of what is wanted."""
GOOD_AGREEMENT = 0.05
"""A quadratic whose gradient is wrong by less than this share of the last one was right."""
FIRST_SHARPNESS = 0.5
"""Hinge: at w = 0 every row is then free."""
MOST_SHARPNESS = 1e5
"""Hinge: centres do the rest; a sharper kink makes H worse conditioned and no row's alpha better."""
SOLVED_SHARE = 1.0
"""Hinge: how much of the rows' part of the gap the gradient's may be when centres move on."""
ROWS_A_FEATURE, LEAST_ROWS, STRIDE = 100, 2000, 5
"""A part of the rows tells something about all if it has so many (10 a feature were too few: mnist took a quarter
longer than from all rows); it is a STRIDE-th, or a STRIDE-th of that."""
PART_GAP = 0.05
"""Of a part of the rows: a smaller gap says nothing more about all rows."""
GOOD_SHARE = 0.25
"""Of the predicted decrease of P: with more a step is taken as it is."""
RISE = 0.01
"""Of the gradient's part of the gap, which P can fall by at most."""
ROUNDING = 1e-10
"""Below this share of P a predicted decrease drowns in the rounding of P; the slopes at both ends tell it instead."""


class TruncatedNewton(Method[BinaryProblem, Any]):
    name = "tncg"
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge")
    biases = ("none", "regularized")
    options = (
        Option("cg_tol", float, 0.2, "the share of the gradient at which a residual is small", low=1e-12, high=0.9),
        Option("subsample", bool, True, "take the first steps on part of the rows if there are many for each feature"),
    )
    footprint = Footprint(row=16.0, feature=24.0, kept_row=5.0, kept_feature=9.0)
    pace = Pace(
        least=44,
        hardness=0.185,
        precision=0.077,
        tallness=-0.21,
        squared=0.51,
        entry_seconds=1.4e-9,
        row_seconds=1e-7,
        divided=0.7,
    )
    paper = "Keerthi, DeCoste (2005): A modified finite Newton method; Hsia, Chiang, Lin (2018): Preconditioned CG"
    notes = (
        "For large C and high precision with more rows than features, where coordinate descent is slow; "
        "uses threads to the same bits."
    )
    uses_threads = True

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.products = RowProducts(problem)
        self.squared = problem.spec.exponent == 2.0

    def init(self, seed: int, start: Start) -> State:
        n, size = self.problem.data.n_rows, self.problem.data.n_features + 1
        state: State = {
            "steps": 0, "rows_read": 0, "newton_steps": 0, "products": 0,
            "w": np.zeros(size), "slack": np.ones(n), "centres": np.zeros(n), "alpha": np.zeros(n),
            "stride": self._first_stride(), "sharpness": 2.0 if self.squared else FIRST_SHARPNESS,
            "most_products": FIRST_PRODUCTS, "total_cost": self.problem.total_cost,
        }  # fmt: skip
        with np.errstate(over="ignore", invalid="ignore"):
            if start.state is not None:
                self._adopt(state, start.state)
            elif start.coef is not None:
                state["w"][:-1] = start.coef
                if self.problem.bias_feature:
                    state["w"][-1] = start.intercept / self.problem.bias_feature
                state["stride"] = 1
                self._score(state, state["w"], state["slack"])
            if "s" not in state:
                self._arrive(state)
        if not np.isfinite(state["M"]).all() or not np.isfinite(state["gradient"]).all():
            raise InvalidProblem("X", "has values too large to be squared; rescale X")
        return state

    def step(self, state: State, target: float) -> Progress:
        state["steps"] += 1
        finished = None
        with self.products.threads(self.threads):
            if not state["solved"]:
                self._run_conjugate_gradients(state, target)
            elif not self._move(state):
                finished = Status.STALLED
            if not state["solved"] and state["products"] == 0:
                self._go_on(state, target)
        primal, gap = state["primal"], state["half_gg"] + state["apart"]
        if not math.isfinite(primal + gap):
            finished = Status.NONFINITE
        passes = state["rows_read"] // self.problem.data.n_rows
        if state["stride"] > 1:
            return Progress(state["steps"], passes, None, None, 1.0, finished, is_complete=False)
        floor = max(primal, self.problem.primal_floor)
        if state["products"] > 0:
            # At the same w as before; what the quadratic promises tells the driver that this is not a standstill.
            promised = 0.5 * _dot(state["best_r"], state["best_r"]) + state["apart"]
            return Progress(state["steps"], passes, primal, primal - gap, promised / floor, finished, is_complete=False)
        return Progress(state["steps"], passes, primal, primal - gap, gap / floor, finished)

    def extract(self, state: State) -> Point:
        w = state["w"]
        return Point(w[:-1].copy(), float(self.problem.bias_feature * w[-1]), state["alpha"].copy())

    # --- the parts of a Newton step -----------------------------------------------------------------------------------

    def _arrive(self, state: State) -> None:
        """Everything that follows from w and its slacks: alpha, the gradient, H's diagonal; then s = 0."""
        problem, w = self.problem, state["w"]
        alpha, signed, free = state["alpha"], np.zeros(problem.data.n_rows), np.empty(problem.data.n_rows, np.int64)
        loss, state["apart"], count = weigh_rows(
            problem.costs, problem.signs, state["slack"], state["centres"], state["stride"], state["sharpness"],
            self.squared, alpha, signed, free,
        )  # fmt: skip
        state["free"] = free[:count].copy()
        gradient, M, curvatures, pulling = w.copy(), np.ones_like(w), np.zeros(signed.size), np.flatnonzero(signed)
        curvatures[state["free"]] = state["sharpness"] * state["stride"] * problem.costs[state["free"]]
        self.products.sums(signed, curvatures, pulling, gradient, M)
        state["rows_read"] += pulling.size
        state.update(gradient=gradient, M=M, primal=0.5 * _dot(w, w) + loss, half_gg=0.5 * _dot(gradient, gradient))
        r = -gradient
        d = r / M
        state.update(s=np.zeros_like(r), r=r, d=d, best_s=np.zeros_like(r), best_r=r.copy(), rho=_dot(r, d))
        state.update(first_rho=state["rho"], products=0, is_least=False, may_be_least=True, solved=not gradient.any())

    def _run_conjugate_gradients(self, state: State, target: float) -> None:
        """As many products as read about as many rows as there are."""
        free, Hd = state["free"], np.empty_like(state["d"])
        enough = max(self._wanted(state, target), 0.25 * SOLVED_SHARE * state["apart"])
        most = min(max(1, self.problem.data.n_rows // max(free.size, 1)), state["most_products"] - state["products"])
        for _ in range(most):
            Hd[:] = state["d"]
            self.products.product(self.problem.costs, state["sharpness"] * state["stride"], free, state["d"], Hd)
            state["products"] += 1
            state["rows_read"] += free.size
            state["rho"], best = _advance(
                state["M"], Hd, state["rho"], state["s"], state["r"], state["d"], state["best_s"], state["best_r"]
            )
            if 0.5 * best <= enough and state["may_be_least"]:
                state["solved"] = state["is_least"] = True
                return
            if self._is_small(state):
                state["solved"] = True
                return
        state["solved"] = state["products"] >= state["most_products"]

    def _move(self, state: State) -> bool:
        """Go to the minimum of P along s, or all the way if that is good enough; False if that is here."""
        is_least, w, before = state["is_least"], state["w"], state["slack"]
        s, r = (state["best_s"], state["best_r"]) if is_least else (state["s"], state["r"])
        there = w + s
        if np.array_equal(there, w):
            return self._widen(state) or self._follow(state, 1.0)
        after = np.empty_like(before)
        self._score(state, there, after)
        slope = _dot(state["gradient"], s)
        predicted = 0.5 * (_dot(s, r) - slope)
        # For the least gradient P may rise by a little of what it can still fall.
        least_decrease = -RISE * state["half_gg"] if is_least else GOOD_SHARE * predicted
        t = choose_length(
            before, after, self.problem.costs, state["centres"], state["stride"], state["sharpness"], self.squared,
            _dot(w, s), _dot(s, s), slope, least_decrease, predicted <= ROUNDING * state["primal"], is_least,
        )  # fmt: skip
        if is_least and t != 1.0:
            state.update(is_least=False, may_be_least=False, solved=self._is_small(state))
            return True
        if t == 1.0:
            state["w"], state["slack"] = there, after
        else:
            state["w"], state["slack"] = w + t * s, before + t * (after - before)
        state["newton_steps"] += 1
        foretold = (1.0 - t) * state["gradient"] - t * r
        scale, M, was_cut = state["first_rho"], state["M"], state["products"] >= state["most_products"]
        self._arrive(state)
        if was_cut:
            error = state["gradient"] - foretold
            was_right = _dot(error, error / M) < GOOD_AGREEMENT**2 * scale
            state["most_products"] = min(2 * state["most_products"], MOST_PRODUCTS) if was_right else FIRST_PRODUCTS
        return True

    def _go_on(self, state: State, target: float) -> None:
        """Where w is good enough for its part of the rows or its smoothing: more rows, or centres that follow."""
        wanted = self._wanted(state, target)
        primal = max(state["primal"], self.problem.primal_floor)
        if state["stride"] > 1 and state["half_gg"] + state["apart"] <= PART_GAP * primal:
            self._widen(state)
        elif state["apart"] > wanted and state["half_gg"] <= SOLVED_SHARE * state["apart"]:
            self._follow(state, min(max(math.sqrt(state["apart"] / wanted), 2.0), 10.0))

    def _widen(self, state: State) -> bool:
        """To more rows; False if these are all."""
        if state["stride"] == 1:
            return False
        state["stride"] //= STRIDE
        self._score(state, state["w"], state["slack"])
        self._arrive(state)
        return True

    def _follow(self, state: State, factor: float) -> bool:
        """Hinge: sharper by the factor, and with centres at alpha; False if that changes nothing."""
        sharpness = min(factor * state["sharpness"], max(MOST_SHARPNESS, state["sharpness"]))
        centres = state["alpha"] if state["stride"] == 1 else state["centres"]
        if self.squared or (sharpness == state["sharpness"] and np.array_equal(centres, state["centres"])):
            return False
        state["sharpness"], state["centres"] = sharpness, centres.copy()
        self._arrive(state)
        return True

    def _is_small(self, state: State) -> bool:
        """Whether the residual is."""
        return not state["rho"] > self.chosen["cg_tol"] ** 2 * state["first_rho"]

    def _wanted(self, state: State, target: float) -> float:
        """What of the gap may be the gradient's, or its rows'."""
        tolerance = target if state["stride"] == 1 else max(target, PART_GAP)
        return SPARE_PRECISION * tolerance * max(float(state["primal"]), self.problem.primal_floor)

    def _score(self, state: State, w: Floats, slack: Floats) -> None:
        rows = self._rows(state)
        self.products.scores(w, rows, slack)
        slacks_of_scores(self.problem.signs, slack)
        state["rows_read"] += rows.size

    def _rows(self, state: State) -> Array:
        return np.arange(0, self.problem.data.n_rows, state["stride"])

    def _first_stride(self) -> int:
        n, d, stride = self.problem.data.n_rows, self.problem.data.n_features, 1
        while (
            self.chosen["subsample"]
            and stride < STRIDE**3
            and n >= stride * STRIDE * max(ROWS_A_FEATURE * d, LEAST_ROWS)
        ):
            stride *= STRIDE
        return stride

    def _adopt(self, state: State, earlier: State) -> None:
        """Go on from an earlier state; its weights are a start for other rows and costs, too."""
        w = np.array(earlier.get("w", ()), dtype=np.float64)
        if w.shape != state["w"].shape or not np.isfinite(w).all():
            raise InvalidOptions("warm_start", f"is not a state of tncg on {w.size - 1} features")
        if not self.problem.bias_feature:
            w[-1] = 0.0
        state["w"], state["stride"] = w, 1
        alpha = np.array(earlier.get("alpha", ()), dtype=np.float64)
        if alpha.shape == state["alpha"].shape and earlier.get("total_cost") == state["total_cost"]:
            gradient, pulling = w.copy(), np.flatnonzero(alpha)
            self.products.sums(-self.problem.signs * alpha, np.zeros(alpha.size), pulling, gradient, np.empty_like(w))
            if np.array_equal(gradient, earlier["gradient"]):
                # The same problem: everything is taken over, so that going on from a checkpoint repeats the
                # uninterrupted run to the last bit.
                state["rows_read"] += pulling.size
                state.update({key: _copied(earlier[key]) for key in _KEPT})
                return
        self._score(state, w, state["slack"])


_KEPT = (
    "w", "slack", "centres", "alpha", "stride", "sharpness", "most_products", "free", "gradient",
    "M", "primal", "half_gg", "apart", "s", "r", "d", "best_s", "best_r", "rho", "first_rho", "products",
    "is_least", "may_be_least", "solved",
)  # fmt: skip


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _dot(a: Floats, b: Floats) -> float:
    # Not a @ b: BLAS would use threads, whose waiting costs more than the sum on a busy machine.
    return float((a * b).sum())


# --- the kernel -------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True, error_model="numpy")
def _advance(
    M: Array, Hd: Array, rho: float, s: Array, r: Array, d: Array, best_s: Array, best_r: Array
) -> tuple[float, float]:
    """One step of conjugate gradients from Hd = H d; rho is r' M^-1 r. Returns (rho, |best_r|^2)."""
    dHd = 0.0
    for j in range(d.size):
        dHd += d[j] * Hd[j]
    a = rho / dHd
    following, along, square = 0.0, 0.0, 0.0
    for j in range(d.size):
        s[j] += a * d[j]
        r[j] -= a * Hd[j]
        following += r[j] * r[j] / M[j]
        change = r[j] - best_r[j]
        along -= best_r[j] * change
        square += change * change
    t = along / square if square > 0.0 else 0.0
    beta = following / rho
    best = 0.0
    for j in range(d.size):
        best_s[j] += t * (s[j] - best_s[j])
        best_r[j] += t * (r[j] - best_r[j])
        best += best_r[j] * best_r[j]
        d[j] = r[j] / M[j] + beta * d[j]
    return following, best
