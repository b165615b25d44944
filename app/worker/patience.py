"""Retries during a job while the database does not respond. The worker keeps its claim and its results."""

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
"""First and longest pause in seconds; each pause is twice the previous one. Larger: fewer attempts, and a later restart
when the fault has passed. Set by hand; no measurement is recorded."""
LONGEST_DATABASE_PAUSE_SECONDS = 4.0
"""Longest pause in seconds while the database does not respond. Larger: fewer attempts, and a later restart after a
failover, during which the lease can expire. Set by hand; no measurement is recorded."""
LOOK_SECONDS = 0.2
"""Seconds between two checks for a stop request while waiting. Larger: later stops. Set by hand; no measurement is
recorded."""


def insist(claim: Claim, patience_seconds: float, stop_reason: StopAsked, act: Callable[[], Answer]) -> Answer:
    """Call `act` until the database responds, at most for `patience_seconds`; return its result.

    Every write to a claim is fenced: if an earlier attempt was committed unnoticed, the next one raises LeaseLost.
    """
    waited, pause = 0.0, FIRST_PAUSE_SECONDS
    while True:
        try:
            return act()
        except DatabaseUnavailable as error:
            if waited >= patience_seconds:
                raise
            detail = error.detail
        # outside the handler: the error would keep the data of the attempt in memory
        log.warning("%s: waiting %.0f s: %s", claim.job_id, pause, detail)
        wait(pause, stop_reason)
        waited, pause = waited + pause, min(2.0 * pause, LONGEST_DATABASE_PAUSE_SECONDS)


def wait(seconds: float, stop_reason: StopAsked) -> None:
    """Sleep. Raises Stopped if a stop request arrives before the end."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0.0:
        reason = stop_reason()
        if reason is not None and reason != "finish":  # finish is ignored: there is no model yet
            raise Stopped(reason)
        time.sleep(min(left, LOOK_SECONDS))
