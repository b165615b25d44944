"""What a run will need before it begins: memory by counting a method's arrays, time by a model fitted to measured runs.

A method says how much it holds (`Footprint`) and how many passes of what speed it takes (`Pace`); the sums over
rows, features, classes and threads are made here.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from solvers.problem.spec import ProblemSpec

__all__ = ["Estimate", "Footprint", "Pace", "Size", "estimate_run", "is_shorter_by_scores"]

NUMBER = 8
LABEL_NUMBERS_A_ROW = 2.0
"""Of one class against the rest: the costs and signs of each class's problem, all of which are made at the start."""
DUAL_NUMBERS_A_ROW = 1.0
"""The dual point that a result keeps beside the state."""
USUAL_PLANES = 60
"""How many cutting planes a run holds, if it may go on for long enough: those in use, and those not idle for long."""
LEAST_PASSES, MOST_PASSES = 2.0, 1e6
LEAST_DIVIDED = 1 << 21
"""Stored entries; fewer are hardly worth more than one thread."""
WORTH_A_READ = 25
"""A read of so many stored entries is worth it for each number by which the vector of a plane is shorter: with fifty
planes such a number is used about a hundred times an iteration, and an entry, at a random place, costs like four."""


class Size(NamedTuple):
    """What of the data counts."""

    entries: int
    """Stored numbers of X."""
    value_bytes: int
    """Of each of them."""
    squared_norm: float | None = None
    """The mean of |x_i|^2; None if nobody knows."""


class Estimate(NamedTuple):
    peak_bytes: int
    """The most memory that the run holds at once, beside X and y."""
    kept_bytes: int
    """What of it the result still holds."""
    seconds: float | None
    """By the clock, on the machine that the models were fitted on; None: nobody knows."""


@dataclass(frozen=True)
class Footprint:
    """The memory of a method at its peak and in its state, in numbers of 8 bytes, certificate and problem included.

    Measured with tracemalloc: peak and state are sums of products of rows, features and classes, with these factors.
    """

    row: float = 20.0
    squared_row: float = 0.0
    """More of them a row if the loss is squared."""
    free_row: float = 0.0
    """More of them a row if the bias is free: the best one is found by sorting."""
    feature: float = 8.0
    square: float = 0.0
    """For each pair of features."""
    most_squared: float = math.inf
    """Features beyond which there is no such matrix."""
    most_squared_a_row: float = math.inf
    """The same for each row; what little there is nevertheless does not count."""
    row_and_class: float = 0.0
    """Of a method that trains all classes at once, for each class beyond the first."""
    feature_and_class: float = 0.0
    copies_entries: bool = False
    """Whether it holds X a second time."""
    plane_vectors: int = 0
    """Vectors of weights that each cutting plane holds."""
    plane_scores: bool = False
    """Whether these vectors are the scores of the rows where those are shorter."""
    plane_row_bytes: float = 0.0
    """What each cutting plane holds of each row."""
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
    times `squared` if the loss is, each of so much time.

    Fitted to the processor time of runs on real data, scaled and not; a hint, not a promise.
    """

    least: float
    hardness: float
    hardest: float = 500.0
    """C |x|^2 beyond which it gets no harder: the scale of X means little to most methods, much to coordinate ones."""
    precision: float = 0.0
    tallness: float = 0.0
    sparsity: float = 0.0
    squared: float = 1.0
    entry_seconds: float = 0.0
    """A pass, for each stored number of X."""
    row_seconds: float = 0.0
    pass_seconds: float = 2e-5
    gram_seconds: float = 0.0
    """Once, for each pair of stored numbers of a row."""
    cube_seconds: float = 0.0
    """A pass, for each three features: a factorisation."""
    divided: float = 0.0
    """The share of the time that several threads divide among them, as far as the time by two has shown."""

    def seconds(
        self, spec: ProblemSpec, size: Size, tol: float, most_passes: int | None, threads: int = 1
    ) -> float | None:
        """Of one run of the method, by the clock if it has several threads."""
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
    """One run by so many threads, or one for each class, by one thread, with as many at once."""
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
    """Whether cutting planes gain more by vectors of a number a row than the read of X costs that then makes weights.

    One for each class, if there are several: then all three grow alike.
    """
    return entries <= WORTH_A_READ * (n_features - n_rows)


def _joint_classes(spec: ProblemSpec) -> int:
    """How many weight vectors one run trains."""
    return (spec.n_classes or 1) if spec.task == "multiclass" and spec.strategy != "ovr" else 1
