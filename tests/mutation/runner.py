"""Runs the tests of one mutant after the other in forked processes, each slot in a temporary copy of the tree.

The parent has imported the libraries, which takes most of the time of a start, and nothing of the project: a fork
imports the project from its copy, with the mutated file in it.
"""

import importlib
import importlib.util
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.mutation import python_kernels
from tests.mutation.operators import Mutant

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("app", "solvers", "tests", "alembic", "pyproject.toml")
LIBRARIES = (
    "numpy", "scipy.sparse", "scipy.optimize", "scipy.special", "numba", "flint", "clarabel", "threadpoolctl",
    "pytest", "_pytest.assertion.rewrite", "hypothesis", "hypothesis.strategies",
    "pydantic", "sqlalchemy.orm", "pyarrow.parquet", "pyarrow.csv", "fastapi", "msgspec", "httpx",
)  # fmt: skip
SERVICE_LIBRARIES = (
    *LIBRARIES, "alembic.autogenerate", "alembic.command", "alembic.runtime.migration", "anyio._backends._asyncio",
    "fastapi_offline", "psycopg", "pydantic_settings", "sqlalchemy.dialects.sqlite.pysqlite", "starlette.staticfiles",
    "typer.testing", "uvicorn",
)  # fmt: skip
RAM_FOLDER = Path("/dev/shm")
"""Copies and the tests' temporary files are there if it exists: no fsync waits for a disk."""
TEMPORARY = "temporary"
PYTEST_OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
SOLVER_OPTIONS = ("--noconftest",)
SERVICE_OPTIONS = ("-k", "not postgresql", f"--basetemp={TEMPORARY}/pytest")
"""A folder of its own, which every run empties first; SQLite only, which needs no server."""
MEMORY_BYTES = 6 << 30
"""Address space of a run. A mutant that allocates without end is stopped by it before the machine is in trouble."""
LEAST_SECONDS = 15.0
"""Shortest time limit of a run. Larger: endless loops take longer to be noticed."""
TIMES_SLOWER = 4.0
"""A run is stopped when it takes this many times as long as the run without a mutant."""

FAILED, WRONG_TREE = 70, 71
"""Exit codes of a fork that could not run its tests, or ran them on another tree; 4 and 5 are pytest's for no tests."""
SURVIVED, KILLED, TIMED_OUT, CRASHED = "survived", "killed", "timed out", "crashed"


@dataclass(frozen=True)
class Outcome:
    mutant: Mutant | None
    verdict: str
    seconds: float
    output: str


Run = tuple[Mutant | None, Sequence[str], float]
"""A mutant, its tests and a time limit in seconds; no mutant: the source as it is."""


@dataclass
class _Slot:
    """A copy of the tree, and the run that uses it."""

    folder: Path
    pid: int = 0
    began: float = 0.0
    mutant: Mutant | None = None
    limit: float = 0.0


def preload(*, on_service: bool) -> None:
    """Import the libraries once. Called with NUMBA_DISABLE_JIT set, unless the tests are those of the service."""
    if not on_service:
        python_kernels.install()
    for name in SERVICE_LIBRARIES if on_service else LIBRARIES:
        importlib.import_module(name)


def outcomes(runs: Sequence[Run], processes: int, *, on_service: bool) -> Iterator[Outcome]:
    """Of these runs, as they end."""
    waiting = list(reversed(runs))
    options = SERVICE_OPTIONS if on_service else SOLVER_OPTIONS
    with temporary_folder(in_memory=on_service) as folder:
        slots = [_Slot(copy_of_tree(folder / str(number), on_service)) for number in range(min(processes, len(runs)))]
        try:
            while waiting or any(slot.pid for slot in slots):
                for slot in slots:
                    if not slot.pid and waiting:
                        _begin(slot, *waiting.pop(), options)
                    elif slot.pid and (ended := _ended(slot)) is not None:
                        yield ended
                time.sleep(0.01)
        finally:
            for slot in slots:
                if slot.pid:
                    _stop(slot)


@contextmanager
def temporary_folder(*, in_memory: bool) -> Iterator[Path]:
    parent = RAM_FOLDER if in_memory and os.access(RAM_FOLDER, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="mutation-", dir=parent) as folder:
        yield Path(folder)


def copy_of_tree(folder: Path, with_caches: bool) -> Path:
    """With caches: compiled kernels are copied too, with the times by which they are known to be fresh."""
    (folder / TEMPORARY).mkdir(parents=True)
    left_out = (".*",) if with_caches else (".*", "__pycache__")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(*left_out))
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def _begin(slot: _Slot, mutant: Mutant | None, tests: Sequence[str], limit: float, options: Sequence[str]) -> None:
    if mutant is not None:
        _write(slot.folder / mutant.path, mutant.applied((ROOT / mutant.path).read_bytes()))
    slot.mutant, slot.began, slot.limit = mutant, time.monotonic(), limit
    sys.stdout.flush()
    slot.pid = os.fork()
    if slot.pid == 0:
        _run_tests(slot.folder, [*options, *tests])


def _run_tests(folder: Path, arguments: Sequence[str]) -> None:
    """In the fork; does not return."""
    code = FAILED
    try:
        enter(folder)
        limit_memory()
        import pytest

        code = int(pytest.main([*PYTEST_OPTIONS, *arguments]))
        used = [sys.modules[name].__file__ for name in ("app", "solvers") if name in sys.modules]
        if code == 0 and not (used and all(str(path).startswith(str(folder)) for path in used)):
            code = WRONG_TREE
    except BaseException as error:
        os.write(2, repr(error).encode())
    finally:
        sys.stdout.flush()
        os._exit(code)


def enter(folder: Path) -> None:
    """Make the copy of the tree the one that is imported, and its file the place of all output."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.chdir(folder)
    sys.dont_write_bytecode = False  # the next run imports it sooner
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / TEMPORARY)
    for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "app", "solvers")]:
        del sys.modules[name]
    sys.path[:] = [str(folder), *(path for path in sys.path if path and Path(path).resolve() != ROOT)]
    importlib.invalidate_caches()


def limit_memory() -> None:
    """Begin a session, so that all that is started can be ended, and bound its memory."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _ended(slot: _Slot) -> Outcome | None:
    pid, status = os.waitpid(slot.pid, os.WNOHANG)
    seconds = time.monotonic() - slot.began
    if pid == 0:
        if seconds < slot.limit:
            return None
        _stop(slot)
        verdict = TIMED_OUT
    else:
        slot.pid = 0
        code = os.waitstatus_to_exitcode(status)
        output = (slot.folder / "output.txt").read_text(errors="replace")
        # A mutant that cannot be imported leaves pytest without tests: code 4.
        if code in (FAILED, WRONG_TREE) or (slot.mutant is None and code in (4, 5)):
            raise RuntimeError(f"the tests could not be run ({code}):\n{output[-3000:]}")
        verdict = {0: SURVIVED, 1: KILLED, 2: KILLED, 4: KILLED}.get(code, CRASHED)
    outcome = Outcome(slot.mutant, verdict, seconds, (slot.folder / "output.txt").read_text(errors="replace"))
    if slot.mutant is not None:
        _write(slot.folder / slot.mutant.path, (ROOT / slot.mutant.path).read_bytes())
    return outcome


def _write(path: Path, source: bytes) -> None:
    """The source, without bytecode of another mutant, whose time and size can be the same."""
    path.write_bytes(source)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def _stop(slot: _Slot) -> None:
    """End the fork and what it started: it leads a session of its own."""
    kill_session(slot.pid)
    slot.pid = 0


def kill_session(pid: int) -> None:
    with suppress(ProcessLookupError):  # it did not come to begin a session
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
