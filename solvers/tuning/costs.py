"""The values of C to search, and `path`, which trains a model at each C of a list."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from solvers.checks import one_of
from solvers.errors import InvalidProblem
from solvers.linalg.types import Floats
from solvers.problem.spec import PARAMETERS
from solvers.result import SolveResult
from solvers.tuning.source import read_source
from solvers.tuning.variants import read_variants, trainings_of

__all__ = ["MOST_VALUES", "Costs", "PathResult", "path", "read_costs", "spaced"]

AUTO_RANGE = (1e-3, 1e3)
"""The range of C for C = "auto", in units of 1 / mean |x_i|^2. Wider: more trainings. Set by hand; no measurement is
recorded."""
MOST_VALUES = 1000
"""Maximum number of values of C in a proof. When it is reached, the proof ends and the result states the epsilon
reached. Larger: longer searches, more complete proofs. Set by hand; no measurement is recorded."""


class Costs(NamedTuple):
    """The values of C of a search, or the ends of their range."""

    values: tuple[float, ...]
    """Ascending."""
    is_range: bool

    @property
    def ends(self) -> tuple[float, float]:
        return self.values[0], self.values[-1]

    @classmethod
    def auto(cls, squared_length: float) -> Self:
        """Return the range for rows of this mean squared length."""
        return cls((AUTO_RANGE[0] / squared_length, AUTO_RANGE[1] / squared_length), True)


def read_costs(C: Any) -> Costs | None:
    """Read the argument C; None means "auto"."""
    if isinstance(C, str):
        one_of(C, "C", InvalidProblem, ("auto",))
        return None
    if np.ndim(C) != 1 or np.size(C) == 0:
        raise InvalidProblem("C", 'must be a range (low, high), a list of values, or "auto"')
    values = [PARAMETERS["C"].checked("C", float(one) if isinstance(one, np.floating) else one) for one in C]
    if isinstance(C, tuple) and len(values) == 2:
        if values[0] >= values[1]:
            raise InvalidProblem("C", f"goes from {values[0]:g} to {values[1]:g}; the first must be smaller")
        return Costs(tuple(values), True)
    return Costs(tuple(sorted(set(values))), False)


def spaced(low: float, high: float, steps: int, most: int = MOST_VALUES) -> list[float]:
    """Return values from low to high, evenly spaced in log C: `steps` values per factor of 10, at most `most` in
    total."""
    count = min(most, max(2, math.ceil(steps * math.log10(high / low) - 1e-9) + 1))
    values = np.geomspace(low, high, count)
    values[0], values[-1] = low, high
    return [float(value) for value in values]


@dataclass(frozen=True, eq=False)
class PathResult:
    """Models along C."""

    C: tuple[float, ...]
    models: tuple[SolveResult, ...]

    @property
    def coef(self) -> Floats:
        """The weights of all models; the first axis is C."""
        return np.stack([model.coef for model in self.models])

    @property
    def intercept(self) -> Floats:
        return np.stack([np.asarray(model.intercept) for model in self.models])


def path(
    X: Any,
    y: Any,
    solver: str = "auto",
    *,
    C: Sequence[float],
    sample_weight: Any = None,
    query_groups: Any = None,
    tol: float = 1e-3,
    max_seconds: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    **problem: Any,
) -> PathResult:
    """Train a model for each C, in ascending order. Each training starts from the previous weights. `max_seconds`
    limits each training."""
    definitions = read_variants([{}], problem)
    if len(definitions) > 1:
        raise InvalidProblem("loss", "and other parameters cannot be lists for a path; give one value")
    source = read_source(X, y, problem.get("task", "auto"), sample_weight=sample_weight, query_groups=query_groups)
    settings = {"solver": solver, "seed": seed, "threads": threads, "options": options}
    (training,) = trainings_of(definitions, source.labels, **settings)
    costs = read_costs(C)
    if costs is None or costs.is_range:
        raise InvalidProblem("C", "must be a list of values for a path")
    models: list[SolveResult] = []
    for value in costs.values:
        start = (models[-1].coef, models[-1].intercept) if models else None
        models.append(training.run(source.whole(0), value, tol, start=start, max_seconds=max_seconds))
    return PathResult(costs.values, tuple(models))
