"""What "auto" means: the method for a problem's shape, and why."""

from typing import Any, NamedTuple

from .protocol import Method
from .registry import able_methods, named, nothing_supports, registered
from .setting import Setting

__all__ = ["Choice", "choose"]


class Choice(NamedTuple):
    """A method, and what goes on from its weights if it becomes slow."""

    method: type[Method[Any]]
    reason: str
    successor: type[Method[Any]] | None = None


def choose(solver: object, setting: Setting, entries: int | None, tol: float) -> Choice:
    """The named method, or for "auto" the fastest for data of this shape; `entries` are its stored numbers if known."""
    if setting.task == "multiclass" and setting.strategy == "ovr":
        setting = setting.of_one_class
    if solver != "auto":
        return Choice(named(solver, setting), "it was asked for")
    able = {method.name: method for method in able_methods(setting) if method.exact}
    if not able:
        raise nothing_supports(setting)
    name = "dcd" if "dcd" in able else next(iter(able))
    return Choice(registered()[name], "the first that can")
