"""Compiles kernels ahead of use, and keeps numba's on-disk cache true: it recovers from damaged files and stale ones.

A process that is killed, or a disk that fills up, can leave a truncated cache file behind; numba then
raises from inside the first call of that kernel, in every process, until someone deletes the file.

A kernel is cached with the kernels and constants of other files compiled into it, but numba looks only whether its own
file has changed: after an update, kernels that call changed ones would go on as before.
"""

import contextlib
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from numba.core.dispatcher import Dispatcher

__all__ = ["cache_files", "forget_stale", "kernels_of", "remove_damaged", "warm"]


def forget_stale(package: Path) -> None:
    """If any source of the package has changed since this was last called, delete all kernels cached beside them."""
    noted = package / "__pycache__" / "kernels.sources"
    with contextlib.suppress(OSError):  # where nothing can be written nothing was cached beside the sources
        stats = [(source, source.stat()) for source in sorted(package.rglob("*.py"))]
        now = "\n".join(f"{source.relative_to(package)} {stat.st_mtime_ns} {stat.st_size}" for source, stat in stats)
        if noted.exists() and noted.read_text() == now:
            return
        for cached in package.rglob("*.nb[ic]"):
            cached.unlink(missing_ok=True)
        noted.parent.mkdir(exist_ok=True)
        noted.write_text(now)


def kernels_of(module: ModuleType) -> list[Any]:
    """Every compiled function that a module defines or imports."""
    return [member for member in vars(module).values() if isinstance(member, Dispatcher)]


def warm(kernels: Iterable[Any], call: Callable[[], object]) -> None:
    """Run `call`, which uses the kernels; if damaged cache files break it, delete those and run it again."""
    try:
        call()
    except Exception:
        if not remove_damaged(kernels):
            raise
        call()


def remove_damaged(kernels: Iterable[Any]) -> bool:
    """Delete the cache of kernels that cannot be loaded, so that they are compiled again; whether there were any."""
    damaged = [kernel for kernel in kernels if _is_damaged(kernel)]
    for kernel in damaged:
        for file in cache_files(kernel):
            file.unlink(missing_ok=True)
    return bool(damaged)


def cache_files(kernel: Any) -> list[Path]:
    """The files in which numba keeps compiled versions of one kernel."""
    function = kernel.py_func
    source = Path(function.__code__.co_filename).stem
    prefix = f"{source}.{function.__qualname__}-{function.__code__.co_firstlineno}."
    folder = Path(kernel.stats.cache_path)
    if not folder.is_dir():
        return []
    return sorted(file for file in folder.iterdir() if file.name.startswith(prefix))


def _is_damaged(kernel: Any) -> bool:
    return any(not _is_readable(file) for file in cache_files(kernel))


def _is_readable(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            pickle.load(stream)
            if file.suffix == ".nbi":  # the version, then the index itself
                pickle.load(stream)
    except Exception:
        # Unpickling broken bytes can raise anything at all; each means the same here.
        return False
    return True
