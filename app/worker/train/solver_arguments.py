"""Arguments for `solvers` that define the problem of a training job."""

from typing import Any

import numpy as np

from app.datasets.arrays import DatasetArrays
from app.worker.train.load import Work


def definition(work: Work, rows: DatasetArrays, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `solvers.certify` for these rows. `chosen`: the values that "auto" resolved to."""
    decided = {name: chosen[name] for name in ("task", "strategy", "loss") if chosen[name] is not None}
    return {
        **work.request.problem(),
        **decided,
        "sample_weight": rows.weight,
        "class_weight": class_weight_of(work.request.class_weight, rows),
        "groups": rows.group if work.task == "ordinal" else None,
    }


def training_arguments(work: Work, rows: DatasetArrays) -> dict[str, Any]:
    """Return the arguments of `solvers.train` for these rows, without time limit, threads and callback."""
    request = work.request
    return {
        **request.solver_arguments(),
        "task": work.task,
        "sample_weight": rows.weight,
        "class_weight": class_weight_of(request.class_weight, rows),
        "groups": rows.group if work.task == "ordinal" else None,
    }


def class_weight_of(wanted: Any, rows: DatasetArrays) -> Any:
    """Replace the keys of class weights: the request names a class by its label, the solver by its value in y."""
    if not isinstance(wanted, dict):
        return wanted
    values = {str(rows.label(value)): value for value in np.unique(rows.y).tolist()}
    return {values[name]: weight for name, weight in wanted.items() if name in values}
