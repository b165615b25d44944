"""The kernels of training processes: which are loaded at the start, and the order in which others are compiled.

A process compiles a kernel that it needs and that numba's cache lacks. `python -m app.worker.kernels all` compiles them
ahead of use; the supervisor runs it while a slot is idle (app/worker/compile_ahead.py), so that few jobs wait.
"""

import os
import select
import sys

import solvers
from app.preprocess import measure_columns, scaling, text_counts
from app.system import resources
from app.worker import dense_sums
from solvers.engine.auto import CANDIDATES
from solvers.engine.registry import registered
from solvers.linalg.clock import NotCompiled, only_cached, watch_compilation

USUAL = ("dcd", "newton", "smooth_newton")
"""Methods whose kernels a training process loads at its start: those that `auto` chooses most often. Longer: slower
starts, faster first jobs of the added methods. Loading these takes 0.7 s, loading all methods 2.0 s (measured once, 2
cores)."""
OF_EVERY_JOB = (measure_columns.warm, scaling.warm, dense_sums.warm)
LOWEST_PRIORITY = 19
"""Niceness of the compiling process, the largest that Linux has: the process gets little CPU time while others run."""

lacking: list[str] = []
"""Names of kernels that `load_cached` did not find in numba's cache. Processes that are forked later inherit it."""


def load_cached() -> None:
    """Load the kernels that most jobs need from numba's cache. Compiles nothing."""
    lacking[:] = solvers.load_kernels(USUAL)
    for warm in OF_EVERY_JOB:
        try:
            with only_cached():
                warm()
        except NotCompiled:
            lacking.append(warm.__module__)


def compile_first() -> None:
    """Compile the kernels of jobs that do not name a solver."""
    for warm in OF_EVERY_JOB:
        warm()
    solvers.warm_up(CANDIDATES)


def compile_rest() -> None:
    """Compile the remaining kernels: of jobs that name a solver or read texts."""
    solvers.warm_up([name for name in registered() if name not in CANDIDATES])
    text_counts.warm()


def main(part: str) -> None:
    """Compile the "first" kernels or "all", at the lowest priority. Stops before the next kernel on request.

    Ends at once when its parent dies: on a busy machine the next kernel can be minutes away.
    """
    resources.end_with_parent(os.getppid())
    _end_if_unwanted()  # a parent that died during the imports above is no longer this process's parent
    resources.lower_priority(LOWEST_PRIORITY)
    resources.offer_as_victim()
    with watch_compilation(_end_if_unwanted, lambda: None):
        compile_first()
        if part == "all":
            compile_rest()


def _end_if_unwanted() -> None:
    """Exit if standard input is readable: the supervisor closed it or died. Nothing is ever written to it."""
    if select.select([sys.stdin], [], [], 0.0)[0]:
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1])
