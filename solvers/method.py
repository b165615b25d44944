"""What a method is: a class in `solvers/methods/` that says what it can do and how it takes a step.

    method = SomeMethod(problem, options)      derived constants only, nothing that changes
    state  = method.init(seed, start)          everything that changes, as arrays and scalars
    while the driver wants more:
        progress = method.step(state, target)  at most about one pass over the data
    point = method.extract(state)

The state can be stored and given back as `start`: the method then goes on from there. A method never
decides that it has converged; it estimates its gap, and the driver has the certificate computed.
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
from solvers.problem.problems import Problem
from solvers.problem.spec import ProblemSpec
from solvers.result import Counts, Status
from solvers.state import State, StoredState

__all__ = ["Method", "Option", "Planes", "Point", "Progress", "Rehearsal", "Start", "cut_margin"]

AnyProblem = TypeVar("AnyProblem", bound=Problem)
AnyState = TypeVar("AnyState", bound=State)


@dataclass(frozen=True)
class Option:
    """A setting of one method only, with its type, range and default."""

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
    """A run that warm-up adds for a method whose kernels the usual small problems do not all reach."""

    n_rows: int
    arguments: Mapping[str, Any]
    """Of `train`."""


class Start(NamedTuple):
    """Where to start from: a method's own earlier state, or any weights."""

    state: StoredState | None = None
    coef: Floats | None = None
    intercept: float | Floats = 0.0
    counts: Counts = Counts()
    """What the run had used up when it was interrupted."""


class Progress(NamedTuple):
    """A method's own view of where it stands."""

    iterations: int
    passes: int
    """Full reads of X so far."""
    primal: float | None
    dual_bound: float | None
    gap_estimate: float | None
    """The relative gap as far as the method can tell cheaply; null if it cannot tell."""
    finished: Status | None = None
    """Set if the method cannot or, by its own rule, will not go on."""
    is_complete: bool = True
    """Whether the estimate covers all rows; if not, it is too low to be worth a certificate."""


class Planes(NamedTuple):
    """A dual point made of cutting planes: the weights at which each was cut, and its multiplier."""

    weights: Floats
    """One row a plane."""
    multipliers: Floats
    """>= 0, in all at most 1."""


def cut_margin(scores: Floats) -> float:
    """The difference of scores below which a pair counts in an ordinal plane: 1, but for rounding.

    At the points that methods come to, many differences are 1 up to rounding. A plane that counted those as they fall
    could not be found again from the weights it was cut at.
    """
    return 1.0 - 1e-12 * max(1.0, float(np.abs(scores).max()))


class Point(NamedTuple):
    """An answer, with a dual point that bounds how wrong it is if the method has one."""

    coef: Floats
    """One weight a feature; multi-class: one row of them a class."""
    intercept: float | Floats
    alpha: Floats | None
    """A number a row; multi-class: a number for each row and class."""
    planes: Planes | None = None
    """The dual point of an ordinal problem."""


class Method(ABC, Generic[AnyProblem, AnyState]):
    """One algorithm."""

    state_type: type[AnyState]

    name: ClassVar[str]
    tasks: ClassVar[tuple[str, ...]]
    losses: ClassVar[tuple[str, ...]]
    biases: ClassVar[tuple[str, ...]]
    options: ClassVar[tuple[Option, ...]] = ()
    paper: ClassVar[str]
    notes: ClassVar[str]
    exact: ClassVar[bool] = True
    """Whether it reaches any tolerance; if not, it still certifies honestly how far it came."""
    reads_in_passes: ClassVar[bool] = False
    """Whether it only ever reads all rows in their order, so that they may come in blocks."""
    has_estimate: ClassVar[bool] = True
    """Whether it can tell its own gap; if not, it is certified every so many passes."""
    footprint: ClassVar[Footprint] = Footprint()
    """What it holds in memory."""
    pace: ClassVar[Pace | None] = None
    """How long it takes; None: nobody can tell before."""
    uses_threads: ClassVar[bool] = False
    """Whether a step can use several threads."""
    rehearsals: ClassVar[tuple[Rehearsal, ...]] = ()
    same_bits: ClassVar[bool] = True
    """Whether runs give the same bits by any number of threads; if not, they do by one."""

    def __init__(self, problem: AnyProblem, options: Mapping[str, Any]) -> None:
        self.problem = problem
        self.chosen = options
        self.reads_left = sys.maxsize
        """How many more full reads of X are allowed; for methods that can do several in a step."""
        self.threads = 1
        """How many a step may use; the driver sets it, and only if the method `uses_threads`."""

    @classmethod
    def missing(cls, spec: ProblemSpec) -> UnsupportedProblem | None:
        """What this method lacks for a problem, as the error to raise; None if it lacks nothing."""
        of_task = tuple(loss for loss in cls.losses if loss in losses_of(spec.task))
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
    def supports(cls, spec: ProblemSpec) -> bool:
        return cls.missing(spec) is None

    @classmethod
    def checked_options(cls, given: object) -> dict[str, Any]:
        """Every option of the method, as given or by default."""
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
        """What it holds if it runs with these options."""
        return cls.footprint

    @classmethod
    def by_default(cls, problem: AnyProblem) -> "Method[AnyProblem, AnyState]":
        """The method as `auto` runs it."""
        return cls(problem, cls.checked_options(None))

    @classmethod
    def described(cls) -> dict[str, Any]:
        return {
            "tasks": list(cls.tasks),
            "losses": list(cls.losses),
            "biases": list(cls.biases),
            "options": {option.name: option.described() for option in cls.options},
            "exact": cls.exact,
            "paper": cls.paper,
            "notes": cls.notes,
        }

    def earlier(self, start: Start) -> AnyState | None:
        """The state of this method that `start` holds, if any. It may be of another problem: check before using it."""
        return None if start.state is None else self.state_type.restored(start.state, self.name)

    @abstractmethod
    def init(self, seed: int, start: Start) -> AnyState:
        """The state before the first step."""

    @abstractmethod
    def step(self, state: AnyState, target: float) -> Progress:
        """Change the state by a bounded amount of work; `target` is the relative gap worth reporting."""

    @abstractmethod
    def extract(self, state: AnyState) -> Point:
        """The answer as it stands, as copies."""
