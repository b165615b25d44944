"""Waiting, inside a job, for a database that is away: the worker keeps its claim and what it has computed."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from app.errors import DatabaseUnavailable
from app.jobs.repository import Claim
from app.worker.failures import Stopped
from app.worker.worker_context import StopAsked

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
"""Back-off: each pause is twice the one before. Longer: fewer attempts, and a later start when the fault has passed."""
LONGEST_DATABASE_PAUSE_SECONDS = 4.0
"""The same for the database: a failover takes seconds, and the lease of the claim runs meanwhile."""
LOOK_SECONDS = 0.2


def insist(claim: Claim, patience_seconds: float, stop_reason: StopAsked, act: Callable[[], Answer]) -> Answer:
    """What the act returns, done again while the database is away, at most for so long.

    Every act on a claim is fenced: one that did happen, unknown to us, raises LeaseLost the next time.
    """
    waited, pause = 0.0, FIRST_PAUSE_SECONDS
    while True:
        try:
            return act()
        except DatabaseUnavailable as error:
            if waited >= patience_seconds:
                raise
            detail = error.detail
        # not in the handler: the error would hold what the attempt has in memory
        log.warning("%s: waiting %.0f s: %s", claim.job_id, pause, detail)
        wait(pause, stop_reason)
        waited, pause = waited + pause, min(2.0 * pause, LONGEST_DATABASE_PAUSE_SECONDS)


def wait(seconds: float, stop_reason: StopAsked) -> None:
    """Sleep. Raises Stopped if the work is to end meanwhile."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0.0:
        reason = stop_reason()
        if reason is not None and reason != "finish":  # there is nothing yet to finish with
            raise Stopped(reason)
        time.sleep(min(left, LOOK_SECONDS))
