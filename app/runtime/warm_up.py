"""Compile all that is ever compiled, ahead of use: `make kernels` and the making of an image run this module."""

import importlib
import pkgutil

import app
import solvers

RUN_ON_IMPORT = ("preload", "__main__")
"""Endings of modules that work when they are imported: those of forkservers, and this one as a command."""


def warm_all() -> None:
    """Into numba's cache on disk: the solvers, and every module of the app that has a function `warm`."""
    solvers.warm_up()
    for module_info in pkgutil.walk_packages(app.__path__, f"{app.__name__}."):
        if not module_info.name.endswith(RUN_ON_IMPORT):
            warm = getattr(importlib.import_module(module_info.name), "warm", None)
            if callable(warm):
                warm()


if __name__ == "__main__":
    warm_all()
