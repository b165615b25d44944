"""Two ways to compute the direction of a Newton step, H d = -gradient, from an approximation of H.

L-BFGS corrects the approximation by the measured changes of the gradient in earlier steps, without a pass over the
rows. Conjugate gradients, preconditioned by the approximation, solve the system; each iteration needs a product with H,
which costs a pass.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from solvers.linalg.types import Floats
from solvers.methods.newton.feature_newton import dot

__all__ = ["NewtonSolution", "corrected_direction", "solve_newton_system"]

ENOUGH = 0.03
"""Squared residual at which a direction is precise enough, as a fraction of the squared gradient. Both are measured in
the norm of the preconditioner. Smaller: more passes, fewer steps. Between 0.01 and 0.1 the time to a gap of 1e-3 hardly
changes (mnist, C = 1 and 100)."""


class NewtonSolution(NamedTuple):
    direction: Floats
    residual: float
    """The residual 1/2 |H d + gradient|^2."""
    reads: int
    """Products with H until the direction was good enough; further products can have improved it."""


def corrected_direction(solve: Callable[[Floats], Floats], steps: Floats, changes: Floats, gradient: Floats) -> Floats:
    """Return the L-BFGS direction (Nocedal 1980), by the two-loop recursion over steps and changes, oldest first."""
    q, products = -gradient, np.empty(len(steps))
    inverses = [1.0 / dot(step, change) for step, change in zip(steps, changes, strict=True)]
    for k in reversed(range(len(steps))):
        products[k] = inverses[k] * dot(steps[k], q)
        q = q - products[k] * changes[k]
    direction = solve(q)
    for k in range(len(steps)):
        direction = direction + (products[k] - inverses[k] * dot(changes[k], direction)) * steps[k]
    return direction


def solve_newton_system(
    product: Callable[[Floats], Floats],
    precondition: Callable[[Floats], Floats],
    gradient: Floats,
    small: float,
    most: int,
) -> NewtonSolution:
    """Solve H d = -gradient by conjugate gradients. Stop once the relative residual is at most ENOUGH and the residual
    is at most `small`, or after `most` products."""
    d, r = np.zeros_like(gradient), -gradient
    z = precondition(r)
    p, rho = z, dot(r, z)
    first, reads, enough = rho, 0, 0
    while reads < most and not (enough > 0 and 0.5 * dot(r, r) <= small):
        Hp = product(p)
        reads += 1
        curvature = dot(p, Hp)
        if not curvature > 0.0:  # numbers overflow
            break
        length = rho / curvature
        d, r = d + length * p, r - length * Hp
        z = precondition(r)
        before, rho = rho, dot(r, z)
        p = z + rho / before * p
        if enough == 0 and rho <= ENOUGH * first:
            enough = reads
    return NewtonSolution(d, 0.5 * dot(r, r), enough or reads)
