"""The rows and the problem of a search's folds, in the form that `solvers.tune` takes."""

import math
from dataclasses import replace
from typing import Any

from app.jobs.schemas import TrainingSpec
from app.tabular.types import Array
from app.worker.train.load import Work
from app.worker.train.prepare import prepare
from app.worker.train.solver_arguments import class_weight_of


def problem_of(work: Work, spec: TrainingSpec) -> dict[str, Any]:
    """Return the parameters of the problem without its task and C."""
    problem = {name: value for name, value in spec.problem().items() if name not in ("C", "task")}
    return {**problem, "class_weight": class_weight_of(spec.class_weight, work.train)}


def prepared_rows(work: Work, spec: TrainingSpec, training: Array, held_out: Array) -> tuple[Any, Any]:
    """Fit the preprocessing on the training rows of a fold, and apply it to both parts."""
    rows = work.train
    fold = prepare(replace(work, request=spec, train=rows.rows(training), test=rows.rows(held_out)))
    assert fold.test is not None
    return fold.train.X, fold.test.X


def finite(value: Any) -> Any:
    """Return a value that JSON can hold: None for a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
