"""Finds the methods: every class in `solvers/methods/*.py` that is a `Method`, by its name."""

import importlib
import pkgutil
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

from . import methods
from .errors import UnknownSolver, UnsupportedProblem
from .protocol import Method
from .setting import BIASES, LOSSES_OF_TASK, Setting

__all__ = ["able_methods", "named", "nothing_supports", "registered", "with_implied_strategy"]


@cache
def registered() -> MappingProxyType[str, type[Method[Any]]]:
    """All methods by name."""
    found: dict[str, type[Method[Any]]] = {}
    for module_info in pkgutil.iter_modules(methods.__path__):
        module = importlib.import_module(f"{methods.__name__}.{module_info.name}")
        for member in vars(module).values():
            if isinstance(member, type) and issubclass(member, Method) and member.__module__ == module.__name__:
                found[member.name] = member
    return MappingProxyType(dict(sorted(found.items())))


def with_implied_strategy(solver: object, setting: Setting) -> Setting:
    """Naming a method that trains all classes jointly and no other way is choosing to do so."""
    named = registered().get(solver) if isinstance(solver, str) else None
    if setting.task == "multiclass" and named is not None and "binary" not in named.tasks:
        return replace(setting, strategy="crammer_singer")
    return setting


def named(solver: object, setting: Setting) -> type[Method[Any]]:
    """The method of this name, if it supports the setting."""
    by_name = registered()
    if not isinstance(solver, str) or solver not in by_name:
        raise UnknownSolver("solver", f"there is no solver {solver!r:.60}; choose auto or one of {', '.join(by_name)}")
    missing = by_name[solver].missing(setting)
    if missing is not None:
        able = [method.name for method in able_methods(setting)]
        hint = f"; solver {' or '.join(able)} can" if able else ""
        raise type(missing)(missing.argument, f"{missing.message}{hint}")
    return by_name[solver]


def able_methods(setting: Setting) -> list[type[Method[Any]]]:
    """All that support the setting, by name."""
    return [method for method in registered().values() if method.supports(setting)]


def nothing_supports(setting: Setting) -> UnsupportedProblem:
    """Names the one choice to change if there is one, and what can be had instead."""
    for argument, attribute in (("loss", "losses"), ("bias", "biases"), ("task", "tasks")):
        wanted = getattr(setting, argument)
        offered = {choice for method in registered().values() for choice in getattr(method, attribute)}
        if wanted not in offered:
            return UnsupportedProblem(argument, f"no solver can do {wanted} yet; use {' or '.join(sorted(offered))}")
    how = f" with strategy {setting.strategy}" if setting.task == "multiclass" else ""
    for argument, choices in (("bias", BIASES), ("loss", LOSSES_OF_TASK[setting.task])):
        changes: list[dict[str, Any]] = [{argument: choice} for choice in choices]
        able = [str(change[argument]) for change in changes if able_methods(replace(setting, **change))]
        if able:
            wanted = f"task {setting.task}{how}, loss {setting.loss} and bias {setting.bias}"
            if able_methods(replace(setting, n_features=1)):
                wanted += f" on {setting.n_features:,} features"  # there are some for fewer
            return UnsupportedProblem(argument, f"no solver can do {wanted} yet; use {' or '.join(able)}")
    return UnsupportedProblem(
        "solver", f"no solver can do loss {setting.loss} with bias {setting.bias} on this data yet"
    )
