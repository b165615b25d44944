"""Compile all numba kernels ahead of use. `make kernels` and the container build run this module."""

import importlib
import pkgutil

import app
import solvers

RUN_ON_IMPORT = ("preload", "__main__")
"""Name endings of modules that do work when they are imported, and are therefore skipped."""


def warm_all() -> None:
    """Compile into numba's cache on disk: the solvers, and every module of the app with a function `warm`."""
    solvers.warm_up()
    for module_info in pkgutil.walk_packages(app.__path__, f"{app.__name__}."):
        if not module_info.name.endswith(RUN_ON_IMPORT):
            warm = getattr(importlib.import_module(module_info.name), "warm", None)
            if callable(warm):
                warm()


if __name__ == "__main__":
    warm_all()
