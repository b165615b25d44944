"""Trainings of one fold along C. Each starts from its neighbours' weights and becomes a record that can be stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from solvers.data.rows import Rows
from solvers.engine.driver import Callback
from solvers.engine.registry import with_implied_strategy
from solvers.engine.run import plan_run, problems_of, run_planned, shape_of, size_of
from solvers.errors import InvalidOptions
from solvers.linalg.types import Array, Floats
from solvers.method import Point
from solvers.problem.labels import Labels
from solvers.problem.problems import Problem
from solvers.problem.spec import Parameters, ProblemSpec, check_class_weight, resolve_spec
from solvers.result import LinearModel, SolveResult
from solvers.state import State
from solvers.tuning.bounds import Ends, HeldOut, ends_of, no_ends
from solvers.tuning.folds import Fold

__all__ = ["FoldPath", "FoldSolve", "Subject", "Training"]


@dataclass(frozen=True, eq=False)
class Training:
    """The settings of every training of a search."""

    problem: Parameters
    solver: str
    seed: int
    threads: int | None
    options: Mapping[str, Any] | None

    def run(
        self,
        subject: "Subject",
        C: float,
        tol: float,
        *,
        start: Any = None,
        max_seconds: float | None = None,
        callback: Callback | None = None,
    ) -> SolveResult:
        """Train on these rows at this C, from the weights `start` if there are any."""
        plan = plan_run(
            {**self.problem, "C": C},
            shape=shape_of(subject.data, subject.labels),
            size=size_of(subject.data),
            solver=self.solver,
            tol=tol,
            max_seconds=max_seconds,
            max_passes=None,
            seed=self.seed,
            threads=self.threads,
            options=self.options,
            has_weights=start is not None,
        )
        weight = subject.sample_weight
        return run_planned(
            plan, subject.data, subject.labels, sample_weight=weight, warm_start=start, callback=callback
        )

    def pairs(self, subject: "Subject", C: float, result: SolveResult) -> tuple[list[Problem], list[Point]]:
        """Return the problem of a training, or that of each class, and its weights with the stored dual point."""
        problems = problems_of(
            replace(self.spec(subject), C=C),
            subject.data,
            subject.labels,
            sample_weight=subject.sample_weight,
            class_weight=check_class_weight(self.problem.get("class_weight")),
        )
        if len(problems) == 1:
            return problems, [Point(result.coef, result.intercept, result.bounding[0].alpha)]
        intercepts = np.asarray(result.intercept)
        return problems, [
            Point(result.coef[k], float(intercepts[k]), one.alpha) for k, one in enumerate(result.bounding)
        ]

    def spec(self, subject: "Subject") -> ProblemSpec:
        """Return the definition of the problem on these rows, without its C."""
        problem: Parameters = {**self.problem, "C": 1.0}
        return with_implied_strategy(self.solver, resolve_spec(**shape_of(subject.data, subject.labels), **problem))


@dataclass(frozen=True, eq=False)
class Subject:
    """Rows to train on."""

    data: Rows
    labels: Labels
    sample_weight: Array | None

    def rows(self, numbers: Array) -> "Subject":
        """Return a copy of these rows."""
        labels, weight = self.labels, self.sample_weight
        codes = labels.codes[numbers] if labels.values is None else labels.codes
        values = None if labels.values is None else labels.values[numbers]
        chosen = Labels(labels.classes, codes, values)
        return Subject(self.data.taken(numbers), chosen, None if weight is None else weight[numbers])

    @property
    def truth(self) -> Array:
        """The index of each row's class, or its target."""
        return self.labels.codes if self.labels.values is None else self.labels.values

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.data.flat())


@dataclass(slots=True)
class FoldSolve(State):
    """One finished training of a fold: the part that the search needs later."""

    fold: int
    C: float
    tol: float  # relative gap that was asked for
    relative_gap: float  # that was proved; infinite: none
    seconds: float
    solver: str
    coef: Floats
    intercept: Floats
    scores: Floats  # of the held-out rows
    ends: Ends  # empty arrays if no bounds are wanted

    @property
    def has_ends(self) -> bool:
        return self.ends.gaps.size > 0

    @property
    def start(self) -> tuple[Floats, Floats]:
        """Weights to start another training from."""
        return self.coef, self.intercept

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Restore a training from its stored table; raise an error that names `resume_from` if it cannot be read."""
        try:
            return cls.restored(stored, "tune")
        except (InvalidOptions, TypeError) as error:
            raise InvalidOptions("resume_from", f"has a training that this version cannot read: {error}") from None


class FoldPath:
    """The trainings of one fold."""

    def __init__(self, training: Training, whole: Subject, fold: Fold, *, uses_differences: bool) -> None:
        self.fold = fold
        self.training = training
        self.subject = whole.rows(fold.training)
        self.spec = training.spec(self.subject)
        judged = whole.rows(fold.held_out)
        beta = self.spec.bias_scale if self.spec.bias == "regularized" else 0.0
        self.held_out = HeldOut.of(judged.data, judged.truth, beta, uses_differences=uses_differences)

    @property
    def nbytes(self) -> int:
        return self.subject.nbytes + sum(part.nbytes for part in self.held_out.rows.flat())

    def solve(
        self,
        C: float,
        tol: float,
        *,
        neighbours: Sequence[FoldSolve] = (),
        wanted: Floats | None = None,
        with_ends: bool = False,
        max_seconds: float | None = None,
        callback: Callback | None = None,
    ) -> FoldSolve:
        """Train at C, starting from its neighbours' weights. `wanted`: the largest gap of each part that bounds can
        use."""
        start = None if not neighbours else start_between(C, neighbours)
        result = self.training.run(self.subject, C, tol, start=start, max_seconds=max_seconds, callback=callback)
        gap = result.certificate.relative_gap
        return FoldSolve(
            fold=self.fold.number,
            C=C,
            tol=tol,
            relative_gap=np.inf if gap is None else gap,
            seconds=result.seconds,
            solver=result.solver,
            coef=result.coef,
            intercept=np.asarray(result.intercept, dtype=np.float64),
            scores=self._scores(result),
            ends=self._ends(result, C, wanted) if with_ends else no_ends(),
        )

    def _scores(self, model: LinearModel) -> Floats:
        rows = self.held_out.rows
        scores: Floats = np.empty((rows.n_rows, *model.coef.shape[:-1]))
        if model.coef.ndim == 2:
            weights = np.column_stack([model.coef, np.broadcast_to(model.intercept, model.coef.shape[:1])])
            rows.class_scores(weights, 1.0, scores)
        else:
            rows.margins(np.ascontiguousarray(model.coef), scores)
            scores += float(model.intercept)
        return scores

    def _ends(self, result: SolveResult, C: float, wanted: Floats | None) -> Ends:
        return ends_of(*self.training.pairs(self.subject, C, result), C, self.held_out, wanted)


def start_between(C: float, neighbours: Sequence[FoldSolve]) -> tuple[Floats, Floats]:
    """Return starting weights: those of one neighbour, or interpolated between two."""
    if len(neighbours) == 1:
        return neighbours[0].start
    a, b = neighbours
    t = float(np.clip((b.C - C) / (b.C - a.C), 0.0, 1.0)) if b.C != a.C else 0.5
    return t * a.coef + (1.0 - t) * b.coef, t * a.intercept + (1.0 - t) * b.intercept
