"""Conjugate gradients on the face of the dual's domain that coordinate descent has found.

Coordinate descent settles quickly which dual variables are at a bound, but it can be very slow among the others when
rows repeat or are nearly alike. With the variables at bounds held fixed, the rest is a linear system; solving it takes
few products with X where descent takes millions of steps. (Moré and Toraldo 1991 alternate the two in the same way,
with projected gradients in the place of coordinate descent.)

A method describes its face, and `ascend` maximises  linear . x - 1/2 x . (diagonal x) - 1/2 |w(x)|^2  on it. A
conjugate-gradient iteration ends at the first bound it meets, and that variable is held from then on: the value always
rises, but one variable settles at a time. With squared losses most bounds are far away. There a run that ignores bounds
is tried first and its result projected into the domain: a Newton step, which settles many variables at once. It is kept
if it raised the value.
"""

from abc import ABC, abstractmethod

import numpy as np

from solvers.linalg.types import Floats
from solvers.problem.problems import Problem

__all__ = ["BoxFace", "Face", "ascend"]


class Face(ABC):
    """A quadratic dual, and the directions in which the variables not held at a bound can move."""

    linear: Floats
    diagonal: Floats

    @abstractmethod
    def weights_of(self, x: Floats) -> Floats:
        """w(x): one read of X."""

    @abstractmethod
    def products(self, w: Floats) -> Floats:
        """The gradient of 1/2 |w(x)|^2 in x where w(x) = w: one read of X."""

    @abstractmethod
    def free_at(self, x: Floats) -> None:
        """Hold the variables that are at a bound in x, and no others."""

    @abstractmethod
    def along(self, v: Floats) -> Floats:
        """v projected onto the face."""

    @abstractmethod
    def room(self, x: Floats, direction: Floats) -> Floats:
        """How far each variable can move along the direction before it meets a bound; infinity if it never does."""

    @abstractmethod
    def hold(self, x: Floats, direction: Floats, place: int) -> None:
        """Put one variable (by its index in the flattened x) at the bound ahead, and hold it there."""

    @abstractmethod
    def projected(self, x: Floats) -> Floats:
        """x projected into its domain."""


class BoxFace(Face):
    """One variable a row between two bounds; w(x) = sum_i x_i h_i, where h_i is x_i with the bias feature."""

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
    """Find a better (x, w); return it, or the given one if there is none, and the reads of X, at most `reads`."""
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
    """The result of the iterations from x, projected into the domain, and the reads of X, one for its weights
    included."""
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
        length = left / curvature if curvature > 1e-14 * sizes else np.inf  # flat: on to the next bound
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
