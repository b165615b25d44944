"""Balances a dual point of the joint multi-class problem, which a bias without regularisation requires.

The share q_im of row i's cost is regarded as a flow from the row's class to class m. The biases drop out of the dual if
the outflow of every class equals its inflow, that is, if the flows between classes are a circulation. Any flow is the
sum of a circulation and of paths from classes with a surplus of outflow to classes with a surplus of inflow. So it
suffices to remove shares along such paths. The remaining shares are in the dual's domain. Removing a share lowers the
bound by the share times the row's violation v_im. The cheapest paths and rows are chosen; a row at its margin has v_im
= 0.
"""

import numpy as np
from numba import njit

from solvers.certificates.balance import on_grid
from solvers.data.rows import read_only
from solvers.linalg.types import Array, Floats
from solvers.problem.problems import MulticlassProblem

__all__ = ["balanced_shares"]


_ROUNDS = 4
"""Maximum attempts to balance the classes. One attempt suffices unless a path needs more flow than an edge has left.
Larger: fewer dual points have to be replaced by zero. Set by hand; no measurement is recorded."""
_A_STEP = 1e-3
"""Price added for each edge of a path, so that of equally cheap paths the one with the fewest edges is chosen. Larger:
paths with fewer edges that lower the bound more. Set by hand; no measurement is recorded."""


def balanced_shares(problem: MulticlassProblem, shares: Floats, violations: Floats) -> Floats:
    """Remove shares until the outflow of each class exactly equals its inflow; return the remaining shares."""
    k = problem.classes.size
    # On the grid of balance.py every sum and difference below is exact.
    shares = np.ascontiguousarray(on_grid(shares))
    for _ in range(_ROUNDS + 1):
        flow, price = np.zeros((k, k)), np.full((k, k), np.inf)
        _sum_flows(read_only(shares), problem.codes, read_only(violations), flow, price)
        surplus = flow.sum(axis=1) - flow.sum(axis=0)
        if not surplus.any():
            return shares
        back = np.zeros((k, k))
        _choose_paths(flow, np.maximum(price, 0.0) + _A_STEP, surplus, back)
        shares = _taken_back(problem, shares, violations, back)
    return np.zeros_like(shares)


def _taken_back(problem: MulticlassProblem, shares: Floats, violations: Floats, back: Floats) -> Floats:
    left = shares.copy()
    for y, m in np.argwhere(back > 0.0):
        rows = np.flatnonzero((problem.codes == y) & (shares[:, m] > 0.0))
        rows = rows[np.argsort(violations[rows, m], kind="stable")]
        there = shares[rows, m]
        before = np.cumsum(there) - there
        left[rows, m] = there - np.clip(back[y, m] - before, 0.0, there)
    return left


# --- kernels ----------------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _sum_flows(shares: Array, codes: Array, violations: Array, flow: Array, price: Array) -> None:
    """Add up the flows between classes, and find the least violation among the shares of each flow."""
    for i in range(codes.size):
        y = codes[i]
        for m in range(flow.shape[0]):
            if shares[i, m] > 0.0:
                flow[y, m] += shares[i, m]
                price[y, m] = min(price[y, m], violations[i, m])


@njit(cache=True, nogil=True)
def _choose_paths(flow: Array, price: Array, surplus: Array, back: Array) -> None:
    """Find the cheapest paths from classes with a surplus to classes with a deficit (Dijkstra 1959); write the flow to
    remove to `back`. Overwrites `flow` and `surplus`."""
    k = surplus.size
    far, source = np.empty(k), np.empty(k, np.int64)
    is_settled = np.empty(k, np.bool_)
    for _ in range(k * k + k):  # each path uses up a flow, a surplus or a deficit
        for m in range(k):
            far[m], source[m] = 0.0 if surplus[m] > 0.0 else np.inf, -1
            is_settled[m] = False
        end = -1
        while True:
            here = -1
            for m in range(k):
                if not is_settled[m] and far[m] < np.inf and (here < 0 or far[m] < far[here]):
                    here = m
            if here < 0:
                break
            if surplus[here] < 0.0:
                end = here
                break
            is_settled[here] = True
            for m in range(k):
                if flow[here, m] > 0.0 and far[here] + price[here, m] < far[m]:
                    far[m], source[m] = far[here] + price[here, m], here
        if end < 0:
            break
        amount, m = -surplus[end], end
        while source[m] >= 0:
            amount = min(amount, flow[source[m], m])
            m = source[m]
        amount = min(amount, surplus[m])
        surplus[m] -= amount
        surplus[end] += amount
        m = end
        while source[m] >= 0:
            flow[source[m], m] -= amount
            back[source[m], m] += amount
            m = source[m]
