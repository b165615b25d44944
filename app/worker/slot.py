"""One slot: a training process and the pipe to it. The process takes claims, one after another."""

import time
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext

from app.config import Settings
from app.db.job_state import StopReason, stronger
from app.jobs.repository import Claim

URGENT: tuple[StopReason, ...] = ("drain", "cancel", "lost")
"""What is not worth waiting for: a finish may take as long as it takes to judge the model."""

READY, DONE, GIVE_BACK = "ready", "done", "give_back"
LACKING, COMPILING, COMPILED = "lacking", "compiling", "compiled"
"""Kernels that most jobs need are not compiled yet; one is being compiled in the process; it is compiled."""


class Slot:
    """The supervisor's handle on one training process."""

    def __init__(self, processes: ForkServerContext, settings: Settings, threads: int) -> None:
        self.pipe, theirs = processes.Pipe()
        self.process = processes.Process(target=_main, args=(theirs, settings, threads), daemon=True)
        self.process.start()
        theirs.close()
        self.ready = False
        self.compiling = False
        self.compiled_for: Claim | None = None
        """The claim whose job is known to wait for kernels."""
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
        """Ask the process to end its job; asking again for no more changes nothing."""
        if stronger(reason, self.stop_reason) != self.stop_reason:
            self.stop_reason, self.stop_sent_at = reason, time.monotonic()
            self._send(reason)

    def is_deaf(self, patience_seconds: float) -> bool:
        """Asked to stop at once, and still at work after so long."""
        asked = self.claim is not None and self.stop_reason in URGENT
        return asked and time.monotonic() - self.stop_sent_at > patience_seconds

    def _send(self, message: Claim | StopReason) -> None:
        with suppress(OSError):  # a dead process cannot be told; the supervisor sees its death anyway
            self.pipe.send(message)

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _main(pipe: Connection, settings: Settings, threads: int) -> None:
    from app.worker.child import serve  # numba and the solvers are the child's, not the supervisor's

    serve(pipe, settings, threads)
