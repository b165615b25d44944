"""The clock of solving time: compiling and loading kernels does not count, however it nests and in whichever thread."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import pytest
from numba.core import event

from solvers.linalg import clock
from solvers.linalg.clock import NotCompiled, only_cached, solving_time, watch_compilation

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def wall(monkeypatch):
    """The wall clock, moved by the test."""
    moment = [100.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: moment[0])
    return moment


def begin():
    event.start_event(clock.LOADING)


def end():
    event.end_event(clock.LOADING)


def test_stands_still_during_nested_intervals(wall):
    began = solving_time()
    wall[0] += 1.0
    begin()
    wall[0] += 10.0
    begin()
    wall[0] += 10.0
    end()
    wall[0] += 10.0
    end()
    wall[0] += 2.0
    assert solving_time() - began == 3.0


def test_intervals_of_two_threads_count_once(wall):
    with ThreadPoolExecutor(1) as other:
        began = solving_time()
        other.submit(begin).result()
        wall[0] += 10.0
        assert solving_time() == began, "another thread compiles"
        begin()
        wall[0] += 10.0
        other.submit(end).result()
        wall[0] += 10.0
        end()
        wall[0] += 1.0
        assert solving_time() - began == 1.0


def test_an_interval_without_an_end_does_not_stop_the_clock_for_good(wall):
    """As an interrupt leaves it."""
    began = solving_time()
    begin()
    begin()
    wall[0] += 10.0
    assert solving_time() == began
    wall[0] += 1.0
    assert solving_time() - began == 1.0
    end()
    end()
    wall[0] += 1.0
    assert solving_time() - began == 2.0


def test_a_compilation_does_not_count_and_can_be_watched(wall):
    @numba.njit
    def double(value):
        return 2 * value

    @numba.njit
    def quadruple(value):
        return double(double(value))

    seen = []

    def compiling():
        wall[0] += 1000.0
        seen.append("began")

    began = solving_time()
    with watch_compilation(compiling, lambda: seen.append("ended")):
        assert quadruple(2) == 8
        assert quadruple(3) == 12
    assert seen == ["began", "ended"], "callees are compiled within their caller"
    assert solving_time() == began
    quadruple(2.0)
    assert len(seen) == 2, "the watch has ended"


def test_only_cached_kernels_can_be_asked_for():
    @numba.njit
    def triple(value):
        return 3 * value

    with only_cached(), pytest.raises(NotCompiled):
        triple(2)
    assert triple(2) == 6
    with only_cached():
        assert triple(3) == 9, "it is there now"


COLD_RUN = """
import time
import numpy as np
import solvers
random = np.random.default_rng(0)
X = random.standard_normal((500, 10))
y = X[:, 0] + random.standard_normal(500) > 0
began = time.perf_counter()
result = solvers.train(X, y, solver="bmrm", tol=1e-2, max_seconds=1.0)
wall = time.perf_counter() - began
print(result.status, result.seconds < 1.0 < wall, result.trace[-1].seconds < 1.0, result.state["run.seconds"] < 1.0)
"""


@pytest.mark.slow
def test_a_first_run_in_a_fresh_process_has_all_of_its_time(tmp_path):
    """Compiling takes seconds, solving milliseconds."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", COLD_RUN], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.split() == ["converged", "True", "True", "True"], done.stderr
