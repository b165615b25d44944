"""Kernels are compiled while a slot is idle, by one process that yields to jobs; waiting jobs are reported."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
import pytest

from app.db.queries import list_events
from app.jobs import lease
from app.worker.child import _compilation_told
from app.worker.compile_ahead import CompileAhead
from app.worker.slot import COMPILED, COMPILING, LACKING, READY
from app.worker.supervisor import Supervisor
from tests.support.builders import migrated_database, queued_jobs, temporary_settings
from tests.support.serving import children_of, wait_until

COMPILER = """
import pathlib, sys
log, end = map(pathlib.Path, sys.argv[1:3])
with log.open("a") as lines:
    print(sys.argv[3], file=lines, flush=True)
kind = end.read_text()
if kind == "wait":
    sys.stdin.read()
    sys.exit(1)
sys.exit(int(kind))
"""


class Compilers:
    """Processes in place of the real one: they record what they are to compile, and end as the test says."""

    def __init__(self, folder: Path) -> None:
        self.log, self._end = folder / "log", folder / "end"
        self.log.touch()
        self.end_with("0")
        command = [sys.executable, "-c", COMPILER, str(self.log), str(self._end)]
        self.ahead: Any = CompileAhead(command, idle_seconds=0.0)

    def end_with(self, kind: str) -> None:
        self._end.write_text(kind)

    @property
    def started(self) -> list[str]:
        return self.log.read_text().split()

    def until(self, condition: Any, *, is_idle: bool = True) -> None:
        def attended() -> bool:
            self.ahead.attend(is_idle=is_idle)
            return bool(condition())

        wait_until(attended, 30, "the process that compiles")

    def no_process(self) -> bool:
        return self.ahead._process is None


@pytest.fixture
def compilers(tmp_path: Path) -> Any:
    made = Compilers(tmp_path)
    yield made
    made.ahead.end()


def test_what_auto_can_take_comes_first_if_it_is_missing(compilers: Compilers) -> None:
    compilers.ahead.miss_first()
    compilers.ahead.attend(is_idle=False)
    assert compilers.no_process()
    assert compilers.ahead.lacks_first
    compilers.until(lambda: not compilers.ahead.lacks_first)
    compilers.ahead.miss_first()  # a later copy of the same forkserver
    assert not compilers.ahead.lacks_first
    compilers.until(lambda: not compilers.ahead._parts)
    compilers.ahead.attend(is_idle=True)
    assert compilers.started == ["first", "all"], "then nothing is left to do"


def test_a_job_makes_it_end_and_it_goes_on_later(compilers: Compilers) -> None:
    compilers.end_with("wait")
    compilers.until(lambda: compilers.started == ["all"])
    compilers.until(compilers.no_process, is_idle=False)
    compilers.end_with("0")
    compilers.until(lambda: not compilers.ahead._parts)
    assert compilers.started == ["all", "all"]


def test_it_is_not_tried_again_where_it_fails(compilers: Compilers) -> None:
    compilers.ahead.miss_first()
    compilers.end_with("3")
    compilers.until(lambda: not compilers.ahead._parts)
    assert compilers.started == ["first"]
    assert not compilers.ahead.lacks_first, "jobs compile what they need, so no other job waits for it"


def test_it_waits_until_a_slot_has_been_idle_for_a_while() -> None:
    ahead: Any = CompileAhead([sys.executable, "-c", "1"], idle_seconds=3600.0)
    ahead.attend(is_idle=True)
    ahead.attend(is_idle=True)
    assert ahead._process is None


@pytest.mark.slow
def test_nothing_is_compiled_once_nobody_wants_it_or_only_the_cached_is_asked_for(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    run = {"env": environment, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 240}
    unwanted: Any = subprocess.run([sys.executable, "-m", "app.worker.kernels", "first"], check=False, **run)
    assert unwanted.returncode == 1, unwanted.stderr
    script = "from app.worker import kernels; kernels.load_cached(); print(*kernels.lacking)"
    loaded: Any = subprocess.run([sys.executable, "-c", script], check=False, **run)
    assert loaded.stdout.split()[:3] == ["dcd", "newton", "smooth_newton"], loaded.stderr
    assert not list(tmp_path.rglob("*.nb[ic]"))


WORKING = """
import time
from app.worker import kernels
kernels.compile_first = lambda: (print("works", flush=True), time.sleep(20))
kernels.main("first")
"""
PARENT = "import os, subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); os.read(0, 1)"


def test_it_ends_with_its_parent_in_the_middle_of_a_kernel() -> None:
    command = [sys.executable, "-c", PARENT, WORKING]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"works\n"
    (child,) = children_of(parent.pid)
    parent.kill()
    parent.wait()
    wait_until(lambda: not Path(f"/proc/{child}").exists(), 10, "the process that compiles to end")


def test_it_does_nothing_if_its_parent_died_before_it_began() -> None:
    ended = subprocess.run([sys.executable, "-c", WORKING], check=False, stdin=subprocess.DEVNULL, capture_output=True)
    assert (ended.returncode, ended.stdout) == (1, b"")


def test_a_process_tells_when_its_job_waits_for_a_kernel() -> None:
    @numba.njit
    def double(value: Any) -> Any:
        return 2 * value

    ours, theirs = multiprocessing.Pipe()
    with _compilation_told(theirs):
        assert double(2) == double(1) * 2
    assert [ours.recv(), ours.recv(), ours.poll()] == [COMPILING, COMPILED, False]
    theirs.close()


def test_a_job_that_waits_for_its_kernels_is_told_of_once_and_training_is_compiling(
    database_url: str, tmp_path: Path
) -> None:
    with migrated_database(database_url) as database:
        (job_id,) = queued_jobs(database, [0])
        boss: Any = Supervisor(temporary_settings(tmp_path, database_url=database_url))
        with database.write() as session:
            claim = lease.claim_next(session, "wrk_test", 60.0)
        slot: Any = SimpleNamespace(ready=False, claim=None, compiling=False, compiled_for=None)
        boss._slots = [slot]

        def is_ready_after(*messages: str) -> bool:
            for message in messages:
                boss._on_message(slot, message)
            boss._settle()
            boss._show_readiness()
            return bool(boss._sign.ready)

        assert not is_ready_after()
        assert is_ready_after(READY)
        slot.claim = claim
        assert not is_ready_after(COMPILING)
        assert is_ready_after(COMPILED)
        assert not is_ready_after(COMPILING, COMPILED, COMPILING)
        with database.read() as session:
            told = [event.type for event in list_events(session, job_id, 100, None)]
        assert told.count("job.compiling") == 1
        assert not is_ready_after(COMPILED, LACKING), "what auto can take is missing"
        boss._database.close()
