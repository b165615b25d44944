"""Imported once by the forkserver of training processes, so that they start with the kernels that most jobs need.

Only kernels in numba's cache are loaded; a job compiles what else it needs. Nothing here must start a thread: a fork
would copy a process in an undefined state.
"""

from app.system.forkserver import settle
from app.worker import kernels

kernels.load_cached()
settle()
