"""The forkserver that parser children come from. Light on purpose: it is started before the API's own imports."""

import multiprocessing
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

PRELOAD = "app.datasets.preload"


def start_forkserver() -> ForkServerContext:
    """Start it if it does not run yet; it then imports and compiles the readers beside us."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOAD])
    forkserver.ensure_running()
    return context
