"""Defines the interface of a method: a class in `solvers/methods/` that declares which problems it supports and
implements a step.

    method = SomeMethod(problem, options)      derived constants only, nothing that changes
    state  = method.init(seed, start)          everything that changes, as arrays and scalars
    while the driver wants more:
        progress = method.step(state, target)  at most about one pass over the data
    point = method.extract(state)

A stored state can be passed as `start`; the method then continues from it. A method never decides that it has
converged. It estimates its gap, and the driver decides when to compute a certificate.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from solvers.checks import one_of, real_number, whole_number
from solvers.cost import Footprint, Pace
from solvers.errors import InvalidOptions, UnsupportedProblem
from solvers.linalg.types import Floats
from solvers.problem.losses import losses_of
from solvers.problem.losses import registered as registered_losses
from solvers.problem.losses.loss import MarginLoss
from solvers.problem.problems import Problem
from solvers.problem.spec import ProblemSpec
from solvers.result import Counts, Status
from solvers.state import State, StoredState

__all__ = ["AnyMethod", "Method", "Option", "Planes", "Point", "Progress", "Rehearsal", "Start", "cut_margin"]

AnyProblem = TypeVar("AnyProblem", bound=Problem)
AnyState = TypeVar("AnyState", bound=State)


@dataclass(frozen=True)
class Option:
    """An option of one method, with its type, range and default."""

    name: str
    kind: type[bool] | type[int] | type[float] | type[str]
    default: bool | int | float | str
    description: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    def checked(self, value: object) -> bool | int | float | str:
        argument = f"options.{self.name}"
        if self.kind is bool:
            if not isinstance(value, bool):
                raise InvalidOptions(argument, f"must be true or false, not {value!r:.60}")
            return value
        if self.kind is str:
            return one_of(value, argument, InvalidOptions, self.choices)
        low, high = self.low, self.high
        if self.kind is int:
            return whole_number(
                value, argument, InvalidOptions, low=int(low or 0), high=None if high is None else int(high)
            )
        return real_number(
            value,
            argument,
            InvalidOptions,
            low=float("-inf") if low is None else low,
            high=float("inf") if high is None else high,
        )

    def described(self) -> dict[str, Any]:
        return {
            "type": {bool: "boolean", int: "integer", float: "number", str: "string"}[self.kind],
            "default": self.default,
            "minimum": self.low,
            "maximum": self.high,
            "choices": list(self.choices) or None,
            "description": self.description,
        }


class Rehearsal(NamedTuple):
    """An additional problem that `warm_up` solves, for a method whose kernels are not all used on the usual small
    problems."""

    n_rows: int
    arguments: Mapping[str, Any]
    """Arguments of `train`."""


class Start(NamedTuple):
    """A starting point: a method's own earlier state, or any weights."""

    state: StoredState | None = None
    coef: Floats | None = None
    intercept: float | Floats = 0.0
    counts: Counts = Counts()
    """Iterations, passes and seconds of the interrupted run."""


class Progress(NamedTuple):
    """A method's report after a step: counts, and its own estimates of objective, bound and gap."""

    iterations: int
    passes: int
    """Number of full passes over X so far."""
    primal: float | None
    dual_bound: float | None
    gap_estimate: float | None
    """The method's own cheap estimate of the relative gap; None if it has none."""
    finished: Status | None = None
    """The status with which the method ends the run, because it cannot continue or its own stopping rule is met; None
    to continue."""
    is_complete: bool = True
    """Whether the estimate covers all rows. An estimate from a part of the rows is too low, so no certificate is
    computed."""


class Planes(NamedTuple):
    """A dual point as a combination of cutting planes: for each plane, the weights at which it was cut and its
    multiplier."""

    weights: Floats
    """One row per plane."""
    multipliers: Floats
    """Numbers >= 0 with a sum of at most 1."""


def cut_margin(scores: Floats) -> float:
    """Return the difference of scores below which a pair counts in an ordinal plane: slightly less than 1.

    At the points that methods reach, many differences are 1 up to rounding. Without the margin, a plane could not be
    recomputed from the weights at which it was cut.
    """
    return 1.0 - 1e-12 * max(1.0, float(np.abs(scores).max()))


class Point(NamedTuple):
    """The current result of a method: weights and, if the method has one, a dual point for the bound."""

    coef: Floats
    """One weight per feature; multi-class: one row per class."""
    intercept: float | Floats
    alpha: Floats | None
    """One dual variable per row; multi-class: per row and class."""
    planes: Planes | None = None
    """The dual point of an ordinal problem."""


class Method(ABC, Generic[AnyProblem, AnyState]):
    """One algorithm."""

    state_type: type[AnyState]

    name: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]]
    losses: ClassVar[tuple[str, ...]]
    """The losses for which the method has its own code."""
    takes_any_loss: ClassVar[bool] = False
    """Whether the method takes every loss of two classes, through the methods of the loss object."""
    biases: ClassVar[tuple[str, ...]]
    options: ClassVar[tuple[Option, ...]] = ()
    paper: ClassVar[str]
    notes: ClassVar[str]
    exact: ClassVar[bool] = True
    """Whether the method can reach any tolerance. If not, the certificate of a result shows the gap that was
    reached."""
    reads_in_passes: ClassVar[bool] = False
    """Whether the method only makes passes over all rows in order, so that X can be in blocks."""
    has_estimate: ClassVar[bool] = True
    """Whether the method estimates its own gap. If not, it is certified after fixed numbers of passes."""
    footprint: ClassVar[Footprint] = Footprint()
    """The memory that the method needs."""
    pace: ClassVar[Pace | None] = None
    """The time that the method needs; None if unknown."""
    uses_threads: ClassVar[bool] = False
    """Whether a step can use several threads."""
    rehearsals: ClassVar[tuple[Rehearsal, ...]] = ()
    same_bits: ClassVar[bool] = True
    """Whether results are bit-identical for any number of threads. If not, only runs with one thread are
    bit-identical."""

    def __init__(self, problem: AnyProblem, options: Mapping[str, Any]) -> None:
        self.problem = problem
        self.chosen = options
        self.reads_left = sys.maxsize
        """Number of full passes over X that are still allowed. Methods that make several passes in a step must observe
        it."""
        self.threads = 1
        """Threads that a step may use. The driver sets it if the method `uses_threads`."""

    @classmethod
    def missing(cls, spec: ProblemSpec) -> UnsupportedProblem | None:
        """Return the error that says which part of the problem the method does not support; None if it supports all."""
        of_task = tuple(loss for loss in losses_of(spec.task) if loss in cls.supported_losses())
        for argument, wanted, offered in (
            ("task", spec.task, cls.tasks),
            ("loss", spec.loss, of_task),
            ("bias", spec.bias, cls.biases),
        ):
            if wanted not in offered:
                return UnsupportedProblem(
                    argument, f"solver {cls.name} cannot do {wanted}; it can do {', '.join(offered)}"
                )
        return None

    @classmethod
    def supported_losses(cls) -> tuple[str, ...]:
        """Return the names of all losses that the method takes, including those without a kernel of its own."""
        if not cls.takes_any_loss:
            return cls.losses
        others = (name for name, loss in registered_losses().items() if issubclass(loss, MarginLoss))
        return tuple(dict.fromkeys((*cls.losses, *others)))

    @classmethod
    def supports(cls, spec: ProblemSpec) -> bool:
        return cls.missing(spec) is None

    @classmethod
    def checked_options(cls, given: object) -> dict[str, Any]:
        """Return every option of the method, checked, with defaults for those that are not given."""
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            raise InvalidOptions("options", "must be a table from option name to value")
        known = {option.name: option for option in cls.options}
        for name in given:
            if name not in known:
                accepted = ", ".join(known) or "none"
                raise InvalidOptions("options", f"solver {cls.name} has no option {name!r:.60}; it has: {accepted}")
        return {name: option.checked(given.get(name, option.default)) for name, option in known.items()}

    @classmethod
    def footprint_with(cls, options: Mapping[str, Any]) -> Footprint:
        """Return the memory that the method needs with these options."""
        return cls.footprint

    @classmethod
    def by_default(cls, problem: AnyProblem) -> "Method[AnyProblem, AnyState]":
        """Make the method with its default options, as `auto` runs it."""
        return cls(problem, cls.checked_options(None))

    @classmethod
    def described(cls) -> dict[str, Any]:
        return {
            "tasks": list(cls.tasks),
            "losses": list(cls.supported_losses()),
            "biases": list(cls.biases),
            "options": {option.name: option.described() for option in cls.options},
            "exact": cls.exact,
            "paper": cls.paper,
            "notes": cls.notes,
        }

    def earlier(self, start: Start) -> AnyState | None:
        """Return the state in `start`, or None if there is none. The state can belong to another problem, so check it
        before use."""
        return None if start.state is None else self.state_type.restored(start.state, self.name)

    @abstractmethod
    def init(self, seed: int, start: Start) -> AnyState:
        """Return the state before the first step."""

    @abstractmethod
    def step(self, state: AnyState, target: float) -> Progress:
        """Change the state by a bounded amount of work. `target` is the relative gap to reach."""

    @abstractmethod
    def extract(self, state: AnyState) -> Point:
        """Return a copy of the current result."""


AnyMethod = Method[Any, Any]
"""A method of any problem with any state, for the engine. `missing` checks that the method supports a problem;
`earlier` restores a state."""
