"""Preconditioned conjugate gradients for one Newton step. They also keep the combination of iterates with the least
residual."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numba import njit

from solvers.linalg.types import Array, Floats
from solvers.state import State

__all__ = ["ConjugateGradients"]


@dataclass(slots=True)
class ConjugateGradients(State):
    """The current solution of H s = -g, preconditioned by the diagonal of H."""

    M: Floats  # the diagonal of H
    s: Floats  # the step
    r: Floats  # residual -g - H s of the step
    d: Floats  # the next search direction
    best_s: Floats  # the combination of all iterates so far with the least residual
    best_r: Floats  # residual of best_s
    rho: float  # r' M^-1 r
    first_rho: float  # rho at s = 0
    products: int  # number of products with H so far
    is_least: bool  # whether the step to take is best_s
    may_be_least: bool  # whether best_s can be the step: false once it raised P too much
    solved: bool  # whether the step is ready to be taken

    @classmethod
    def started(cls, gradient: Floats, M: Floats) -> Self:
        """Return the state at s = 0."""
        r = -gradient
        d = r / M
        rho = float((r * d).sum())
        return cls(
            M=M,
            s=np.zeros_like(r),
            r=r,
            d=d,
            best_s=np.zeros_like(r),
            best_r=r.copy(),
            rho=rho,
            first_rho=rho,
            products=0,
            is_least=False,
            may_be_least=True,
            solved=not gradient.any(),
        )

    def advance(self, Hd: Floats) -> float:
        """Take one step, given the product Hd of H with d; return |best_r|^2."""
        arrays = self.M, Hd, self.s, self.r, self.d, self.best_s, self.best_r
        vectors = _Vectors(*(array.reshape(-1) for array in arrays))  # flat views, also of tables of weights
        self.rho, best = _advance(vectors, self.rho)
        self.products += 1
        return best

    def is_small(self, share: float) -> bool:
        """Return whether the residual is at most this fraction of the gradient, both in the norm of M^-1."""
        return not self.rho > share**2 * self.first_rho


class _Vectors(NamedTuple):
    M: Array
    Hd: Array
    s: Array
    r: Array
    d: Array
    best_s: Array
    best_r: Array


@njit(cache=True, nogil=True, error_model="numpy")
def _advance(vectors: _Vectors, rho: float) -> tuple[float, float]:
    """Take one step of conjugate gradients. Return (rho, |best_r|^2)."""
    M, Hd, s, r, d = vectors.M, vectors.Hd, vectors.s, vectors.r, vectors.d
    best_s, best_r = vectors.best_s, vectors.best_r
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
