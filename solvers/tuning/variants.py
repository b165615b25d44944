"""The variants of a search: combinations of the problem's parameters, each tried at every C."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, cast

from solvers.engine.run import plan_run
from solvers.errors import InvalidProblem, SolverError
from solvers.problem.labels import Labels
from solvers.problem.spec import PARAMETERS, Parameters
from solvers.tuning.path import Training, unread_shape

__all__ = ["read_variants", "trainings_of"]

LISTED = ("loss", "p", "class_weight")
"""Parameters that `tune` also accepts as lists. Each combination of their values is a variant."""
SHARED = ("task", "C")
"""Parameters that all variants share."""
MOST_VARIANTS = 100
"""Maximum number of variants. Larger: a mistaken list can start a longer search. Set by hand; no measurement is
recorded."""


def read_variants(variants: Sequence[Mapping[str, Any]] | None, problem: Mapping[str, Any]) -> list[Parameters]:
    """Return the parameters of each variant: those of `problem`, changed by one of `variants` and one combination of
    the lists."""
    if unknown := problem.keys() - PARAMETERS.keys():
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}; a problem has {', '.join(PARAMETERS)}")
    given = [{}] if variants is None else list(_checked(variants))
    listed = {name: problem[name] for name in LISTED if isinstance(problem.get(name), list | tuple)}
    for name, values in listed.items():
        if not values:
            raise InvalidProblem(name, "is an empty list; give at least one value")
    crossed = [dict(zip(listed, one, strict=True)) for one in product(*listed.values())]
    if len(given) * len(crossed) > MOST_VARIANTS:
        argument = "variants" if variants is not None else next(iter(listed))
        raise InvalidProblem(
            argument, f"makes {len(given) * len(crossed)} combinations; at most {MOST_VARIANTS} are allowed"
        )
    return [cast(Parameters, {**problem, **one, **changed}) for changed in given for one in crossed]


def trainings_of(definitions: Sequence[Parameters], labels: Labels, **settings: Any) -> list[Training]:
    """Return the training settings of each variant. Raises the error of the first variant that is not valid."""
    found = []
    for number, definition in enumerate(definitions):
        training = Training(definition, variant=number, **settings)
        try:
            plan_run(
                {**definition, "C": 1.0},
                shape=unread_shape(labels),
                size=None,
                tol=1e-3,
                max_seconds=None,
                max_passes=None,
                **settings,
            )
        except SolverError as error:
            if len(definitions) > 1:
                message = f"{error.message} (variant {number} of {len(definitions)}, counted from 0)"
                raise type(error)(error.argument, message) from None
            raise
        found.append(training)
    return found


def _checked(variants: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    if isinstance(variants, Mapping | str) or not isinstance(variants, Sequence):
        raise InvalidProblem("variants", "must be a list of tables of parameters")
    if not variants:
        raise InvalidProblem("variants", "is empty; give at least one table of parameters, or leave it out")
    allowed = [name for name in PARAMETERS if name not in SHARED]
    for number, one in enumerate(variants):
        if not isinstance(one, Mapping):
            raise InvalidProblem("variants", f"number {number} (counted from 0) is not a table of parameters")
        if wrong := [name for name in one if name not in allowed]:
            raise InvalidProblem(
                "variants",
                f"number {number} (counted from 0) has {str(wrong[0])[:60]!r}; a variant has {', '.join(allowed)}",
            )
        yield dict(one)
