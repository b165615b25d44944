"""Judges of multi-class and ordinal problems; see solver_reference.py for what a judge is."""

import itertools
from dataclasses import dataclass

import clarabel
import numpy as np
import scipy.sparse as sp

from tests.support.solver_reference import Dense, Interval, combined, solve_cone_program


@dataclass(frozen=True)
class DenseMulticlass:
    """All classes jointly, as Crammer and Singer: one slack a row."""

    X: np.ndarray
    codes: np.ndarray
    n_classes: int
    costs: np.ndarray
    bias: str
    bias_scale: float

    @property
    def total_cost(self):
        return self.costs.sum()

    @property
    def augmented(self):
        """The rows with the feature that stands for a bias."""
        if self.bias == "none":
            return self.X
        feature = self.bias_scale if self.bias == "regularized" else 1.0
        return np.hstack([self.X, np.full((self.X.shape[0], 1), feature)])

    def primal(self, coef, intercept):
        scores = self.X @ coef.T + intercept
        own = scores[np.arange(self.codes.size), self.codes][:, None]
        losses = (scores - own + (np.arange(self.n_classes) != self.codes[:, None])).max(axis=1)
        bias_term = 0.5 * ((np.asarray(intercept) / self.bias_scale) ** 2).sum() if self.bias == "regularized" else 0.0
        return 0.5 * (coef**2).sum() + bias_term + self.costs @ losses

    def dual(self, shares):
        """sum of the shares - 1/2 |W|^2; shares[i, m] >= 0 of row i's cost go to class m, none to its own."""
        assert (shares >= 0.0).all()
        assert (shares.sum(axis=1) <= self.costs * (1 + 1e-12)).all()
        A = -shares
        A[np.arange(self.codes.size), self.codes] = shares.sum(axis=1)
        if self.bias == "free":
            assert (np.abs(A.sum(axis=0)) <= 1e-12 * max(1e-300, shares.sum())).all()
        rows = self.X if self.bias == "free" else self.augmented
        return shares.sum() - 0.5 * ((A.T @ rows) ** 2).sum()

    def interval(self):
        def bounds(tolerance):
            W, shares = self._solve(tolerance)
            coef, intercept = (W, np.zeros(self.n_classes)) if self.bias == "none" else (W[:, :-1], W[:, -1])
            intercept = intercept * self.bias_scale if self.bias == "regularized" else intercept
            return self.dual(self._made_feasible(shares)), self.primal(coef, intercept)

        return combined(bounds)

    def _made_feasible(self, shares):
        shares = np.maximum(shares, 0.0)
        totals = shares.sum(axis=1)
        over = totals > self.costs
        shares[over] *= (self.costs[over] / totals[over])[:, None]
        return self.balanced(shares) if self.bias == "free" else shares

    def balanced(self, shares):
        """Shares of which each class gives as much as it takes: less along paths from those that give too much."""
        k = self.n_classes
        flow = np.array([shares[self.codes == y].sum(axis=0) for y in range(k)])
        left = flow.copy()
        while True:
            surplus = left.sum(axis=1) - left.sum(axis=0)
            paths = [[int(m)] for m in np.flatnonzero(surplus > 1e-15 * flow.sum())]
            seen = {path[0] for path in paths}
            while paths and surplus[paths[0][-1]] >= 0.0:
                path = paths.pop(0)
                ways = [int(m) for m in np.flatnonzero(left[path[-1]] > 0.0) if m not in seen]
                seen.update(ways)
                paths += [[*path, m] for m in ways]
            if not paths:
                return shares * np.divide(left, flow, out=np.ones_like(flow), where=flow > 0.0)[self.codes]
            steps = list(itertools.pairwise(paths[0]))
            amount = min(surplus[steps[0][0]], -surplus[steps[-1][1]], *(left[step] for step in steps))
            for step in steps:
                left[step] -= amount

    def _solve(self, tolerance):
        """Variables (W by rows, xi): xi_i >= 1 + w_m . x_i - w_yi . x_i for every m != y_i, xi >= 0."""
        H, k = self.augmented, self.n_classes
        n, d = H.shape
        rows, rivals = np.nonzero(np.arange(k) != self.codes[:, None])
        constraints = np.zeros((rows.size, k * d))
        for at, (i, m) in enumerate(zip(rows, rivals, strict=True)):
            constraints[at, m * d : (m + 1) * d] += H[i]
            constraints[at, self.codes[i] * d : (self.codes[i] + 1) * d] -= H[i]
        picks = sp.csc_array((np.ones(rows.size), (np.arange(rows.size), rows)), shape=(rows.size, n))
        top = sp.hstack([sp.csc_array(constraints), -picks])
        bottom = sp.hstack([sp.csc_array((n, k * d)), -sp.eye_array(n)])
        A = sp.vstack([top, bottom], format="csc")
        rhs = np.concatenate([-np.ones(rows.size), np.zeros(n)])
        of_class = np.ones(d)
        of_class[-1] = self.bias != "free"
        quadratic = np.concatenate([np.tile(of_class, k), np.zeros(n)])
        linear = np.concatenate([np.zeros(k * d), self.costs])
        z, multipliers = solve_cone_program(quadratic, linear, A, rhs, [clarabel.NonnegativeConeT(rhs.size)], tolerance)
        shares = np.zeros((n, k))
        shares[rows, rivals] = multipliers[: rows.size]
        return z[: k * d].reshape(k, d), shares


@dataclass(frozen=True)
class DenseOneVsRest:
    """One binary problem a class, added up."""

    parts: list[Dense]

    @property
    def total_cost(self):
        return sum(part.total_cost for part in self.parts)

    def primal(self, coef, intercept):
        return sum(part.primal(w, b) for part, w, b in zip(self.parts, coef, intercept, strict=True))

    def interval(self):
        intervals = [part.interval() for part in self.parts]
        return Interval(sum(one.low for one in intervals), sum(one.high for one in intervals))


@dataclass(frozen=True)
class DenseOrdinal:
    """One slack a pair."""

    X: np.ndarray
    relevance: np.ndarray
    groups: np.ndarray
    weights: np.ndarray
    C: float
    c_scale: str

    @property
    def pairs(self):
        """(higher rows, lower rows, costs)"""
        is_pair = (self.relevance[:, None] > self.relevance) & (self.groups[:, None] == self.groups)
        high, low = np.nonzero(is_pair)
        products = self.weights[high] * self.weights[low]
        return high, low, self.C * products / (products.sum() if self.c_scale == "mean" else 1.0)

    @property
    def total_cost(self):
        return self.pairs[2].sum()

    def primal(self, w, b):
        assert b == 0.0
        high, low, costs = self.pairs
        scores = self.X @ w
        return 0.5 * w @ w + costs @ np.maximum(0.0, 1.0 - (scores[high] - scores[low]))

    def interval(self):
        high, low, costs = self.pairs
        differences = self.X[high] - self.X[low]
        m, d = differences.shape
        eye = sp.eye_array(m)
        A = sp.vstack(
            [sp.hstack([sp.csc_array(-differences), -eye]), sp.hstack([sp.csc_array((m, d)), -eye])], format="csc"
        )
        rhs = np.concatenate([-np.ones(m), np.zeros(m)])
        quadratic = np.concatenate([np.ones(d), np.zeros(m)])
        linear = np.concatenate([np.zeros(d), costs])

        def bounds(tolerance):
            cones = [clarabel.NonnegativeConeT(2 * m)]
            z, multipliers = solve_cone_program(quadratic, linear, A, rhs, cones, tolerance)
            alpha = np.clip(multipliers[:m], 0.0, costs)
            w = differences.T @ alpha
            return alpha.sum() - 0.5 * w @ w, self.primal(z[:d], 0.0)

        return combined(bounds)


@dataclass(frozen=True)
class DenseRegression:
    """One slack a row, for errors beyond epsilon on either side."""

    X: np.ndarray
    targets: np.ndarray
    costs: np.ndarray
    p: float
    epsilon: float
    bias: str
    bias_scale: float

    @property
    def total_cost(self):
        return self.costs.sum()

    def primal(self, w, b):
        excess = np.maximum(0.0, np.abs(self.targets - self.X @ w - b) - self.epsilon)
        bias_term = 0.5 * (b / self.bias_scale) ** 2 if self.bias == "regularized" else 0.0
        return 0.5 * w @ w + bias_term + self.costs @ excess**self.p

    def dual(self, beta):
        conjugate = 0.0
        if self.p == 1.0:
            assert (np.abs(beta) <= self.costs).all()
        else:
            counts = self.costs > 0.0
            assert (beta[~counts] == 0.0).all()
            conjugate = (beta[counts] ** 2 / (4.0 * self.costs[counts])).sum()
        w = self.X.T @ beta
        bias_term = 0.5 * (self.bias_scale * beta.sum()) ** 2 if self.bias == "regularized" else 0.0
        if self.bias == "free":
            assert abs(beta.sum()) <= 1e-12 * max(1.0, np.abs(beta).sum())
        return -0.5 * w @ w - bias_term + self.targets @ beta - self.epsilon * np.abs(beta).sum() - conjugate

    def interval(self):
        """Variables (w, b / bias_scale, xi): |y - f| <= epsilon + xi, xi >= 0; rows without cost are left out."""
        kept = self.costs > 0.0
        H = np.hstack([self.X, np.full((self.X.shape[0], 1), self.bias_scale * (self.bias != "none"))])[kept]
        targets, costs = self.targets[kept], self.costs[kept]
        n, k = H.shape
        eye, zeros = sp.eye_array(n), sp.csc_array((n, k))
        A = sp.block_array([[sp.csc_array(-H), -eye], [sp.csc_array(H), -eye], [zeros, -eye]], format="csc")
        rhs = np.concatenate([self.epsilon - targets, self.epsilon + targets, np.zeros(n)])
        penalties = np.append(np.ones(k - 1), self.bias != "free")
        quadratic = np.concatenate([penalties, 2.0 * costs if self.p == 2.0 else np.zeros(n)])
        linear = np.concatenate([np.zeros(k), costs if self.p == 1.0 else np.zeros(n)])

        def bounds(tolerance):
            cones = [clarabel.NonnegativeConeT(3 * n)]
            z, multipliers = solve_cone_program(quadratic, linear, A, rhs, cones, tolerance)
            beta = np.zeros(kept.size)
            beta[kept] = multipliers[:n] - multipliers[n : 2 * n]
            beta = np.clip(beta, -self.costs, self.costs) if self.p == 1.0 else beta
            if self.bias == "free":
                up, down = beta[beta > 0.0].sum(), -beta[beta < 0.0].sum()
                beta[beta > 0.0] *= min(1.0, down / up) if up > 0.0 else 1.0
                beta[beta < 0.0] *= min(1.0, up / down) if down > 0.0 else 1.0
            b = z[k - 1] * self.bias_scale if self.bias != "none" else 0.0
            # The zero vector is a dual point, too, and where all targets lie within epsilon no other is as good.
            return max(self.dual(beta), 0.0), self.primal(z[: k - 1], b)

        return combined(bounds)
