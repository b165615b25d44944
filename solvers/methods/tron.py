"""`tron`: trust-region Newton, which for squared hinge is the finite Newton method.

Lin, Weng, Keerthi: Trust region Newton method for large-scale logistic regression, JMLR 2008 (LIBLINEAR's
-s 2); Keerthi, DeCoste: A modified finite Newton method for fast solution of large scale linear SVMs, JMLR
2005. P is a quadratic as long as no row enters or leaves the margin, so few Newton steps are needed. Each is
found by preconditioned conjugate gradients (Hsia, Chiang, Lin 2018), which need products of the Hessian with
a vector only: no Hessian is formed, and a product reads the active rows and no others. A step of the method
is one evaluation of P, or as many products as read no more rows than that.

A Newton step that P does not follow is not thrown away: as Keerthi and DeCoste do, P is minimised exactly along
it, which needs the slacks at both ends and no row of X. The region then shrinks to twice that step. A region
that shrinks further, as Lin et al. have it, cuts the steps so short where many rows lie on the margin (nearly
separable data) that they zigzag between the pieces of P.

The papers' symbols, in d + 1 dimensions of which the last is the regularised bias: g is the gradient of P at
w, I the active rows (margin < 1), H = 1 + 2 X_I' C X_I the generalised Hessian, M its diagonal mixed with
the identity, s the Newton step, r = -g - H s its residual, d the direction of conjugate gradients, Delta the
radius of the region |s|_M <= Delta in which the quadratic is trusted; eta says when it changes, sigma how.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit

from solvers.cost import Footprint, Pace
from solvers.errors import InvalidOptions, InvalidProblem
from solvers.linalg.row import add_dense, add_sparse, dot_dense, dot_sparse
from solvers.linalg.types import Array, Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["TrustRegionNewton"]


ETA_BAD, ETA_GOOD = 0.25, 0.75
"""Between which the decrease of P is as predicted, more or less."""
SIGMA_BAD, SIGMA_GOOD = 2.0, 4.0
MOST_PRODUCTS = 150
"""Of one Newton step: past these a new quadratic is worth more than a better minimum of the old one."""
SPARE_PRECISION = 0.25
"""Conjugate gradients end where the quadratic's own gap is this share of what is wanted."""
ROUNDING = 1e-10
"""Below this share of P a predicted decrease drowns in the rounding of P; the slopes at both ends tell it instead."""
PATIENCE = 10
"""So many Newton steps of that kind in a row without a smaller gap are rounding, not progress."""


class TrustRegionNewton(Method[BinaryProblem, Any]):
    name = "tron"
    tasks = ("binary",)
    losses = ("squared_hinge",)
    biases = ("none", "regularized")
    options = (
        Option("cg_tol", float, 0.1, "the share of the gradient at which a residual is small", low=1e-12, high=0.9),
        Option(
            "diagonal_share",
            float,
            0.01,
            "how much of the preconditioner is the Hessian's diagonal; the rest is the identity, 0 is none",
            low=0.0,
            high=1.0,
        ),
        Option(
            "gradient_tol",
            float,
            0.0,
            "LIBLINEAR's own stopping rule: stop once the gradient is this share of the gradient at zero; "
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
    notes = (
        "Few passes whatever C is, and fast to high precision; coordinate descent is faster to a rough answer on text."
    )

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        self.rows = problem.data.flat()

    def init(self, seed: int, start: Start) -> State:
        earlier = start.state
        w = np.zeros(self.problem.data.n_features + 1)
        if earlier is not None:
            w = self._weights_in(earlier)
        elif start.coef is not None:
            w[:-1] = start.coef
            if self.problem.bias_feature:
                w[-1] = start.intercept / self.problem.bias_feature
        state: State = {"steps": 0, "rows_read": 0, "newton_steps": 0, "bad_steps": 0, "idle": 0}
        with np.errstate(over="ignore", invalid="ignore"):
            state.update(self._evaluate(state, w))
            state["first_gradient"] = math.sqrt(_dot(state["gradient"], state["gradient"]))
        if not (math.isfinite(state["first_gradient"]) and np.isfinite(state["M"]).all()):
            raise InvalidProblem("X", "has values too large to be squared; rescale X")
        if self.chosen["gradient_tol"] > 0.0 and w.any():
            at_zero = self._evaluate(state, np.zeros_like(w))["gradient"]
            state["first_gradient"] = math.sqrt(_dot(at_zero, at_zero))
        state["radius"] = math.sqrt(_weighted(state["gradient"], 1.0 / state["M"]))
        self._begin_newton_step(state)
        if earlier is not None and np.array_equal(state["gradient"], earlier.get("gradient", ())):
            # The same problem: everything is taken over, so that going on from a checkpoint repeats the
            # uninterrupted run to the last bit.
            for key in ("s", "r", "d"):
                state[key] = np.array(earlier[key], dtype=np.float64)
            for key in ("radius", "rho", "products", "solved", "on_boundary", "shortened", "drowned", "idle"):
                state[key] = earlier[key]
        return state

    def step(self, state: State, target: float) -> Progress:
        state["steps"] += 1
        finished = None
        if not state["gradient"].any():
            finished = Status.STALLED  # at the optimum to the last bit; there is nothing left to do
        elif not state["solved"]:
            self._run_conjugate_gradients(state, target)
        elif not self._try_newton_step(state):
            finished = Status.STALLED
        gradient_tol, norm = self.chosen["gradient_tol"], math.sqrt(_dot(state["gradient"], state["gradient"]))
        if not math.isfinite(state["rho"] + state["primal"]):
            finished = Status.NONFINITE
        elif gradient_tol > 0.0 and norm <= gradient_tol * state["first_gradient"]:
            finished = Status.STOPPED
        primal, gap = state["primal"], state["gap"]
        passes = state["rows_read"] // self.problem.data.n_rows
        estimate = gap / max(primal, self.problem.primal_floor)
        return Progress(state["steps"], passes, primal, primal - gap, estimate, finished)

    def extract(self, state: State) -> Point:
        w = state["w"]
        alpha = state["dual_scale"] * 2.0 * self.problem.costs * np.maximum(state["slack"], 0.0)
        return Point(w[:-1].copy(), float(self.problem.bias_feature * w[-1]), alpha)

    def _begin_newton_step(self, state: State) -> None:
        """Conjugate gradients start from s = 0."""
        r = -state["gradient"]
        d = r / state["M"]
        state.update(s=np.zeros_like(r), r=r, d=d, rho=_dot(r, d), products=0)
        state.update(solved=False, on_boundary=False, shortened=False, drowned=False)

    def _run_conjugate_gradients(self, state: State, target: float) -> None:
        n_rows, active = self.problem.data.n_rows, state["active_rows"].size
        # Not more precise than asked for: |r|^2 / 2 would be the gap at w + s if no row became active or inactive.
        enough = SPARE_PRECISION * target * max(state["primal"], self.problem.primal_floor)
        state["rho"], state["solved"], state["on_boundary"], products = _run_products(
            *self.rows,
            self.problem.costs,
            self.problem.bias_feature,
            state["active_rows"],
            state["M"],
            state["radius"],
            self.chosen["cg_tol"] ** 2 * _weighted(state["gradient"], 1.0 / state["M"]),
            enough,
            min(n_rows // max(active, 1), MOST_PRODUCTS - state["products"]),
            state["rho"],
            state["s"],
            state["r"],
            state["d"],
        )
        state["products"] += products
        state["rows_read"] += products * active
        if state["products"] >= MOST_PRODUCTS:
            state["solved"] = True

    def _try_newton_step(self, state: State) -> bool:
        """Go to w + s, or shorten s if P does not decrease as predicted; False if there is nowhere to go."""
        w, s = state["w"], state["s"]
        there = self._evaluate(state, w + s)
        if not state["shortened"]:
            slope = _dot(state["gradient"], s)
            predicted = 0.5 * (_dot(s, state["r"]) - slope)
            state["drowned"] = predicted <= ROUNDING * state["primal"]
            decrease = state["primal"] - there["primal"]
            if state["drowned"]:
                decrease = -0.5 * (slope + _dot(there["gradient"], s))
            if not decrease > ETA_BAD * predicted:
                t = _search_line(state["slack"], there["slack"], self.problem.costs, _dot(w, s), _dot(s, s))
                radius = min(state["radius"], SIGMA_BAD * math.sqrt(_weighted(s, state["M"])))
                state.update(s=t * s, shortened=True, radius=radius, bad_steps=state["bad_steps"] + 1)
                return True
            if decrease > ETA_GOOD * predicted and state["on_boundary"]:
                state["radius"] *= SIGMA_GOOD
        state["newton_steps"] += 1
        state["idle"] = state["idle"] + 1 if state["drowned"] and there["gap"] >= state["gap"] else 0
        if np.array_equal(there["w"], w) or state["idle"] > PATIENCE:
            return False
        state.update(there)
        self._begin_newton_step(state)
        return True

    def _evaluate(self, state: State, w: Floats) -> State:
        """What the state says about w: P, its derivatives, the slacks, and the gap that the best dual point
        t * 2 C xi leaves."""
        problem, n_rows = self.problem, self.problem.data.n_rows
        slack, active_rows = np.empty(n_rows), np.empty(n_rows, dtype=np.int64)
        gradient, diagonal = w.copy(), np.ones_like(w)
        loss, alpha_sum, active = _evaluate_rows(
            *self.rows, problem.signs, problem.costs, problem.bias_feature, w, slack, active_rows, gradient, diagonal
        )
        state["rows_read"] += n_rows
        # alpha = 2 C xi has w(alpha) = w - g, and D(t alpha) is a parabola in t.
        w_alpha = w - gradient
        curvature = 2.0 * loss + _dot(w_alpha, w_alpha)
        t = alpha_sum / curvature if curvature > 0.0 else 1.0
        apart = (1.0 - t) * w + t * gradient
        share = self.chosen["diagonal_share"]
        return {
            "w": w,
            "primal": 0.5 * _dot(w, w) + loss,
            "gradient": gradient,
            "M": (1.0 - share) + share * diagonal,
            "slack": slack,
            "active_rows": active_rows[:active].copy(),
            "dual_scale": t,
            "gap": 0.5 * _dot(apart, apart) + (1.0 - t) ** 2 * loss,
        }

    def _weights_in(self, earlier: State) -> Floats:
        size = self.problem.data.n_features + 1
        w = np.array(earlier.get("w", ()), dtype=np.float64)
        if w.shape != (size,) or not np.isfinite(w).all():
            raise InvalidOptions("warm_start", f"is not a state of tron on {size - 1} features")
        if not self.problem.bias_feature:
            w[-1] = 0.0
        return w


def _dot(a: Floats, b: Floats) -> float:
    # Not a @ b: BLAS would use threads, whose waiting costs more than the sum on a busy machine.
    return float((a * b).sum())


def _weighted(a: Floats, weights: Floats) -> float:
    return float((a * a * weights).sum())


# --- kernels. y, C: y_i and C_i of the row at hand; k counts the active rows. Row numbers and entries are unsigned, ---
# --- because a signed index is tested for a negative value each time it is used ---------------------------------------


@njit(cache=True, nogil=True)
def _evaluate_rows(
    values: Array, columns: Array, starts: Array, signs: Array, costs: Array, bias_feature: float, w: Array,
    slack: Array, active_rows: Array, gradient: Array, diagonal: Array,
) -> tuple[float, float, int]:  # fmt: skip
    """One pass: (sum of losses, sum of 2 C xi, active rows); what the rows contribute is added to the last arrays."""
    dense = starts.size == 0
    d = w.size - 1
    loss, alpha_sum, k = 0.0, 0.0, 0
    for i in range(signs.size):
        C, y = costs[i], signs[i]
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = dot_dense(values[first:past], w) if dense else dot_sparse(values, columns, first, past, w)
        xi = 1.0 - y * (score + bias_feature * w[d])
        slack[i] = xi
        if C == 0.0 or xi <= 0.0:
            continue
        active_rows[k] = i
        k += 1
        loss += C * xi * xi
        alpha = 2.0 * C * xi
        alpha_sum += alpha
        change = -y * alpha
        if dense:
            x = values[first:past]
            add_dense(x, change, gradient)
            for j in range(d):
                diagonal[j] += 2.0 * C * x[j] * x[j]
        else:
            add_sparse(values, columns, first, past, change, gradient)
            for e in range(first, past):
                diagonal[np.uint64(columns[e])] += 2.0 * C * values[e] * values[e]
        gradient[d] += change * bias_feature
        diagonal[d] += 2.0 * C * bias_feature * bias_feature
    return loss, alpha_sum, k


@njit(cache=True, nogil=True, error_model="numpy")
def _run_products(
    values: Array, columns: Array, starts: Array, costs: Array, bias_feature: float, active_rows: Array,
    M: Array, radius: float, small: float, enough: float, most: int, rho: float, s: Array, r: Array,
    d: Array,
) -> tuple[float, bool, bool, int]:  # fmt: skip
    """Conjugate gradients for at most `most` products with H; rho is r' M^-1 r.

    Returns (rho, whether s is as good as wanted, whether it reached the region's boundary, products).
    """
    Hd = np.empty_like(d)
    for product in range(1, most + 1):
        _multiply_hessian(values, columns, starts, costs, bias_feature, active_rows, d, Hd)
        dHd, sMs, sMd, dMd = 0.0, 0.0, 0.0, 0.0
        for j in range(d.size):
            dHd += d[j] * Hd[j]
            sMs += s[j] * M[j] * s[j]
            sMd += s[j] * M[j] * d[j]
            dMd += d[j] * M[j] * d[j]
        a = rho / dHd
        outside = sMs + 2.0 * a * sMd + a * a * dMd > radius * radius
        if outside:
            # The positive root of |s + a d|_M = radius, in the form that does not cancel.
            room = max(radius * radius - sMs, 0.0)
            root = np.sqrt(sMd * sMd + dMd * room)
            a = room / (sMd + root) if sMd > 0.0 else (root - sMd) / dMd
        rho_new, rr = 0.0, 0.0
        for j in range(d.size):
            s[j] += a * d[j]
            r[j] -= a * Hd[j]
            rr += r[j] * r[j]
            rho_new += r[j] * r[j] / M[j]
        if outside:
            return rho_new, True, True, product
        beta = rho_new / rho
        rho = rho_new
        if not rho > small or 0.5 * rr <= enough:
            return rho, True, False, product
        for j in range(d.size):
            d[j] = r[j] / M[j] + beta * d[j]
    return rho, False, False, most


@njit(cache=True, nogil=True, error_model="numpy")
def _search_line(before: Array, after: Array, costs: Array, ws: float, ss: float) -> float:
    """The t in [0, 1] that minimises P(w + t s), from the slacks at t = 0 and 1, w's and s's.

    The derivative rises in straight pieces: Newton's method finds its zero, bisection where it would leave.
    """
    low, high, t = 0.0, 1.0, 1.0
    for _ in range(100):
        slope, bend = ws + t * ss, ss
        for i in range(before.size):
            change = after[i] - before[i]
            slack = before[i] + t * change
            if slack > 0.0:
                slope += 2.0 * costs[i] * slack * change
                bend += 2.0 * costs[i] * change * change
        if slope > 0.0:
            high = t
        else:
            low = t
        following = t - slope / bend
        if not (low < following < high):
            following = 0.5 * (low + high)
        if not abs(following - t) > 1e-12 * t:
            return following
        t = following
    return t


@njit(cache=True, nogil=True)
def _multiply_hessian(
    values: Array, columns: Array, starts: Array, costs: Array, bias_feature: float, active_rows: Array,
    v: Array, out: Array,
) -> None:  # fmt: skip
    """out = H v, reading each active row once."""
    dense, d = starts.size == 0, v.size - 1
    for j in range(v.size):
        out[j] = v[j]
    for i in active_rows:
        first = np.uint64(i * d) if dense else np.uint64(starts[i])
        past = first + np.uint64(d) if dense else np.uint64(starts[i + 1])
        score = dot_dense(values[first:past], v) if dense else dot_sparse(values, columns, first, past, v)
        change = 2.0 * costs[i] * (score + bias_feature * v[d])
        if dense:
            add_dense(values[first:past], change, out)
        else:
            add_sparse(values, columns, first, past, change, out)
        out[d] += change * bias_feature
