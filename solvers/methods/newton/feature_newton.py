"""Common part of the Newton methods with a matrix of features x features: samples of the rows, and passes in blocks."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from solvers.data.samples import RowSample, take_sample
from solvers.errors import UnsupportedProblem
from solvers.linalg.gram import gram_room
from solvers.linalg.types import Floats
from solvers.method import Method
from solvers.problem.problems import Problem
from solvers.problem.spec import ProblemSpec
from solvers.state import State

__all__ = ["MAX_FEATURES", "FeatureNewton", "dot"]

MAX_FEATURES = 4096
"""Maximum number of features. Larger: wider data is accepted; memory grows with the square: 400 MB at 4,096 for the
matrix, its factor and a copy of the state. The value limits memory."""
BLOCK_ENTRIES = 1 << 20
"""Number of stored entries in a block of rows. Threads read blocks in any order; the results are added in the order of
the rows. Larger: less overhead, less even work for the threads. Set by hand; no measurement is recorded."""
PAIR_WORK = 12
"""Assumed time to add the product of two sparse entries to the matrix, as a multiple of the time per number in a dense
tile. Larger: more sparse data is copied to dense tiles. Set by hand; no measurement is recorded."""

AnyProblem = TypeVar("AnyProblem", bound=Problem)
AnyState = TypeVar("AnyState", bound=State)
AnySums = TypeVar("AnySums")


class FeatureNewton(Method[AnyProblem, AnyState]):
    """Base class: the rows, samples of the rows, and work space for a matrix of features x features."""

    biases = ("regularized", "none", "free")
    uses_threads = True

    def __init__(self, problem: AnyProblem, options: Mapping[str, Any], labels: Floats) -> None:
        super().__init__(problem, options)
        data, k = problem.data, problem.data.n_features + 1
        self.labels = labels
        self.is_free = problem.spec.bias == "free"
        self.constant = 1.0 if self.is_free else problem.bias_feature
        self.ridge = np.ones(k)
        self.ridge[-1] = 0.0 if self.is_free else 1.0
        self.row_entries = max(1.0, data.stored_entries / data.n_rows)
        # Rows are copied to dense tiles, unless they are so sparse that adding pairs of entries is faster.
        self.is_gathered = not data.sparse or k * k <= PAIR_WORK * self.row_entries**2
        self.gathered = gram_room(k, is_gathered=self.is_gathered)
        self._taken: RowSample | None = None

    @classmethod
    def missing(cls, spec: ProblemSpec) -> UnsupportedProblem | None:
        lacks = super().missing(spec)
        if lacks is None and spec.n_features > MAX_FEATURES:
            limit = f"takes at most {MAX_FEATURES} features, because it factors a matrix of features x features"
            return UnsupportedProblem("solver", f"{cls.name} {limit}; the data has {spec.n_features}")
        return lacks

    def _sampled(self, stride: int, seed: int) -> RowSample:
        """Return one row in `stride`. The last sample is cached."""
        if self._taken is None or self._taken.stride != stride:
            self._taken = take_sample(self.problem.data, self.labels, self.problem.costs, stride, seed)
        return self._taken

    def _read_in_blocks(self, n_rows: int, read: Callable[[int, int, Floats], AnySums]) -> tuple[list[AnySums], Floats]:
        """Call `read` for each block of rows. Its arguments are the first row, the row after the last, and two vectors
        to add to.

        Returns the results of the calls, in order, and the sum of the vectors. Both are bit-identical for any number of
        threads.
        """
        n_blocks = max(1, int(n_rows * self.row_entries) // BLOCK_ENTRIES)
        edges = [n_rows * block // n_blocks for block in range(n_blocks + 1)]
        vectors = np.zeros((n_blocks, 2, self.ridge.size))

        def read_block(block: int) -> AnySums:
            return read(edges[block], edges[block + 1], vectors[block])

        if self.threads > 1 and n_blocks > 1:
            with ThreadPoolExecutor(min(self.threads, n_blocks)) as pool:
                parts = list(pool.map(read_block, range(n_blocks)))
        else:
            parts = [read_block(block) for block in range(n_blocks)]
        return parts, vectors.sum(axis=0)

    def _scale(self, stride: int) -> float:
        """Return the number of rows of the data per row of a sample."""
        n = self.problem.data.n_rows
        return n / (n // stride)

    def _dot(self, left: Floats, right: Floats) -> float:
        """Return the scalar product, without the bias if that is free."""
        return float((left * right * self.ridge).sum())


def dot(left: Floats, right: Floats) -> float:
    # Not left @ right: BLAS would start threads, which cost more than the sum on a busy machine.
    return float((left * right).sum())
