"""Conjugate gradients on a face of the dual's domain: variables at a bound stay fixed, the others are solved together.

Coordinate descent quickly finds the dual variables at a bound. It is slow in the other variables if rows are equal or
nearly equal. With the variables at bounds fixed, the optimum over the others solves a linear system. Conjugate
gradients solve it in a few products with X, where coordinate descent can take millions of steps. Moré and Toraldo
(1991) alternate in the same way between projected gradients and conjugate gradients.

A method describes its face by a subclass of `Face`. `ascend` then maximises on it linear . x - 1/2 x . (diagonal x) -
1/2 |w(x)|^2. It runs conjugate gradients in one of two ways:

- It stops at the first bound that an iterate meets, fixes that variable, and starts again. The value always rises, but
  variables reach their bounds one at a time.
- It ignores bounds and projects its result into the domain. This is a Newton step, which moves many variables to their
  bounds at once. It is tried first with squared losses, whose bounds are mostly far away, and its result is kept if the
  dual value rises.
"""

from abc import ABC, abstractmethod

import numpy as np

from solvers.linalg.types import Floats
from solvers.problem.problems import Problem

__all__ = ["BoxFace", "Face", "ascend"]


class Face(ABC):
    """A quadratic dual, and the directions in which its free variables (those not fixed at a bound) can move."""

    linear: Floats
    diagonal: Floats

    @abstractmethod
    def weights_of(self, x: Floats) -> Floats:
        """Return w(x). Costs one pass over X."""

    @abstractmethod
    def products(self, w: Floats) -> Floats:
        """Return the gradient of 1/2 |w(x)|^2 with respect to x, given w = w(x). Costs one pass over X."""

    @abstractmethod
    def free_at(self, x: Floats) -> None:
        """Fix exactly the variables that are at a bound in x."""

    @abstractmethod
    def along(self, v: Floats) -> Floats:
        """Project v onto the face."""

    @abstractmethod
    def room(self, x: Floats, direction: Floats) -> Floats:
        """Return how far each variable can move along `direction` before it meets a bound; infinity if it never
        does."""

    @abstractmethod
    def hold(self, x: Floats, direction: Floats, place: int) -> None:
        """Put one variable (given by its index in the flattened x) at the bound ahead of it, and fix it there."""

    @abstractmethod
    def projected(self, x: Floats) -> Floats:
        """Project x into its domain."""


class BoxFace(Face):
    """One variable per row, between two bounds. w(x) = sum_i x_i h_i, where h_i is row i with the bias feature."""

    def __init__(self, problem: Problem, linear: Floats, diagonal: Floats, lower: Floats, upper: Floats) -> None:
        self.problem = problem
        self.linear, self.diagonal = linear, diagonal
        self.lower, self.upper = lower, upper
        self.free = lower < upper

    def free_at(self, x: Floats) -> None:
        self.free = (x > self.lower) & (x < self.upper)

    def weights_of(self, x: Floats) -> Floats:
        w = np.empty(self.problem.data.n_features + 1)
        self.problem.data.weighted_column_sums(x, w[:-1])
        w[-1] = self.problem.bias_feature * float(x.sum())
        return w

    def products(self, w: Floats) -> Floats:
        scores = np.empty(self.problem.data.n_rows)
        self.problem.data.margins(w[:-1], scores)
        return np.asarray(scores + self.problem.bias_feature * w[-1])

    def along(self, v: Floats) -> Floats:
        return np.where(self.free, v, 0.0)

    def room(self, x: Floats, direction: Floats) -> Floats:
        ahead = np.where(direction > 0.0, self.upper, self.lower) - x
        return np.divide(ahead, direction, out=np.full_like(x, np.inf), where=direction != 0.0)

    def hold(self, x: Floats, direction: Floats, place: int) -> None:
        x[place] = (self.upper if direction[place] > 0.0 else self.lower)[place]
        self.free[place] = False

    def projected(self, x: Floats) -> Floats:
        return np.clip(x, self.lower, self.upper)


def ascend(face: Face, x: Floats, w: Floats, reads: int) -> tuple[Floats, Floats, int]:
    """Return a pair (x, w) with a higher dual value, or the given pair if none is found, and the number of passes over
    X (at most `reads`)."""
    value, used = _value(face, x, w), 0
    for to_bounds, budget in ((False, reads // 2), (True, reads)):
        if budget - used < 4 or not (to_bounds or face.diagonal.any()):
            continue
        face.free_at(x)
        moved, more = _conjugate_gradients(face, x, w, budget - used, to_bounds)
        used += more
        image = face.weights_of(moved)
        reached = _value(face, moved, image)
        if reached > value:
            value, x, w = reached, moved, image
    return x, w, used


def _conjugate_gradients(face: Face, x: Floats, w: Floats, reads: int, to_bounds: bool) -> tuple[Floats, int]:
    """Run conjugate gradients from x.

    Returns the last iterate, projected into the domain, and the passes over X. These include the pass in which the
    caller computes the iterate's weights.
    """
    used, x = 2, x.copy()
    gradient = face.linear - face.diagonal * x - face.products(w)
    residual = face.along(gradient)
    direction = residual
    left = _dot(residual, residual)
    enough = 1e-24 * left
    while used + 2 <= reads and left > enough:
        used += 2
        product = face.products(face.weights_of(direction)) + face.diagonal * direction
        curvature = _dot(direction, product)
        sizes = np.sqrt(_dot(direction, direction) * _dot(face.along(product), face.along(product)))
        length = left / curvature if curvature > 1e-14 * sizes else np.inf  # no curvature: move on to the next bound
        place, is_cut = 0, False
        if to_bounds:
            rooms = face.room(x, direction)
            place = int(rooms.argmin())
            is_cut = bool(rooms.flat[place] <= length)
            length = float(rooms.flat[place]) if is_cut else length
        if not np.isfinite(length):
            break
        x += length * direction
        gradient -= length * product
        if is_cut:
            face.hold(x, direction, place)
        residual = face.along(gradient)
        before, left = left, _dot(residual, residual)
        direction = residual if is_cut else residual + left / before * direction
    return face.projected(x), used


def _value(face: Face, x: Floats, w: Floats) -> float:
    return float((x * (face.linear - 0.5 * face.diagonal * x)).sum()) - 0.5 * _dot(w, w)


def _dot(a: Floats, b: Floats) -> float:
    return float((a * b).sum())
