"""Estimates what a run needs: memory by counting a method's arrays, time by a model fitted to measured runs.

A method declares the size of its arrays (`Footprint`) and the number and speed of its passes (`Pace`). This module adds
them up over rows, features, classes and threads.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from solvers.problem.spec import ProblemSpec

__all__ = ["Estimate", "Footprint", "Pace", "Size", "estimate_run", "is_shorter_by_scores"]

NUMBER = 8
LABEL_NUMBERS_A_ROW = 2.0
"""Numbers a row for each class of one-vs-rest: costs and signs of all classes are made at the start."""
DUAL_NUMBERS_A_ROW = 1.0
"""Numbers a row of the dual point that a result keeps in addition to the state."""
USUAL_PLANES = 60
"""Cutting planes that a long run holds: those in use and those that were in use recently."""
LEAST_PASSES, MOST_PASSES = 2.0, 1e6
LEAST_DIVIDED = 1 << 21
"""Fewest stored entries for which several threads save time."""
WORTH_A_READ = 25
"""Extra stored entries to read that are worth one number less in the vector of a plane. With fifty planes such a number
is used about a hundred times an iteration, and an entry at a random place costs like four."""


class Size(NamedTuple):
    """The properties of the data that decide time and memory."""

    entries: int
    """Stored entries of X."""
    value_bytes: int
    """Bytes of an entry."""
    squared_norm: float | None = None
    """The mean of |x_i|^2; None if unknown."""


class Estimate(NamedTuple):
    peak_bytes: int
    """The largest number of bytes that the run holds at once, without X and y."""
    kept_bytes: int
    """The bytes that the result still holds."""
    seconds: float | None
    """Wall-clock time on the machine that the model was fitted on; None: unknown."""


@dataclass(frozen=True)
class Footprint:
    """The memory of a method at its peak and in its state, in numbers of 8 bytes, certificate and problem included.

    Measured with tracemalloc: peak and state are sums of products of rows, features and classes, with these factors.
    """

    row: float = 20.0
    squared_row: float = 0.0
    """Additional numbers a row if the loss is squared."""
    free_row: float = 0.0
    """Additional numbers a row if the bias is free: the best one is found by sorting."""
    feature: float = 8.0
    square: float = 0.0
    """Numbers for each pair of features."""
    most_squared: float = math.inf
    """Most features for which there is such a matrix."""
    most_squared_a_row: float = math.inf
    """The same as features per row. Smaller matrices do not count."""
    row_and_class: float = 0.0
    """Numbers a row for each class beyond the first, if a method trains all classes at once."""
    feature_and_class: float = 0.0
    copies_entries: bool = False
    """Whether the method holds a copy of X."""
    plane_vectors: int = 0
    """Weight vectors of each cutting plane."""
    plane_scores: bool = False
    """Whether a plane holds scores of the rows instead, where those are fewer."""
    plane_row_bytes: float = 0.0
    """Bytes that each cutting plane holds for each row."""
    squared_plane_row_bytes: float = 0.0
    kept_row: float = 2.0
    kept_feature: float = 4.0
    kept_square: float = 0.0

    def peak(self, spec: ProblemSpec, size: Size, planes: int) -> float:
        n, d, k = spec.n_rows, spec.n_features, _joint_classes(spec)
        is_squared = spec.loss_function.is_squared
        square = self.square if d <= min(self.most_squared, self.most_squared_a_row * n) else 0.0
        row = self.row + self.squared_row * is_squared + self.free_row * (spec.bias == "free")
        numbers = n * row + d * self.feature + d * d * square
        numbers += (k - 1) * (n * self.row_and_class + d * self.feature_and_class)
        copied = size.entries * (size.value_bytes + 4 * spec.sparse) if self.copies_entries else 0
        return NUMBER * numbers + copied + self._planes(spec, size, planes)

    def kept(self, spec: ProblemSpec, size: Size, planes: int) -> float:
        n, d, k = spec.n_rows, spec.n_features, _joint_classes(spec)
        numbers = k * (n * (self.kept_row + DUAL_NUMBERS_A_ROW) + d * self.kept_feature) + d * d * self.kept_square
        return NUMBER * numbers + self._planes(spec, size, planes)

    def _planes(self, spec: ProblemSpec, size: Size, planes: int) -> float:
        k = _joint_classes(spec)
        a_row = self.squared_plane_row_bytes if spec.loss_function.is_squared else self.plane_row_bytes
        if k > 1:
            a_row = 1.0  # the class that a plane chose
        shorter = self.plane_scores and is_shorter_by_scores(spec.n_rows, spec.n_features, size.entries)
        numbers = self.plane_vectors * k * (spec.n_rows if shorter else spec.n_features)
        return planes * (NUMBER * numbers + a_row * spec.n_rows) if self.plane_vectors else 0.0


@dataclass(frozen=True)
class Pace:
    """passes = least (1 + C |x|^2)^hardness (0.01 / tol)^precision (rows / features)^tallness (1 / density)^sparsity,
    times `squared` if the loss is; and the time of a pass.

    Fitted to the processor time of runs on real data, scaled and not. An estimate, not a promise.
    """

    least: float
    hardness: float
    hardest: float = 500.0
    """C |x|^2 above which passes no longer grow. Coordinate methods depend on the scale of X, others hardly do."""
    precision: float = 0.0
    tallness: float = 0.0
    sparsity: float = 0.0
    squared: float = 1.0
    entry_seconds: float = 0.0
    """Seconds a pass for each stored entry of X."""
    row_seconds: float = 0.0
    pass_seconds: float = 2e-5
    gram_seconds: float = 0.0
    """Seconds, once, for each pair of stored entries of a row."""
    cube_seconds: float = 0.0
    """Seconds a pass for features^3: a factorisation."""
    divided: float = 0.0
    """The share of the time that threads divide among them, measured with two threads."""

    def seconds(
        self, spec: ProblemSpec, size: Size, tol: float, most_passes: int | None, threads: int = 1
    ) -> float | None:
        """Estimate the seconds of one run, wall-clock with several threads; None if the mean |x_i|^2 is unknown."""
        if size.squared_norm is None:
            return None
        n, d, k = spec.n_rows, spec.n_features, _joint_classes(spec)
        cost = spec.C / n if spec.c_scale == "mean" else spec.C
        passes = (
            self.least
            * math.pow(1.0 + min(cost * size.squared_norm, self.hardest), self.hardness)
            * math.pow(1e-2 / tol, self.precision)
            * math.pow(n / d, self.tallness)
            * math.pow(n * d / max(1, size.entries), self.sparsity)
            * (self.squared if spec.loss_function.is_squared else 1.0)
        )
        passes = min(max(passes, LEAST_PASSES), most_passes or MOST_PASSES)
        a_pass = self.entry_seconds * size.entries * k + self.row_seconds * n + self.pass_seconds
        a_pass += self.cube_seconds * float(d) ** 3
        by_one = passes * a_pass + self.gram_seconds * size.entries * size.entries / n
        divided = self.divided if size.entries >= LEAST_DIVIDED else 0.0
        return by_one * (1.0 - divided + divided / threads)


def estimate_run(
    spec: ProblemSpec,
    size: Size,
    footprint: Footprint,
    pace: Pace | None,
    *,
    tol: float,
    max_seconds: float | None,
    max_passes: int | None,
    threads: int,
) -> Estimate:
    """Add up one run with this many threads, or one run a class with one thread each and as many at once."""
    runs = spec.n_classes or 1 if spec.task == "multiclass" and spec.strategy == "ovr" else 1
    if runs > 1:
        spec = spec.of_one_class
        max_passes = None if max_passes is None else max(1, max_passes // runs)
    planes = min(USUAL_PLANES, max_passes or USUAL_PLANES)
    peak, kept = footprint.peak(spec, size, planes), footprint.kept(spec, size, planes)
    seconds = None if pace is None else pace.seconds(spec, size, tol, max_passes, threads if runs == 1 else 1)
    if runs > 1:
        at_once = min(threads, runs)
        labels = NUMBER * LABEL_NUMBERS_A_ROW * spec.n_rows
        peak = runs * (kept + labels) + at_once * (peak - kept - labels)
        seconds = None if seconds is None else seconds * runs / at_once
        kept = runs * kept
    if seconds is not None and max_seconds is not None:
        seconds = min(seconds, max_seconds)
    return Estimate(int(peak), int(kept), seconds)


def is_shorter_by_scores(n_rows: int, n_features: int, entries: int) -> bool:
    """Whether planes should hold scores of rows: the vectors are shorter, and one more read of X makes the weights.

    With several classes all three figures grow alike.
    """
    return entries <= WORTH_A_READ * (n_features - n_rows)


def _joint_classes(spec: ProblemSpec) -> int:
    """Return the number of weight vectors that one run trains."""
    return (spec.n_classes or 1) if spec.task == "multiclass" and spec.strategy != "ovr" else 1
