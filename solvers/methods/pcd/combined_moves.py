"""The minimum of P over linear combinations of the last sweeps' moves, for `pcd`. Symbols as in pcd.py."""

import numpy as np
from numba import njit

from solvers.linalg.types import Array, Floats

__all__ = ["combine_moves"]

NEWTON_STEPS, HALVINGS = 8, 6
"""Maximum Newton steps per combination, and maximum halvings of each step. Larger: more precise minima, more time. Set
by hand; no measurement is recorded."""
ROUNDING = 1e-9
"""Moves that change the slacks by less than this fraction of the largest slack are dropped as rounding errors. Larger:
fewer usable moves. Set by hand; no measurement is recorded."""
RIDGE = 1e-8
"""Ridge added to the diagonal of the Hessian, whose diagonal is scaled to 1. Larger: shorter steps along nearly
parallel moves. Set by hand; no measurement is recorded."""
MOST_MULTIPLE = 1e3
"""Largest multiple of a move in an accepted combination. Larger multiples magnify rounding errors. Set by hand; no
measurement is recorded."""


def combine_moves(w: Floats, b: Floats, w_moves: Floats, b_moves: Floats, u: Floats, slot: int) -> None:
    """Move w to the minimum of P(w + sum_k z_k w_moves_k), which is piecewise quadratic in z, by Newton's method.

    Changes w and its slacks b, and adds the change to the latest move, in `slot`.
    """
    # A smaller move is mostly rounding error. A multiple of it would make the slacks differ from those of w.
    is_rounding = np.abs(b_moves).max(axis=1) < ROUNDING * np.abs(b).max()
    w_moves[is_rounding], b_moves[is_rounding] = 0.0, 0.0
    gram = np.array([(w_moves * move).sum(axis=1) for move in w_moves])
    linear = (w_moves * w).sum(axis=1)
    count = w_moves.shape[0]
    z, g, H = np.zeros(count), np.empty(count), np.empty((count, count))
    value = _derive_moves(gram, linear, b_moves, u, b, z, g, H)
    for _ in range(NEWTON_STEPS):
        if not np.isfinite(H).all():
            return
        # Moves differ in norm by orders of magnitude and can be parallel: hence the scaling and the ridge.
        lengths = np.sqrt(np.diag(H))
        units = np.divide(1.0, lengths, out=np.zeros(count), where=lengths > 0.0)
        scaled = H * np.outer(units, units)
        np.fill_diagonal(scaled, 1.0 + RIDGE)
        p = -units * np.linalg.solve(scaled, units * g)
        slope, before, is_lower = float(p @ g), value, False
        for _ in range(HALVINGS):
            value = _derive_moves(gram, linear, b_moves, u, b, z + p, g, H)
            is_lower = value < before or float(p @ g) <= 0.0
            if is_lower:
                z += p
                break
            p *= 0.5
        if not is_lower or abs(float(p @ g)) <= 0.1 * abs(slope):
            break
    if np.abs(z).max() <= MOST_MULTIPLE:
        for vector, moves in ((w, w_moves), (b, b_moves)):
            way = (z[:, None] * moves).sum(axis=0)
            vector += way
            moves[slot] += way


# --- kernel. u_i = 2 C_i; K: number of moves --------------------------------------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


@njit(cache=True, nogil=True, fastmath=_SUM)
def _derive_moves(
    gram: Array, linear: Array, b_moves: Array, u: Array, b: Array, z: Array, g: Array, H: Array
) -> float:
    """Return P(w + sum_k z_k w_moves_k), up to a constant; write its gradient and Hessian in z to g and H."""
    K = z.size
    value = 0.0
    for k in range(K):
        g[k] = linear[k]
        for m in range(K):
            H[k, m] = gram[k, m]
            g[k] += gram[k, m] * z[m]
        value += 0.5 * z[k] * (g[k] + linear[k])
    for i in range(b.size):
        slack = b[i]
        for k in range(K):
            slack += z[k] * b_moves[k, i]
        if slack > 0.0:
            value += 0.5 * u[i] * slack * slack
            for k in range(K):
                ux = u[i] * b_moves[k, i]
                g[k] += ux * slack
                for m in range(k + 1):
                    H[k, m] += ux * b_moves[m, i]
    for k in range(K):
        for m in range(k):
            H[m, k] = H[k, m]
    return value
