"""What the processes of a worker load: the supervisor no solver, and neither of them anything of the web."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SCRIPT = """
import sys, threading
import {module}
print(threading.active_count(), *sys.modules)
"""


def loaded_by(module: str) -> set[str]:
    """All modules that are loaded once this one is, in an interpreter of its own that has started no thread."""
    command = [sys.executable, "-c", SCRIPT.format(module=module)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    threads, *modules = done.stdout.split()
    assert threads == "1"
    return set(modules)


def test_the_supervisor_loads_neither_numba_nor_the_solvers() -> None:
    loaded = loaded_by("app.worker.supervisor")
    assert not loaded & {"numba", "solvers", "app.worker.executor", "app.jobs.job_types"}


def test_the_walk_over_the_job_types_loads_no_endpoints_and_starts_no_thread() -> None:
    loaded = loaded_by("app.worker.child")
    assert {"app.worker.types.train_job", "app.worker.types.verify_job"} <= loaded
    assert not [name for name in loaded if name.startswith("app.") and name.endswith("endpoints")]
