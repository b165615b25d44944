"""The forkserver that a process's children come from. Light on purpose: it starts before the process's own imports."""

import multiprocessing
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

FOR_READING = "app.datasets.preload"
FOR_TRAINING = "app.worker.preload"


def start_forkserver(preload: str) -> ForkServerContext:
    """Start it if it does not run yet; it then imports this module, and what that compiles, beside us."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([preload])
    forkserver.ensure_running()
    return context
