"""Imported once by the forkserver of training processes: each of them then starts with compiled kernels.

Nothing here may start a thread: a fork would copy a process in the middle of something.
"""

import solvers
from app.worker import process  # noqa: F401

solvers.warm_up()
