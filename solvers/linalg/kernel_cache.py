"""Compiles kernels ahead of use, and keeps numba's on-disk cache true: it recovers from damaged files and stale ones.

A killed process or a full disk can leave a truncated cache file. numba then raises in the first call of that kernel, in
every process, until the file is deleted.

A cached kernel contains the kernels and constants of other files that it uses, but numba only checks whether its own
file has changed. Without `forget_stale`, kernels that call changed ones would stay as they were.
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
    """Delete the cached kernels of each source in the package that changed since the last call or imports one that did.

    Imports count through other sources, too: numba compiles all of them into the caller.
    """
    noted = package / "__pycache__" / "kernels.sources"
    with contextlib.suppress(OSError):  # where nothing can be written nothing was cached beside the sources
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
    """What was noted last time; nothing if there is no such file or it is damaged."""
    try:
        stamps = json.loads(noted.read_text())
    except (OSError, ValueError):
        return {}
    return stamps if isinstance(stamps, dict) else {}


def _with_importers(package: Path, changed: set[Path]) -> set[Path]:
    """The changed sources and every source that imports one of them, directly or through others."""
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
    """The module's name below the package; the package's own name for its `__init__`."""
    parts = source.relative_to(package).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or package.name


def _imported_names(source: Path) -> set[str]:
    """All modules that the source may import: `from a.b import c` names `a.b` and `a.b.c`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


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
