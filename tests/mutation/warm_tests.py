"""Runs mutants in forks of a process that has imported the project and collected the tests: about 0.1 s a mutant.

A fork gives the functions whose source the mutant changes their new code, wherever they are referred to, and runs the
tests. This is sound for a killed mutant. It says nothing about a mutant of a module's or a class's own statements, of
a default value, of code that ran at import, or of what a test starts as a new process: those, and every survivor, are
run again by runner.py, which writes the file and imports everything in a new process.
"""

import gc
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from tests.mutation import runner
from tests.mutation.operators import Mutant
from tests.mutation.runner import CRASHED, KILLED, ROOT, SURVIVED, TIMED_OUT, Outcome, Run

NOT_PATCHED = "not patched"
UNPATCHED = 72
"""Exit code of a fork in which the mutant's code has no function to be given to."""
LOOK_SECONDS = 0.01

Place = tuple[str, int]
"""Qualified name and first line of a function."""


@contextmanager
def started(tests: Sequence[str], processes: int) -> Iterator[Callable[[Sequence[Run]], Iterator[Outcome]]]:
    """Processes that have collected these tests; gives a function like `runner.outcomes` that uses them.

    A verdict can also be NOT_PATCHED.
    """
    with runner.temporary_folder(in_memory=True) as folder:
        ready = [_start(runner.copy_of_tree(folder / str(number), True), tests) for number in range(processes)]
        pipes = [pipe for _, pipe in ready]
        try:
            yield partial(_outcomes, pipes)
        finally:
            for pid, _ in ready:
                os.kill(pid, signal.SIGTERM)
                os.waitpid(pid, 0)


def _outcomes(pipes: Sequence[Connection], runs: Sequence[Run]) -> Iterator[Outcome]:
    waiting, busy = list(reversed(runs)), dict[Connection, Run]()
    while waiting or busy:
        for pipe in pipes:
            if pipe not in busy and waiting:
                busy[pipe] = waiting.pop()
                pipe.send(busy[pipe])
        for pipe in wait([*busy]):
            assert isinstance(pipe, Connection)
            try:
                yield Outcome(busy.pop(pipe)[0], *pipe.recv())
            except EOFError:
                raise RuntimeError("the tests could not be collected") from None


def _start(folder: Path, tests: Sequence[str]) -> tuple[int, Connection]:
    ours, theirs = multiprocessing.Pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _serve(folder, tests, theirs)
    theirs.close()
    return pid, ours


def _serve(folder: Path, tests: Sequence[str], pipe: Connection) -> None:
    """In the fork; does not return."""
    try:
        runner.enter(folder)
        import pytest

        pytest.main([*runner.PYTEST_OPTIONS, *runner.SERVICE_OPTIONS, *tests], plugins=[_Forks(folder, pipe)])
    finally:
        os._exit(0)


class _Forks:
    """A plugin of pytest: instead of running the tests once, runs them in a fork for each order that comes."""

    def __init__(self, folder: Path, pipe: Connection) -> None:
        self._folder = folder
        self._pipe = pipe
        self._failure = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._failure = f"{report.nodeid}\n{report.longreprtext}"

    def pytest_runtestloop(self, session: Any) -> bool:
        functions = _functions_of_project()
        while True:
            mutant, tests, limit = self._pipe.recv()
            began = time.monotonic()
            pid = os.fork()
            if pid == 0:
                self._run(session, functions, mutant, tests)
            verdict = _verdict(pid, limit)
            output = (self._folder / "output.txt").read_text(errors="replace")
            self._pipe.send((verdict, time.monotonic() - began, output))

    def _run(self, session: Any, functions: "_Functions", mutant: Mutant | None, tests: Sequence[str]) -> None:
        """In the fork; does not return."""
        from _pytest.main import pytest_runtestloop

        code = runner.FAILED
        try:
            runner.limit_memory()
            if mutant is not None and not _patch(mutant, functions):
                os._exit(UNPATCHED)
            session.items[:] = [item for test in tests for item in session.items if _is_of(item.nodeid, test)]
            with suppress(session.Failed):
                pytest_runtestloop(session)
            code = 1 if session.testsfailed or not session.items else 0
        except BaseException as error:
            self._failure += f"\n{error!r}"
            code = 1 if mutant is not None else runner.FAILED
        finally:
            (self._folder / "output.txt").write_text(self._failure)
            os._exit(code)


def _is_of(node_id: str, test: str) -> bool:
    return node_id == test or node_id.startswith((f"{test}/", f"{test}::", f"{test}["))


def _verdict(pid: int, limit: float) -> str:
    deadline = time.monotonic() + limit
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() >= deadline:
            runner.kill_session(pid)
            return TIMED_OUT
        time.sleep(LOOK_SECONDS)
    return {0: SURVIVED, 1: KILLED, UNPATCHED: NOT_PATCHED}.get(os.waitstatus_to_exitcode(status), CRASHED)


# --- new code for functions that exist --------------------------------------------------------------------------------

_Functions = dict[str, dict[Place, list[FunctionType]]]


def _functions_of_project() -> _Functions:
    """Every function by its file, name and line; one definition can have been run several times."""
    here, found = os.getcwd() + os.sep, _Functions()
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith(here):
            code = one.__code__
            of_file = found.setdefault(code.co_filename.removeprefix(here), {})
            of_file.setdefault((code.co_qualname, code.co_firstlineno), []).append(one)
    return found


def _patch(mutant: Mutant, functions: _Functions) -> bool:
    """Whether every change of the code could be made in functions that exist."""
    source = (ROOT / mutant.path).read_bytes()
    before, after = (compile(text, mutant.path, "exec") for text in (source, mutant.applied(source)))
    changed = _changed(before, after)
    if not changed:
        return False
    for old, new in changed:
        known = functions.get(mutant.path, {}).get((old.co_qualname, old.co_firstlineno), [])
        if not known:
            return False
        for function in known:
            try:
                function.__code__ = new
            except ValueError:  # it uses other variables of the functions around it
                return False
    return True


def _changed(before: CodeType, after: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """The outermost functions that differ; None: what runs at import differs."""
    if _own_parts(before) != _own_parts(after):
        return None
    found = []
    for old, new in zip(_inner(before), _inner(after), strict=True):
        if old.co_flags & 1:  # CO_OPTIMIZED: a function, not the body of a class
            if not _is_same(old, new):
                found.append((old, new))
        else:
            deeper = _changed(old, new)
            if deeper is None:
                return None
            found += deeper
    return found


def _inner(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _own_parts(code: CodeType) -> tuple[object, ...]:
    """All but its lines and the code in it. Constants with their types: 1 and 1.0 are equal."""
    constants = [(type(one), repr(one)) for one in code.co_consts if not isinstance(one, CodeType)]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_name)
    counts = (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags, len(_inner(code)))
    return (code.co_code, constants, names, counts, code.co_exceptiontable)


def _is_same(old: CodeType, new: CodeType) -> bool:
    inner = zip(_inner(old), _inner(new), strict=True)
    return _own_parts(old) == _own_parts(new) and all(_is_same(one, other) for one, other in inner)
