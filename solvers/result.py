"""The result of training: why it stopped, its certificate, and the model.

Prediction here needs only numpy (and scipy for sparse rows), never a compiled kernel.
"""

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from solvers.errors import InvalidProblem
from solvers.state import StoredState

if TYPE_CHECKING:
    from solvers.method import Point

__all__ = ["Certificate", "Counts", "LinearModel", "SolveResult", "Status", "StepReport"]

CELLS_A_BLOCK, ROWS_MULTIPLE = 1 << 16, 64
"""X is scored in blocks of at most CELLS_A_BLOCK numbers, which fit into the processor's cache. The number of rows in a
block is a multiple of ROWS_MULTIPLE, so that a row's score has the same bits in any block. Larger blocks: more cache
misses. Set by hand; no measurement is recorded."""
NEGLIGIBLE = 1e-6
"""Largest possible improvement over the best constant model, as a fraction of its value, that counts as none. Larger:
more models whose weights have no proven use count as converged with `tol="auto"`. Set by hand; no measurement is
recorded."""


class Status(enum.StrEnum):
    """Why training stopped.

    running > converged     the certified relative gap is at most tol; tol auto: and the improvement is proved
            > pass_limit    max_passes were made
            > time_limit    max_seconds have passed
            > stopped       the callback or the method's own stopping rule ended the run
            > stalled       the method makes no more progress in double precision
            > nonfinite     numbers overflowed; the result is the best point before that
    """

    CONVERGED = "converged"
    PASS_LIMIT = "pass_limit"
    TIME_LIMIT = "time_limit"
    STOPPED = "stopped"
    STALLED = "stalled"
    NONFINITE = "nonfinite"


class Counts(NamedTuple):
    """Iterations, passes and seconds of a run. A stored state carries them for a run that resumes it."""

    iterations: int = 0
    passes: int = 0
    seconds: float = 0.0

    def added_to(self, state: StoredState) -> StoredState:
        return {**state, **{f"run.{name}": value for name, value in self._asdict().items()}}

    @classmethod
    def taken_from(cls, state: StoredState) -> tuple["Counts", StoredState]:
        """Split a stored state into its counts and the rest."""
        own = {name: value for name, value in state.items() if not name.startswith("run.")}
        found = {name: state[f"run.{name}"] for name in cls._fields if f"run.{name}" in state}
        return cls(**found), own


@dataclass(frozen=True)
class Certificate:
    """A proven bound on the difference between the objective of the returned point and the optimum. It is computed
    independently of the solver.

    For the exact real numbers that the doubles of X, y and the costs C_i represent:
    dual_bound <= optimum <= P(w, b) <= primal, and P(w, b) - optimum <= gap.
    """

    primal: float
    """P(w, b), rounded up."""
    dual_bound: float | None
    """A proven lower bound of the optimum, at least 0; null only if the primal value is not finite."""
    gap: float | None
    """A proven upper bound of P(w, b) - optimum, at most `primal`. It can be much smaller than the last digit of
    `primal`, and so smaller than `primal - dual_bound`."""
    relative_gap: float | None
    """gap / max(primal, 1e-12 sum_i C_i), a number from 0 to 1."""
    method: str
    """How the dual point was obtained."""
    improvement: float | None = None
    """(P0 - primal) / (P0 - dual_bound), rounded down, with P0 the value of the best constant model: the share of what
    weights can improve that is proved to be reached. Negative: the constant model is better. None: it was not computed,
    or P0 - dual_bound is at most NEGLIGIBLE P0, so that weights cannot improve anything."""

    def __post_init__(self) -> None:
        if self.dual_bound is not None and not self.dual_bound <= self.primal:
            raise ValueError(
                f"the dual bound {self.dual_bound!r} exceeds the primal value {self.primal!r}: the certificate is wrong"
            )

    def compared_with(self, constant: float | None) -> "Certificate":
        """Return the certificate with its improvement. `constant` is a lower bound of P0; None: it is unknown."""
        if constant is None or self.dual_bound is None or not math.isfinite(self.primal):
            return self
        possible = math.nextafter(constant - self.dual_bound, math.inf)
        if possible <= NEGLIGIBLE * constant:
            return replace(self, improvement=None)
        reached = math.nextafter(constant - self.primal, -math.inf)
        return replace(self, improvement=math.nextafter(reached / possible, -math.inf))

    @classmethod
    def of_pair(cls, primal: float, dual_bound: float, gap: float, floor: float, method: str) -> "Certificate":
        """Build a certificate from a proven primal value, bound and gap. `floor` is 1e-12 sum_i C_i."""
        return cls(primal, dual_bound, gap, gap / max(primal, floor), method)

    @classmethod
    def of_bounds(cls, primal: float, dual_bound: float, floor: float, method: str) -> "Certificate":
        """Build a certificate from a primal value and a bound. The gap is their difference, rounded up."""
        gap = min(math.nextafter(primal - dual_bound, math.inf), primal)
        return cls.of_pair(primal, dual_bound, gap, floor, method)


@dataclass(frozen=True)
class StepReport:
    """The progress of training after a step."""

    iterations: int
    passes: int
    seconds: float
    primal: float | None
    dual_bound: float | None
    relative_gap: float | None
    certified: bool = False
    """True: recomputed independently. False: the method's own estimate, possibly from a part of the rows."""
    capture: Callable[[bool], StoredState] | None = field(default=None, repr=False, compare=False)
    extract: Callable[[], "LinearModel"] | None = field(default=None, repr=False, compare=False)

    def snapshot(self, *, copy: bool = True) -> StoredState:
        """Return a copy of the method's state for `warm_start`. Works only inside the callback.

        Without `copy` it is the state itself, which must not be used after the callback has returned.
        """
        if self.capture is None:
            raise RuntimeError("a snapshot can only be taken inside the callback; call snapshot() there")
        return self.capture(copy)

    @property
    def has_model(self) -> bool:
        """Whether `model` can be called. It works only inside the callback; in a resumed one-vs-rest run, only after
        every class has started."""
        return self.extract is not None

    def model(self) -> "LinearModel":
        """Return the current model. This can cost a pass over the data. Works only if the report `has_model`."""
        if self.extract is None:
            raise RuntimeError("this report has no model; check has_model before calling model()")
        return self.extract()

    def alone(self) -> "StepReport":
        """Return a copy of the report without references to the method and its arrays."""
        figures = self.primal, self.dual_bound, self.relative_gap
        return StepReport(self.iterations, self.passes, self.seconds, *figures, self.certified)


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearModel:
    """Weights, and the attributes that turn scores into answers."""

    coef: NDArray[np.float64]
    """One weight per feature; multi-class: one row per class."""
    intercept: float | NDArray[np.float64]
    classes: NDArray[Any]
    thresholds: NDArray[np.float64] | None
    """Thresholds of an ordinal model: `classes[k]` is predicted if the score exceeds exactly k of them. None for other
    tasks and for real-valued relevance."""
    task: str
    strategy: str | None = None
    """The strategy for several classes; None for other tasks."""

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return a score per row, or per row and class. Positive means `classes[1]`; ordinal: larger is higher."""
        is_sparse = scipy.sparse.issparse(X)
        rows: Any = X if is_sparse else np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != self.coef.shape[-1]:
            raise InvalidProblem("X", f"has shape {rows.shape}; rows of {self.coef.shape[-1]} features are needed")
        weights = self.coef.T
        if is_sparse:
            return np.asarray(rows @ weights, dtype=np.float64) + self.intercept
        scores = np.empty((rows.shape[0], *weights.shape[1:]))
        # In blocks, so that only a block of a float32 or integer table is widened at a time.
        height = max(1, CELLS_A_BLOCK // max(1, rows.shape[1]) // ROWS_MULTIPLE) * ROWS_MULTIPLE
        for start in range(0, rows.shape[0], height):
            block = slice(start, start + height)
            scores[block] = rows[block] @ weights
        return scores + self.intercept

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row, in the form in which labels were given; regression: the value."""
        scores = self.decision_function(X)
        if self.task == "multiclass":
            return np.asarray(self.classes[scores.argmax(axis=1)])
        if self.task == "ordinal":
            if self.thresholds is None:
                raise InvalidProblem(
                    "X", "has no ranks to predict: the labels were real numbers; use decision_function"
                )
            return self.classes[np.searchsorted(self.thresholds, scores, side="left")]
        if self.task == "regression":
            return scores
        return self.classes[(scores > 0.0).astype(np.intp)]


@dataclass(frozen=True, eq=False, kw_only=True)
class SolveResult(LinearModel):
    """A trained model with its certificate."""

    status: Status
    certificate: Certificate
    bounding: tuple["Point", ...]
    """The point whose dual point gave the bound; one-vs-rest: one per class."""
    iterations: int
    passes: int
    seconds: float
    certificate_seconds: float
    """The part of `seconds` that certificates took."""
    trace: list[StepReport]
    state: StoredState
    solver: str
    """The method that ended the run."""
    solver_reason: str
    """Why this method was chosen, and which methods ran before it."""
    loss: str
    bias: str
    seed: int
    threads: int
    per_class: list[Certificate] | None = None
    """One-vs-rest: the certificate of each class's problem."""

    @property
    def converged(self) -> bool:
        return self.status is Status.CONVERGED
