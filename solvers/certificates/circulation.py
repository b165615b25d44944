"""Balances a dual point of the joint multi-class problem, which a bias without regularisation requires.

Let the share q_im of row i's cost flow from the row's class to class m. The biases drop out of the dual if every class
gives as much as it receives, that is, if the flows between classes are a circulation. Any flow is the sum of a
circulation and of paths from classes that give too much to classes that receive too much. So it suffices to take shares
back along such paths, and the rest stays in the domain. Taking a share back costs the bound the row's violation v_im.
Paths and rows are chosen by the least cost; rows at their margin cost nothing.
"""

import numpy as np
from numba import njit

from solvers.certificates.balance import on_grid
from solvers.data.rows import read_only
from solvers.linalg.types import Array, Floats
from solvers.problem.problems import MulticlassProblem

__all__ = ["balanced_shares"]


_ROUNDS = 4
"""Maximum attempts to balance the classes. One suffices unless a path exceeds the remaining flow of an edge. Larger:
fewer dual points are given up. Chosen."""
_A_STEP = 1e-3
"""Price added for each edge of a path, so that the shortest of equally cheap paths is chosen. Larger: shorter, more
expensive paths. Chosen."""


def balanced_shares(problem: MulticlassProblem, shares: Floats, violations: Floats) -> Floats:
    """Take shares back until each class gives exactly as much as it receives; return the rest."""
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
    """Find the cheapest paths (Dijkstra) from classes with a surplus to classes with a deficit; uses up both arrays."""
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
