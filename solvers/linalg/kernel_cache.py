"""Compiles kernels ahead of use, and removes damaged and outdated files from numba's cache on disk.

A killed process or a full disk can leave a truncated cache file. Numba then raises an exception at the first call of
that kernel, in every process, until the file is deleted.

A cached kernel includes the compiled code of the kernels that it calls and the constants of other files. Numba only
checks whether the kernel's own file has changed. `forget_stale` deletes the cached callers of changed kernels.
"""

import ast
import contextlib
import json
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from numba.core.dispatcher import Dispatcher

__all__ = ["cache_files", "forget_stale", "kernels_of", "remove_damaged", "warm"]


def forget_stale(package: Path) -> None:
    """Delete the cached kernels of each changed source in the package, and of the sources that import one.

    A source has changed if it differs from the last call of this function. Indirect imports count, because numba
    compiles callees into the caller.
    """
    noted = package / "__pycache__" / "kernels.sources"
    with contextlib.suppress(OSError):  # in a read-only folder numba has cached nothing either
        now = {str(source.relative_to(package)): _stamp(source) for source in package.rglob("*.py")}
        before = _read_stamps(noted)
        if before == now:
            return
        changed = {package / source for source, stamp in now.items() if before.get(source) != stamp}
        for source in _with_importers(package, changed):
            for cached in (source.parent / "__pycache__").glob(f"{source.stem}.*.nb[ic]"):
                cached.unlink(missing_ok=True)
        noted.parent.mkdir(exist_ok=True)
        noted.write_text(json.dumps(now))


def _stamp(source: Path) -> str:
    stat = source.stat()
    return f"{stat.st_mtime_ns} {stat.st_size}"


def _read_stamps(noted: Path) -> dict[str, str]:
    """Return the stamps of the last call; none if the file is missing or damaged."""
    try:
        stamps = json.loads(noted.read_text())
    except (OSError, ValueError):
        return {}
    return stamps if isinstance(stamps, dict) else {}


def _with_importers(package: Path, changed: set[Path]) -> set[Path]:
    """Return the changed sources and every source that imports one of them, directly or indirectly."""
    imports = {source: _imported_names(source) for source in package.rglob("*.py")}
    stale, found = set(changed), set(changed)
    while found:
        names = [_dotted(package, source) for source in found]
        found = {
            source
            for source, imported in imports.items()
            if source not in stale and any(f".{name}".endswith(tuple(f".{n}" for n in names)) for name in imported)
        }
        stale |= found
    return stale


def _dotted(package: Path, source: Path) -> str:
    """Return the dotted name of the module that the file defines; for an `__init__.py`, the name of its package."""
    parts = source.relative_to(package).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or package.name


def _imported_names(source: Path) -> set[str]:
    """Return all modules that the source can import: `from a.b import c` names `a.b` and `a.b.c`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def kernels_of(module: ModuleType) -> list[Any]:
    """Return every compiled function that a module defines or imports."""
    return [member for member in vars(module).values() if isinstance(member, Dispatcher)]


def warm(kernels: Iterable[Any], call: Callable[[], object]) -> None:
    """Run `call`, which uses the kernels. If damaged cache files make it fail, delete them and run it again."""
    try:
        call()
    except Exception:
        if not remove_damaged(kernels):
            raise
        call()


def remove_damaged(kernels: Iterable[Any]) -> bool:
    """Delete the cache of kernels that cannot be loaded, so that they compile again; return whether there were any."""
    damaged = [kernel for kernel in kernels if _is_damaged(kernel)]
    for kernel in damaged:
        for file in cache_files(kernel):
            file.unlink(missing_ok=True)
    return bool(damaged)


def cache_files(kernel: Any) -> list[Path]:
    """Return the files in which numba keeps the compiled versions of a kernel."""
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
        # Unpickling damaged bytes can raise any exception; each means that the file is damaged.
        return False
    return True
