"""What makes a job impossible, in words for the client, whether it is found at once or by the worker."""

import solvers
from app.datasets.schemas import Label

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


def solver_refusal(error: solvers.SolverError) -> tuple[str, str]:
    """The field of the request that a solver finds at fault, and what is wrong with it."""
    argument, dot, option = error.argument.partition(".")
    field = FIELD_OF_ARGUMENT.get(argument, argument) + dot + option
    return field, PART_OF_DATASET.get(argument, "") + error.message


def class_misses_folds(label: Label, count: int, folds: int) -> str:
    remedy = f"use at most {count} folds" if count > 1 else "leave its row out or add more of them"
    return f"class {label!r:.60} has too few rows for {folds} folds: {count}; {remedy}"
