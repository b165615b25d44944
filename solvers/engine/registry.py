"""Finds the methods: every `Method` with a name in the modules below `solvers/methods/`.

A new method is one new file there. A family of methods shares a folder. Base classes have no name and are not
registered.
"""

import importlib
import pkgutil
from dataclasses import replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

from solvers import methods
from solvers.errors import UnknownSolver, UnsupportedProblem
from solvers.method import AnyMethod, Method
from solvers.problem.losses import losses_of
from solvers.problem.spec import BIASES, JOINT_LOGISTIC, ProblemSpec

__all__ = ["able_methods", "named", "nothing_supports", "registered", "with_implied_strategy"]


@cache
def registered() -> MappingProxyType[str, type[AnyMethod]]:
    """Return all methods by name."""
    found: dict[str, type[AnyMethod]] = {}
    for module_info in pkgutil.walk_packages(methods.__path__, f"{methods.__name__}."):
        module = importlib.import_module(module_info.name)
        for member in vars(module).values():
            is_own = isinstance(member, type) and issubclass(member, Method) and member.__module__ == module.__name__
            if is_own and "name" in vars(member):
                found[member.name] = member
    return MappingProxyType(dict(sorted(found.items())))


def with_implied_strategy(solver: object, spec: ProblemSpec) -> ProblemSpec:
    """Return the spec with the strategy of the named method, if that method trains several classes only jointly."""
    named = registered().get(solver) if isinstance(solver, str) else None
    if spec.task == "multiclass" and named is not None and "binary" not in named.tasks:
        return replace(spec, strategy=JOINT_LOGISTIC if spec.loss == "logistic" else "crammer_singer")
    return spec


def named(solver: object, spec: ProblemSpec) -> type[AnyMethod]:
    """Return the method of this name if it supports the spec; raise UnknownSolver or UnsupportedProblem otherwise."""
    by_name = registered()
    if not isinstance(solver, str) or solver not in by_name:
        raise UnknownSolver("solver", f"there is no solver {solver!r:.60}; choose auto or one of {', '.join(by_name)}")
    missing = by_name[solver].missing(spec)
    if missing is not None:
        able = [method.name for method in able_methods(spec)]
        hint = f"; solver {' or '.join(able)} can" if able else ""
        raise type(missing)(missing.argument, f"{missing.message}{hint}")
    return by_name[solver]


def able_methods(spec: ProblemSpec) -> list[type[AnyMethod]]:
    """Return the methods that support the spec, in order of their names."""
    return list(_able_at_any_cost(replace(spec, C=1.0), tuple(registered().values())))


@lru_cache(maxsize=64)
def _able_at_any_cost(spec: ProblemSpec, methods: tuple[type[AnyMethod], ...]) -> tuple[type[AnyMethod], ...]:
    """Return the methods that support the spec, which do not depend on C: a path asks once for all its values."""
    return tuple(method for method in methods if method.supports(spec))


def nothing_supports(spec: ProblemSpec) -> UnsupportedProblem:
    """Return the error for a spec that no method supports. It names the argument to change and the values that work."""
    for argument, attribute in (("loss", "losses"), ("bias", "biases"), ("task", "tasks")):
        wanted = getattr(spec, argument)
        offered = {choice for method in registered().values() for choice in getattr(method, attribute)}
        if wanted not in offered:
            return UnsupportedProblem(argument, f"no solver can do {wanted} yet; use {' or '.join(sorted(offered))}")
    how = f" with strategy {spec.strategy}" if spec.task == "multiclass" else ""
    for argument, choices in (("bias", BIASES), ("loss", losses_of(spec.task))):
        changes: list[dict[str, Any]] = [{argument: choice} for choice in choices]
        able = [str(change[argument]) for change in changes if able_methods(replace(spec, **change))]
        if able:
            wanted = f"task {spec.task}{how}, loss {spec.loss} and bias {spec.bias}"
            if able_methods(replace(spec, n_features=1)):
                wanted += f" on {spec.n_features:,} features"  # some methods support fewer features
            return UnsupportedProblem(argument, f"no solver can do {wanted} yet; use {' or '.join(able)}")
    return UnsupportedProblem("solver", f"no solver can do loss {spec.loss} with bias {spec.bias} on this data yet")
