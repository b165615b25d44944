"""Finds what the modules of a package declare: the registries of dataset formats, exports and job types use it."""

import pkgutil
from importlib import import_module
from types import ModuleType
from typing import Protocol, TypeVar


class Named(Protocol):
    @property
    def name(self) -> str: ...


Declaration = TypeVar("Declaration", bound=Named)


def declared(package: ModuleType, kind: type[Declaration]) -> dict[str, Declaration]:
    """Import every module of a package and collect the instances of `kind` at their top level, sorted by name."""
    found: dict[str, Declaration] = {}
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for member in vars(import_module(module.name)).values():
            if isinstance(member, kind) and found.setdefault(member.name, member) is not member:
                raise ValueError(f"{module.name} declares {member.name!r}, which another module declares already")
    return dict(sorted(found.items()))
