"""Imported once by the forkserver of training processes: each of them starts with the kernels that most jobs need.

Only those in numba's cache are loaded. Where there is none, a job compiles what it needs and waits for no others.
Nothing here may start a thread: a fork would copy a process in the middle of something.
"""

from app.system.forkserver import settle
from app.worker import kernels

kernels.load_cached()
settle()
