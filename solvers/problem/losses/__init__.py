"""The losses, found by name: every `Loss` with a name in the modules of this folder.

A new loss is one new file here.
"""

import importlib
import pkgutil
from functools import cache
from types import MappingProxyType

from solvers.problem.losses.loss import Loss

__all__ = ["losses_of", "registered"]


@cache
def registered() -> MappingProxyType[str, type[Loss]]:
    """Return all losses by name; for each task, the loss that `auto` means comes first."""
    found: list[type[Loss]] = []
    for module_info in pkgutil.iter_modules(__path__, f"{__name__}."):
        module = importlib.import_module(module_info.name)
        for member in vars(module).values():
            is_own = isinstance(member, type) and issubclass(member, Loss) and member.__module__ == module.__name__
            if is_own and "name" in vars(member):
                found.append(member)
    return MappingProxyType({loss.name: loss for loss in sorted(found, key=lambda loss: (loss.rank, loss.name))})


def losses_of(task: str) -> tuple[str, ...]:
    """Return the names of the losses of a task, the default first."""
    return tuple(name for name, loss in registered().items() if task in loss.tasks)
