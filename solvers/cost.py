"""Estimates the memory and time of a run: memory by counting a method's arrays, time by a model fitted to measured
runs.

A method declares the size of its arrays (`Footprint`) and the number and speed of its passes (`Pace`). This module
combines them for the given rows, features, classes and threads.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from solvers.problem.spec import ProblemSpec

__all__ = ["Estimate", "Footprint", "Pace", "Size", "estimate_run", "is_shorter_by_scores"]

NUMBER = 8
"""Bytes of a double."""
LABEL_NUMBERS_A_ROW = 2.0
"""Numbers of 8 bytes per row and class of one-vs-rest: one cost and one sign. The arrays of all classes exist from the
start. Larger: larger memory estimates. Counted from the code."""
DUAL_NUMBERS_A_ROW = 1.0
"""Numbers of 8 bytes per row in the dual point that a result keeps in addition to the state. Larger: larger memory
estimates. Counted from the code."""
USUAL_PLANES = 60
"""Assumed number of cutting planes in memory during a long run, used or recently used. Larger: larger memory estimates.
Set by hand; no measurement is recorded."""
LEAST_PASSES, MOST_PASSES = 2.0, 1e6
"""Lower and upper limit of the estimated number of passes. They keep an extrapolation of the fitted model within
reason."""
LEAST_DIVIDED = 1 << 21
"""Least number of stored entries of X for which estimates assume that several threads save time. Larger: longer
estimates for small data. Set by hand; no measurement is recorded."""
WORTH_A_READ = 25
"""A plane stores scores instead of weights if that reads at most this many more entries of X per number saved. With 50
planes each number is used about 100 times per iteration, and a random read of X costs as much as 4 uses: 100 / 4 = 25.
Larger: planes store scores more often."""


class Size(NamedTuple):
    """The properties of the data that determine time and memory."""

    entries: int
    """Number of stored entries of X."""
    value_bytes: int
    """Bytes per entry."""
    squared_norm: float | None = None
    """Mean of |x_i|^2; None if unknown."""


class Estimate(NamedTuple):
    peak_bytes: int
    """Peak memory of the run in bytes, without X and y."""
    kept_bytes: int
    """Memory of the result in bytes."""
    seconds: float | None
    """Wall-clock time on the machine to which the model was fitted; None if unknown."""


@dataclass(frozen=True)
class Footprint:
    """The memory of a method at its peak and in its state, in numbers of 8 bytes. The arrays of the problem and of its
    certificate are included.

    Each is a sum of the factors below times the numbers of rows, features and classes. The factors were measured with
    tracemalloc.
    """

    row: float = 20.0
    squared_row: float = 0.0
    """Additional numbers per row if the loss is squared."""
    free_row: float = 0.0
    """Additional numbers per row if the bias is free, because the best bias is found by sorting."""
    feature: float = 8.0
    square: float = 0.0
    """Numbers per pair of features, for a matrix of features x features."""
    most_squared: float = math.inf
    """Maximum number of features for which the method forms a matrix of features x features."""
    most_squared_a_row: float = math.inf
    """Maximum ratio of features to rows for which the method forms a matrix of features x features."""
    row_and_class: float = 0.0
    """Numbers per row for each class beyond the first, if a method trains all classes at once."""
    feature_and_class: float = 0.0
    copies_entries: bool = False
    """Whether the method makes a copy of X."""
    plane_vectors: int = 0
    """Number of weight vectors stored with each cutting plane."""
    plane_scores: bool = False
    """Whether a plane stores the scores of the rows instead of weights if there are fewer rows than weights."""
    plane_row_bytes: float = 0.0
    """Bytes per row that each cutting plane stores."""
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
            a_row = 1.0  # the class that the plane counts for the row
        shorter = self.plane_scores and is_shorter_by_scores(spec.n_rows, spec.n_features, size.entries)
        numbers = self.plane_vectors * k * (spec.n_rows if shorter else spec.n_features)
        return planes * (NUMBER * numbers + a_row * spec.n_rows) if self.plane_vectors else 0.0


@dataclass(frozen=True)
class Pace:
    """The time of a method: the number of passes and the time of a pass.

    passes = least (1 + C |x|^2)^hardness (0.01 / tol)^precision (rows / features)^tallness (1 / density)^sparsity,
    times `squared` for a squared loss. The numbers are fitted to the processor time of runs on real data, with and
    without scaling. The result is an estimate, not a limit.
    """

    least: float
    hardness: float
    hardest: float = 500.0
    """Value of C |x|^2 above which the estimated passes no longer grow. The passes of coordinate descent depend on the
    scale of X; those of other methods hardly do."""
    precision: float = 0.0
    tallness: float = 0.0
    sparsity: float = 0.0
    squared: float = 1.0
    entry_seconds: float = 0.0
    """Seconds per pass and stored entry of X."""
    row_seconds: float = 0.0
    pass_seconds: float = 2e-5
    gram_seconds: float = 0.0
    """Seconds per pair of stored entries in the same row, to form a Gram matrix once per run."""
    cube_seconds: float = 0.0
    """Seconds per pass and features^3, for a factorisation."""
    divided: float = 0.0
    """Fraction of the time that is divided among the threads; measured with two threads."""

    def seconds(
        self, spec: ProblemSpec, size: Size, tol: float, most_passes: int | None, threads: int = 1
    ) -> float | None:
        """Estimate the wall-clock seconds of one run; None if the mean |x_i|^2 is unknown."""
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
    """Estimate a run with `threads` threads. One-vs-rest is estimated as one single-threaded run per class, with
    `threads` runs at the same time."""
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
    """Return whether planes should store scores of rows instead of weights. The vectors are then shorter, but computing
    the weights takes one more pass over X.

    The number of classes does not matter: it multiplies all three numbers alike.
    """
    return entries <= WORTH_A_READ * (n_features - n_rows)


def _joint_classes(spec: ProblemSpec) -> int:
    """Return the number of weight vectors that one run trains."""
    return (spec.n_classes or 1) if spec.task == "multiclass" and spec.strategy != "ovr" else 1
