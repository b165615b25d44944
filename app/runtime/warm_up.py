"""Compiles all numba kernels before they are used. `make kernels` and the container build run this module."""

import importlib
import pkgutil

import app
import solvers

RUN_ON_IMPORT = ("preload", "__main__")
"""Endings of the names of modules that do work on import and must therefore not be imported here."""


def warm_all() -> None:
    """Compile the kernels of the solvers, and of every module of the app with a function `warm`, into numba's cache on
    disk."""
    solvers.warm_up()
    for module_info in pkgutil.walk_packages(app.__path__, f"{app.__name__}."):
        if not module_info.name.endswith(RUN_ON_IMPORT):
            warm = getattr(importlib.import_module(module_info.name), "warm", None)
            if callable(warm):
                warm()


if __name__ == "__main__":
    warm_all()
