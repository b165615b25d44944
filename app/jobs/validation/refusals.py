"""Error messages about jobs that the API and the worker share."""

import re

import solvers
from app.datasets.schemas import Label

CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")
"""Start of a word in a class name: `InvalidOptions` has the code `invalid_options`."""

# Fields of the request for arguments of the solvers with other names. Errors in the data refer to the dataset.
FIELD_OF_ARGUMENT = {
    "options": "solver_options",
    "max_seconds": "stop.seconds",
    "max_passes": "stop.passes",
    **dict.fromkeys(("X", "y", "sample_weight", "groups"), "dataset_id"),
}
PART_OF_DATASET = {
    "X": "its table ",
    "y": "its target ",
    "sample_weight": "its weight column ",
    "groups": "its groups ",
}


def solver_refusal(error: solvers.SolverError) -> tuple[str, str, str]:
    """Translate an error of a solver: (field of the request, error code, detail)."""
    code = CAPITAL.sub(r"_\1", type(error).__name__).lower()
    argument, dot, option = error.argument.partition(".")
    field = FIELD_OF_ARGUMENT.get(argument, argument) + dot + option
    return field, code, PART_OF_DATASET.get(argument, "") + error.message


def class_misses_folds(label: Label, count: int, folds: int) -> str:
    remedy = f"use at most {count} folds" if count > 1 else "remove its row, or add more rows of the class"
    return f"class {label!r:.60} has {count} rows, too few for {folds} folds; {remedy}"
