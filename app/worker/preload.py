"""Imported once by the forkserver of training processes: each of them starts with the kernels of what `auto`
mostly takes.

Those of other solvers are loaded from numba's cache by the first job that needs them. Compiling all of them, where
there is no cache yet, takes minutes, and the first job on a new machine should not wait for that.
Nothing here may start a thread: a fork would copy a process in the middle of something.
"""

import solvers
from app.preprocess import measure_columns, scaling
from app.system.forkserver import settle
from app.worker import dense_sums

solvers.warm_up(["dcd", "newton", "smooth_newton"])
measure_columns.warm()
scaling.warm()
dense_sums.warm()
settle()
