"""What makes a job impossible, in words for the client, whether it is found at once or by the worker."""

import re

import solvers
from app.datasets.schemas import Label

CAPITAL = re.compile(r"(?<=[a-z])([A-Z])")
"""Where a word begins in the name of a class: `InvalidOptions` has the code `invalid_options`."""

# Where the solvers' names of arguments differ from the request's; what is wrong with the data is said of the dataset.
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
    """The field of the request that a solver finds at fault, the code of the refusal, and what is wrong."""
    code = CAPITAL.sub(r"_\1", type(error).__name__).lower()
    argument, dot, option = error.argument.partition(".")
    field = FIELD_OF_ARGUMENT.get(argument, argument) + dot + option
    return field, code, PART_OF_DATASET.get(argument, "") + error.message


def class_misses_folds(label: Label, count: int, folds: int) -> str:
    remedy = f"use at most {count} folds" if count > 1 else "leave its row out or add more of them"
    return f"class {label!r:.60} has too few rows for {folds} folds: {count}; {remedy}"
