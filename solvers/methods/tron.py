"""`tron`: trust-region Newton, which for squared hinge is the finite Newton method.

Lin, Weng, Keerthi: Trust region Newton method for large-scale logistic regression, JMLR 2008 (LIBLINEAR's
-s 2); Keerthi, DeCoste: A modified finite Newton method for fast solution of large scale linear SVMs, JMLR
2005. P is a quadratic as long as no row enters or leaves the margin, so few Newton steps are needed. Each is
found by preconditioned conjugate gradients (Hsia, Chiang, Lin 2018), which need products of the Hessian with
a vector only: no Hessian is formed, and a product reads the active rows and no others. A step of the method
is one evaluation of P, or as many products as read no more rows than that.

The papers' symbols, in d + 1 dimensions of which the last is the regularised bias: g is the gradient of P at
w, I the active rows (margin < 1), H = 1 + 2 X_I' C X_I the generalised Hessian, M its diagonal mixed with
the identity, s the Newton step, r = -g - H s its residual, d the direction of conjugate gradients, Delta the
radius of the region |s|_M <= Delta in which the quadratic is trusted; eta and sigma say when and how it changes.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.certificate import primal_floor
from solvers.errors import InvalidOptions, InvalidProblem
from solvers.problem import Problem
from solvers.protocol import Method, Option, Point, Progress, Start
from solvers.result import State, Status
from solvers.rows import CsrRows, DenseRows, Floats, read_only

__all__ = ["TrustRegionNewton"]

Array = NDArray[Any]

ETA_ACCEPT, ETA_POOR, ETA_GOOD = 1e-4, 0.25, 0.75
SIGMA_LEAST, SIGMA_LESS, SIGMA_MORE = 0.25, 0.5, 4.0
MOST_PRODUCTS = 150
"""Of one Newton step: past these a new quadratic is worth more than a better minimum of the old one."""
SPARE_PRECISION = 0.25
"""Conjugate gradients end where the quadratic's own gap is this share of what is wanted."""
ROUNDING = 1e-10
"""Below this share of P a predicted decrease drowns in the rounding of P; the gradient is compared instead."""


class _Evaluation(NamedTuple):
    """P and its derivatives at one w."""

    primal: float
    gradient: Floats
    diagonal: Floats
    """Of H."""
    xi: Floats
    active_rows: NDArray[np.int64]
    dual_scale: float
    """The t for which the dual point t * 2 C xi is worth most."""
    gap: float
    """What that dual point leaves between the primal and the dual."""


class TrustRegionNewton(Method):
    name = "tron"
    tasks = ("binary",)
    losses = ("squared_hinge",)
    biases = ("none", "regularized")
    options = (
        Option(
            "cg_tol",
            float,
            0.1,
            "conjugate gradients end once the residual is this share of the gradient",
            low=1e-12,
            high=0.9,
        ),
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
    paper = "Lin, Weng, Keerthi (2008): Trust region Newton method; Keerthi, DeCoste (2005): A modified finite Newton"
    notes = (
        "Few passes whatever C is, and fast to high precision; coordinate descent is faster to a rough answer on text."
    )

    def __init__(self, problem: Problem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        data = problem.data
        if isinstance(data, CsrRows):
            self.rows = data.values, data.columns, data.starts
        else:
            assert isinstance(data, DenseRows)
            nothing = read_only(np.empty(0, np.uint32)), read_only(np.empty(0, np.int64))
            self.rows = data.values.reshape(-1), *nothing

    def init(self, seed: int, start: Start) -> State:
        earlier = start.state
        w = np.zeros(self.problem.data.n_features + 1)
        if earlier is not None:
            w = self._weights_in(earlier)
        elif start.coef is not None:
            w[:-1] = start.coef
            if self.problem.bias_feature:
                w[-1] = start.intercept / self.problem.bias_feature
        state: State = {"w": w, "steps": 0, "rows_read": 0, "newton_steps": 0, "rejected": 0}
        evaluation = self._evaluate(state, w)
        if not np.isfinite(evaluation.gradient @ evaluation.gradient) or not np.isfinite(evaluation.diagonal).all():
            raise InvalidProblem("X", "has values too large to be squared; rescale X")
        state["gradient_at_zero"] = self._gradient_norm_at_zero(state, evaluation)
        self._move(state, w, evaluation)
        state["radius"] = math.sqrt(_weighted(evaluation.gradient, 1.0 / state["M"]))
        self._begin_newton_step(state)
        if earlier is not None and np.array_equal(evaluation.gradient, earlier.get("gradient", ())):
            # The same problem: everything is taken over, so that going on from a checkpoint repeats the
            # uninterrupted run to the last bit.
            for key in ("s", "r", "d"):
                state[key] = np.array(earlier[key], dtype=np.float64)
            for key in ("radius", "rho", "products", "solved", "on_boundary", "newton_steps"):
                state[key] = earlier[key]
        return state

    def step(self, state: State, target: float) -> Progress:
        state["steps"] += 1
        finished = None
        if state["gap"] == 0.0:
            finished = Status.STALLED
        elif not state["solved"]:
            self._run_conjugate_gradients(state, target)
        elif not self._try_newton_step(state):
            finished = Status.STALLED
        if not math.isfinite(state["rho"]):
            finished = Status.NONFINITE
        elif finished is None and math.sqrt(_dot(state["gradient"], state["gradient"])) <= (
            self.chosen["gradient_tol"] * state["gradient_at_zero"]
        ):
            finished = Status.STOPPED
        primal, gap = state["primal"], state["gap"]
        passes = state["rows_read"] // self.problem.data.n_rows
        estimate = gap / max(primal, primal_floor(self.problem))
        return Progress(state["steps"], passes, primal, primal - gap, estimate, finished)

    def extract(self, state: State) -> Point:
        w = state["w"]
        alpha = state["dual_scale"] * 2.0 * self.problem.costs * state["xi"]
        return Point(w[:-1].copy(), float(self.problem.bias_feature * w[-1]), alpha)

    def _begin_newton_step(self, state: State) -> None:
        """Conjugate gradients start from s = 0."""
        r = -state["gradient"]
        d = r / state["M"]
        state.update(s=np.zeros_like(r), r=r, d=d, rho=_dot(r, d), products=0, solved=False, on_boundary=False)

    def _run_conjugate_gradients(self, state: State, target: float) -> None:
        n_rows, active = self.problem.data.n_rows, state["active_rows"].size
        # Not more precise than asked for: |r|^2 / 2 would be the gap at w + s if no row became active or inactive.
        enough = SPARE_PRECISION * target * max(state["primal"], primal_floor(self.problem))
        first = -(-n_rows // max(active, 1)) if active == n_rows else n_rows // max(active, 1)
        state["rho"], state["solved"], state["on_boundary"], products = _run_products(
            *self.rows,
            self.problem.costs,
            self.problem.bias_feature,
            state["active_rows"],
            state["M"],
            state["radius"],
            self.chosen["cg_tol"] ** 2 * _weighted(state["gradient"], 1.0 / state["M"]),
            enough,
            min(first, MOST_PRODUCTS - state["products"]),
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
        """Go to w + s if P decreases as predicted, and adapt the region; False if no step is left to try."""
        s, g = state["s"], state["gradient"]
        trial = state["w"] + s
        if np.array_equal(trial, state["w"]):
            return False
        evaluation = self._evaluate(state, trial)
        slope = _dot(g, s)
        predicted = 0.5 * (_dot(s, state["r"]) - slope)
        if predicted > ROUNDING * state["primal"]:
            agreement = (state["primal"] - evaluation.primal) / predicted
        else:
            weights = 1.0 / state["M"]
            agreement = 1.0 - _weighted(evaluation.gradient, weights) / _weighted(g, weights)
        length = math.sqrt(_weighted(s, state["M"]))
        if state["newton_steps"] == 0:
            state["radius"] = min(state["radius"], length)
        if not agreement > ETA_POOR:
            # The minimum of the parabola through both values and the slope, within limits.
            bend = evaluation.primal - state["primal"] - slope
            shorter = -0.5 * slope / bend if math.isfinite(bend) and bend > 0.0 else SIGMA_LEAST
            state["radius"] = length * min(max(shorter, SIGMA_LEAST), SIGMA_LESS)
        elif agreement > ETA_GOOD and state["on_boundary"]:
            state["radius"] *= SIGMA_MORE
        state["newton_steps"] += 1
        if agreement > ETA_ACCEPT:
            self._move(state, trial, evaluation)
        else:
            state["rejected"] += 1
        self._begin_newton_step(state)
        return True

    def _move(self, state: State, w: Floats, evaluation: _Evaluation) -> None:
        share = self.chosen["diagonal_share"]
        state.update(
            w=w,
            primal=evaluation.primal,
            gap=evaluation.gap,
            gradient=evaluation.gradient,
            xi=evaluation.xi,
            active_rows=evaluation.active_rows,
            dual_scale=evaluation.dual_scale,
            M=(1.0 - share) + share * evaluation.diagonal,
        )

    def _evaluate(self, state: State, w: Floats) -> _Evaluation:
        problem, n_rows = self.problem, self.problem.data.n_rows
        xi, active_rows = np.empty(n_rows), np.empty(n_rows, dtype=np.int64)
        gradient, diagonal = np.empty_like(w), np.empty_like(w)
        loss, alpha_sum, active = _evaluate_rows(
            *self.rows, problem.signs, problem.costs, problem.bias_feature, w, xi, active_rows, gradient, diagonal
        )
        state["rows_read"] += n_rows
        # alpha = 2 C xi has w(alpha) = w - g; D(t alpha) is a parabola in t.
        w_alpha = w - gradient
        curvature = 2.0 * loss + _dot(w_alpha, w_alpha)
        t = alpha_sum / curvature if curvature > 0.0 else 1.0
        apart = (1.0 - t) * w + t * gradient
        gap = 0.5 * _dot(apart, apart) + (1.0 - t) ** 2 * loss
        primal = 0.5 * _dot(w, w) + loss
        return _Evaluation(primal, gradient, diagonal, xi, active_rows[:active].copy(), t, gap)

    def _gradient_norm_at_zero(self, state: State, evaluation: _Evaluation) -> float:
        if self.chosen["gradient_tol"] > 0.0 and state["w"].any():
            evaluation = self._evaluate(state, np.zeros_like(state["w"]))
        return math.sqrt(_dot(evaluation.gradient, evaluation.gradient))

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


# --- kernels. y, C: y_i and C_i of the row at hand; k counts the active rows ------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # lets a sum be vectorised and still carries NaN and infinity


@njit(cache=True, nogil=True)
def _evaluate_rows(
    values: Array,
    columns: Array,
    starts: Array,
    signs: Array,
    costs: Array,
    bias_feature: float,
    w: Array,
    xi: Array,
    active_rows: Array,
    gradient: Array,
    diagonal: Array,
) -> tuple[float, float, int]:
    """One pass: (sum of losses, sum of 2 C xi, number of active rows), and the arrays after `w` are filled."""
    dense = starts.size == 0
    d = w.size - 1
    gradient[:] = w
    diagonal[:] = 1.0
    loss, alpha_sum, k = 0.0, 0.0, 0
    for i in range(signs.size):
        C, y = costs[i], signs[i]
        first = i * d if dense else starts[i]
        past = first + d if dense else starts[i + 1]
        score = _dot_dense(values, first, w) if dense else _dot_sparse(values, columns, first, past, w)
        slack = 1.0 - y * (score + bias_feature * w[d])
        if C == 0.0 or slack <= 0.0:
            xi[i] = 0.0
            continue
        xi[i] = slack
        active_rows[k] = i
        k += 1
        loss += C * slack * slack
        alpha = 2.0 * C * slack
        alpha_sum += alpha
        change = -y * alpha
        if dense:
            for j in range(d):
                x = np.float64(values[first + j])
                gradient[j] += change * x
                diagonal[j] += 2.0 * C * x * x
        else:
            for e in range(first, past):
                x = np.float64(values[e])
                gradient[columns[e]] += change * x
                diagonal[columns[e]] += 2.0 * C * x * x
        gradient[d] += change * bias_feature
        diagonal[d] += 2.0 * C * bias_feature * bias_feature
    return loss, alpha_sum, k


@njit(cache=True, nogil=True)
def _run_products(
    values: Array,
    columns: Array,
    starts: Array,
    costs: Array,
    bias_feature: float,
    active_rows: Array,
    M: Array,
    radius: float,
    small: float,
    enough: float,
    most: int,
    rho: float,
    s: Array,
    r: Array,
    d: Array,
) -> tuple[float, bool, bool, int]:
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


@njit(cache=True, nogil=True)
def _multiply_hessian(
    values: Array,
    columns: Array,
    starts: Array,
    costs: Array,
    bias_feature: float,
    active_rows: Array,
    v: Array,
    out: Array,
) -> None:
    """out = H v, reading each active row once."""
    dense = starts.size == 0
    d = v.size - 1
    out[:] = v
    for i in active_rows:
        first = i * d if dense else starts[i]
        past = first + d if dense else starts[i + 1]
        score = _dot_dense(values, first, v) if dense else _dot_sparse(values, columns, first, past, v)
        change = 2.0 * costs[i] * (score + bias_feature * v[d])
        if dense:
            for j in range(d):
                out[j] += change * values[first + j]
        else:
            for e in range(first, past):
                out[columns[e]] += change * values[e]
        out[d] += change * bias_feature


@njit(cache=True, nogil=True, fastmath=_SUM)
def _dot_sparse(values: Array, columns: Array, first: int, past: int, w: Array) -> float:
    total = 0.0
    for e in range(first, past):
        total += values[e] * w[columns[e]]
    return total


@njit(cache=True, nogil=True, fastmath=_SUM)
def _dot_dense(values: Array, first: int, w: Array) -> float:
    total = 0.0
    for j in range(w.size - 1):
        total += values[first + j] * w[j]
    return total
