"""Judges of logistic problems with two and with more classes; see solver_reference.py for what a judge is.

clarabel solves the problem by exponential cones, and a few plain Newton steps in dense numpy bring its point to
rounding. Nothing of both is trusted: the definitions are evaluated at the point and at its dual point.
"""

from dataclasses import dataclass

import clarabel
import numpy as np
import scipy.sparse as sp

from tests.support.solver_reference import Interval, solve_cone_program

TOLERANCE = 1e-9


def entropy_terms(p):
    """-p log p, 0 at 0."""
    return -p * np.log(np.where(p > 0.0, p, 1.0))


@dataclass(frozen=True)
class DenseMultinomial:
    """All classes jointly: C_i (log sum_m exp(f_m(x_i)) - f_yi(x_i))."""

    X: np.ndarray
    codes: np.ndarray
    n_classes: int
    costs: np.ndarray
    bias: str
    bias_scale: float

    @property
    def total_cost(self):
        """P at 0."""
        return self.costs.sum()

    @property
    def augmented(self):
        if self.bias == "none":
            return self.X
        feature = self.bias_scale if self.bias == "regularized" else 1.0
        return np.hstack([self.X, np.full((self.X.shape[0], 1), feature)])

    def primal(self, coef, intercept):
        scores = self.X @ coef.T + intercept
        own = scores[np.arange(self.codes.size), self.codes]
        highest = scores.max(axis=1)
        losses = highest - own + np.log(np.exp(scores - highest[:, None]).sum(axis=1))
        bias_term = 0.5 * ((np.asarray(intercept) / self.bias_scale) ** 2).sum() if self.bias == "regularized" else 0.0
        return 0.5 * (coef**2).sum() + bias_term + self.costs @ losses

    def dual(self, p):
        """sum_i C_i H(p_i) - 1/2 |W(A)|^2 with A_i^m = C_i ([m = y_i] - p_i^m); the rows of p add up to 1."""
        assert (p >= 0.0).all()
        assert np.allclose(p.sum(axis=1), 1.0, rtol=0.0, atol=1e-12)
        A = -self.costs[:, None] * p
        A[np.arange(self.codes.size), self.codes] += self.costs
        return self.costs @ entropy_terms(p).sum(axis=1) - 0.5 * ((A.T @ self.augmented) ** 2).sum()

    def interval(self):
        W = self._polished(self._solve())
        coef, intercept = (W, np.zeros(self.n_classes)) if self.bias == "none" else (W[:, :-1], W[:, -1])
        scale = self.bias_scale if self.bias == "regularized" else 1.0
        return Interval(self.dual(self._probabilities(W)), self.primal(coef, intercept * scale))

    def _probabilities(self, W):
        scores = self.augmented @ W.T
        p = np.exp(scores - scores.max(axis=1)[:, None])
        return p / p.sum(axis=1)[:, None]

    def _polished(self, W):
        """Newton's method with halved steps, until the gradient is rounding."""
        H, (k, d) = self.augmented, W.shape
        own = np.eye(k)[self.codes]

        def value(W):
            scores = H @ W.T
            top = scores.max(axis=1)
            losses = top + np.log(np.exp(scores - top[:, None]).sum(axis=1)) - (scores * own).sum(axis=1)
            return 0.5 * (W**2).sum() + self.costs @ losses

        for _ in range(60):
            p = self._probabilities(W)
            gradient = (W - (self.costs[:, None] * (own - p)).T @ H).reshape(-1)
            if np.abs(gradient).max() <= 1e-13 * (1.0 + np.abs(W).max()):
                break
            hessian = np.eye(k * d)
            for a in range(k):
                for b in range(k):
                    weights = self.costs * (p[:, a] * ((a == b) - p[:, b]))
                    hessian[a * d : (a + 1) * d, b * d : (b + 1) * d] += H.T @ (weights[:, None] * H)
            step, t = np.linalg.solve(hessian, gradient).reshape(k, d), 1.0
            while t > 1e-6 and value(W - t * step) > value(W) * (1.0 + 1e-15):
                t *= 0.5
            W = W - t * step
        return W

    def _solve(self):
        """Variables (W by rows, t, u): (f_im - t_i, 1, u_im) in the exponential cone and sum_m u_im <= 1."""
        kept = self.costs > 0.0
        H, k, costs, codes = self.augmented[kept], self.n_classes, self.costs[kept], self.codes[kept]
        n, d = H.shape
        rows, rhs = sp.lil_array((3 * n * k, k * d + n + n * k)), np.zeros(3 * n * k)
        for at, (i, m) in enumerate(np.ndindex(n, k)):
            rows[3 * at, m * d : (m + 1) * d] = -H[i]
            rows[3 * at, k * d + i] = 1.0
            rhs[3 * at + 1] = 1.0
            rows[3 * at + 2, k * d + n + at] = -1.0
        sums = sp.hstack([sp.csc_array((n, k * d + n)), sp.kron(sp.eye_array(n), np.ones((1, k)))])
        A = sp.vstack([sums, rows.tocsc()], format="csc")
        linear = np.concatenate([np.zeros(k * d), costs, np.zeros(n * k)])
        for y, row, cost in zip(codes, H, costs, strict=True):
            linear[y * d : (y + 1) * d] -= cost * row
        quadratic = np.concatenate([np.ones(k * d), np.zeros(n + n * k)])
        cones = [clarabel.NonnegativeConeT(n), *[clarabel.ExponentialConeT()] * (n * k)]
        z, _ = solve_cone_program(quadratic, linear, A, np.concatenate([np.ones(n), rhs]), cones, TOLERANCE)
        W = z[: k * d].reshape(k, d)
        return W if np.isfinite(W).all() else np.zeros((k, d))


@dataclass(frozen=True)
class DenseLogistic:
    """Two classes: C_i log(1 + exp(-y_i f(x_i)))."""

    X: np.ndarray
    signs: np.ndarray
    costs: np.ndarray
    bias: str
    bias_scale: float

    @property
    def total_cost(self):
        return self.costs.sum()

    @property
    def augmented(self):
        if self.bias == "none":
            return self.X
        feature = self.bias_scale if self.bias == "regularized" else 1.0
        return np.hstack([self.X, np.full((self.X.shape[0], 1), feature)])

    @property
    def ridge(self):
        ridge = np.ones(self.augmented.shape[1])
        ridge[-1] = self.bias != "free"
        return ridge

    def primal(self, w, b):
        bias_term = 0.5 * (b / self.bias_scale) ** 2 if self.bias == "regularized" else 0.0
        return 0.5 * w @ w + bias_term + self.costs @ np.logaddexp(0.0, -self.signs * (self.X @ w + b))

    def dual(self, alpha):
        assert (alpha >= 0.0).all()
        assert (alpha <= self.costs).all()
        share = np.divide(alpha, self.costs, out=np.zeros_like(alpha), where=self.costs > 0.0)
        if self.bias == "free":
            assert abs(alpha @ self.signs) <= 1e-12 * max(1e-300, alpha.sum())
        rows = self.X if self.bias == "free" else self.augmented
        w = rows.T @ (alpha * self.signs)
        return self.costs @ (entropy_terms(share) + entropy_terms(1.0 - share)) - 0.5 * w @ w

    def best_multiple(self, alpha):
        """The largest of dual(t alpha), t in [0, 1], which is concave in t."""
        low, high = 0.0, 1.0
        for _ in range(200):
            third = (high - low) / 3.0
            if self.dual((low + third) * alpha) < self.dual((high - third) * alpha):
                low += third
            else:
                high -= third
        return max(0.0, self.dual(alpha), self.dual(0.5 * (low + high) * alpha))

    def interval(self):
        w = self._polished(self._solve())
        b = 0.0 if self.bias == "none" else w[-1] * (self.bias_scale if self.bias == "regularized" else 1.0)
        alpha = self.costs * self._shares(w)
        if self.bias == "free":
            positive = self.signs > 0
            up, down = alpha[positive].sum(), alpha[~positive].sum()
            alpha[positive] *= min(1.0, down / up)
            alpha[~positive] *= min(1.0, up / down)
        return Interval(self.dual(alpha), self.primal(w if self.bias == "none" else w[:-1], b))

    def _shares(self, w):
        return 1.0 / (1.0 + np.exp(np.clip(self.signs * (self.augmented @ w), -700.0, 700.0)))

    def _polished(self, w):
        """Newton's method with halved steps, until the gradient is rounding."""
        H = self.augmented

        def value(w):
            return 0.5 * (self.ridge * w) @ w + self.costs @ np.logaddexp(0.0, -self.signs * (H @ w))

        for _ in range(60):
            r = self._shares(w)
            gradient = self.ridge * w - H.T @ (self.costs * r * self.signs)
            if np.abs(gradient).max() <= 1e-13 * (1.0 + np.abs(w).max()):
                break
            hessian = np.diag(self.ridge) + H.T @ ((self.costs * r * (1.0 - r))[:, None] * H)
            step, t = np.linalg.solve(hessian, gradient), 1.0
            while t > 1e-6 and value(w - t * step) > value(w) * (1.0 + 1e-15):
                t *= 0.5
            w = w - t * step
        return w

    def _solve(self):
        """Variables (w, t, u, v): t_i >= log(1 + exp(s_i)), by (s_i - t_i, 1, u_i), (-t_i, 1, v_i) and u + v <= 1."""
        kept = self.costs > 0.0
        H, costs = -self.signs[kept][:, None] * self.augmented[kept], self.costs[kept]
        n, d = H.shape
        rows, rhs = sp.lil_array((6 * n, d + 3 * n)), np.tile([0.0, 1.0, 0.0], 2 * n)
        for i in range(n):
            rows[6 * i, :d] = -H[i]
            rows[6 * i, d + i] = rows[6 * i + 3, d + i] = 1.0
            rows[6 * i + 2, d + n + i] = rows[6 * i + 5, d + 2 * n + i] = -1.0
        eye = sp.eye_array(n)
        A = sp.vstack([sp.hstack([sp.csc_array((n, d + n)), eye, eye]), rows.tocsc()], format="csc")
        quadratic = np.concatenate([self.ridge, np.zeros(3 * n)])
        linear = np.concatenate([np.zeros(d), costs, np.zeros(2 * n)])
        cones = [clarabel.NonnegativeConeT(n), *[clarabel.ExponentialConeT()] * (2 * n)]
        z, _ = solve_cone_program(quadratic, linear, A, np.concatenate([np.ones(n), rhs]), cones, TOLERANCE)
        return z[:d] if np.isfinite(z[:d]).all() else np.zeros(d)
