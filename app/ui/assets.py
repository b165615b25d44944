"""The dashboard's files as they are sent: compressed, named by their content, the modules joined into one.

The dashboard has about forty modules, which would be forty requests on a first visit. They are joined on the first
request. A browser can also load the source modules directly. The code here supports only the forms of `import` and
`export` that the modules use. Any other form raises an error, which a test detects.
"""

import gzip
import hashlib
import mimetypes
import re
import time
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

__all__ = ["ENTRY", "LIBRARY", "STATIC", "Asset", "bundle", "file", "page", "sample", "version"]

STATIC = Path(str(files("app.ui") / "static"))
SAMPLE = Path(str(files("app") / "examples" / "ionosphere.csv"))
PAGE = "index.html"
ENTRY, LIBRARY, JOINED = "app.js", "html.js", "all.js"
"""The module that the page loads, the module that imports the vendored library, and the file name of the joined
modules."""
FOLDER = "assets/"
"""Path prefix of files in the page's source. The server replaces it by a prefix with the version, so that browsers can
cache the files."""
LOOK_SECONDS = 1.0
"""Seconds between two checks for changed files. Larger: an edited file appears later. A check takes about 1 ms."""
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}

IMPORT = re.compile(r"^import \{([^}]*)\} from '(\.[^']+)';\n", re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function|const|class) (\w+)", re.MULTILINE)
LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class Asset(NamedTuple):
    """One file as it is sent."""

    content: bytes
    compressed: bytes
    media_type: str
    etag: str


def version() -> str:
    """Return a hash of the content of all files."""
    return _version(_newest_change())


def page() -> Asset:
    """Return the page with the version in its links, and with all modules as one file."""
    return _page(_newest_change())


def file(name: str) -> Asset | None:
    """Return one of the files, the joined modules for JOINED, or None if there is no such file."""
    changed = _newest_change()
    if name == JOINED:
        return _joined(changed)
    return _asset(STATIC / name, (STATIC / name).stat().st_mtime_ns) if name in _names(changed) else None


def sample() -> Asset:
    """Return the example dataset of the first steps."""
    return _asset(SAMPLE, SAMPLE.stat().st_mtime_ns)


def bundle(folder: Path, entry: str, kept: str) -> str:
    """Return the module `entry` joined with the modules that it imports. The module `kept` is not joined and stays an
    import."""
    order: dict[str, str] = {}
    _visit(folder, entry, kept, order, ())
    name = _variable(kept)
    return "\n".join([f"import * as {name} from './{kept}';", *order.values()])


def _visit(folder: Path, module: str, kept: str, order: dict[str, str], path: tuple[str, ...]) -> None:
    """Append a module after those that it imports."""
    if module in path:
        raise ValueError(f"{' imports '.join((*path, module))}: modules that import each other cannot be joined")
    if module in order or module == kept:
        return
    source = (folder / module).read_text()
    for _, target in IMPORT.findall(source):
        _visit(folder, _resolved(folder, module, target), kept, order, (*path, module))

    def as_constant(found: re.Match[str]) -> str:
        names = found[1].replace(" as ", ": ")
        return f"const {{{names}}} = {_variable(_resolved(folder, module, found[2]))};\n"

    body = EXPORT.sub(r"\1 \2", IMPORT.sub(as_constant, source))
    if left := LEFT_OVER.search(body):
        raise ValueError(f"{module}: cannot join `{left[0]}`; write a named import or export")
    names = ", ".join(name for _, name in EXPORT.findall(source))
    order[module] = f"const {_variable(module)} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();"


def _resolved(folder: Path, module: str, target: str) -> str:
    return (folder / module).parent.joinpath(target).resolve().relative_to(folder.resolve()).as_posix()


def _variable(module: str) -> str:
    return "$" + re.sub(r"\W", "_", module.removesuffix(".js"))


def _newest_change() -> int:
    """Return the time of the last change of any file of the dashboard. A newer time invalidates the cached files."""
    return _change_seen_at(int(time.monotonic() / LOOK_SECONDS))


@lru_cache(maxsize=1)
def _change_seen_at(_period: int) -> int:
    return max(path.stat().st_mtime_ns for path in STATIC.rglob("*"))


@lru_cache(maxsize=1)
def _names(_changed: int) -> frozenset[str]:
    return frozenset(path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file())


@lru_cache(maxsize=1)
def _version(changed: int) -> str:
    digest = hashlib.sha256()
    for name in sorted(_names(changed)):
        digest.update(name.encode() + b"\0" + (STATIC / name).read_bytes())
    return digest.hexdigest()[:12]


@lru_cache(maxsize=1)
def _page(changed: int) -> Asset:
    source = (STATIC / PAGE).read_text().replace(f'"{FOLDER}{ENTRY}"', f'"{FOLDER}{JOINED}"')
    return _made(source.replace(f'"{FOLDER}', f'"{_version(changed)}/').encode(), "text/html")


@lru_cache(maxsize=1)
def _joined(_changed: int) -> Asset:
    return _made(bundle(STATIC, ENTRY, LIBRARY).encode(), "text/javascript")


@lru_cache(maxsize=256)
def _asset(path: Path, _changed: int) -> Asset:
    media_type = MEDIA_TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "text/plain"
    return _made(path.read_bytes(), media_type)


def _made(content: bytes, media_type: str) -> Asset:
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Asset(content, gzip.compress(content, 9, mtime=0), media_type, etag)
