"""A slot: a training process and the pipe to it. The process executes one claim at a time."""

import time
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext

from app.config import Settings
from app.db.job_state import StopReason, stronger
from app.jobs.repository import Claim

URGENT: tuple[StopReason, ...] = ("drain", "cancel", "lost")
"""Stop reasons after which a process that does not stop is killed. `finish` is not one of them, because computing the
model's metrics takes time."""

READY, DONE, GIVE_BACK = "ready", "done", "give_back"
LACKING, COMPILING, COMPILED = "lacking", "compiling", "compiled"
"""Messages of the process: usual kernels are missing; a kernel is being compiled; it is compiled."""


class Slot:
    """The supervisor's handle of a training process."""

    def __init__(self, processes: ForkServerContext, settings: Settings, threads: int) -> None:
        self.pipe, theirs = processes.Pipe()
        self.process = processes.Process(target=_main, args=(theirs, settings, threads), daemon=True)
        self.process.start()
        theirs.close()
        self.ready = False
        self.compiling = False
        self.compiled_for: Claim | None = None
        """Claim whose job is waiting for a kernel to be compiled; None: no job is waiting."""
        self.claim: Claim | None = None
        self.stop_reason: StopReason | None = None
        self.stop_sent_at = 0.0

    @property
    def idle(self) -> bool:
        return self.ready and self.claim is None

    def start(self, claim: Claim) -> None:
        self.claim, self.stop_reason = claim, None
        self._send(claim)

    def stop(self, reason: StopReason) -> None:
        """Ask the process to end its job. A weaker request than an earlier one has no effect."""
        if stronger(reason, self.stop_reason) != self.stop_reason:
            self.stop_reason, self.stop_sent_at = reason, time.monotonic()
            self._send(reason)

    def is_deaf(self, patience_seconds: float) -> bool:
        """Whether the process is still working `patience_seconds` after an urgent stop request."""
        asked = self.claim is not None and self.stop_reason in URGENT
        return asked and time.monotonic() - self.stop_sent_at > patience_seconds

    def _send(self, message: Claim | StopReason) -> None:
        with suppress(OSError):  # the process is dead; the supervisor notices that separately
            self.pipe.send(message)

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _main(pipe: Connection, settings: Settings, threads: int) -> None:
    from app.worker.child import serve  # only the child needs numba and the solvers

    serve(pipe, settings, threads)
