"""Decides whether to repeat a request, and how long to wait first."""

import random

import httpx

from hyperplane._shared.errors import ApiError, ConnectionFailed

__all__ = ["MOST_RETRIES", "PASSING", "Backoff"]

MOST_RETRIES = 8
"""Maximum retries without progress. Larger: the client survives longer outages (8 retries: about 20 s) and reports a
dead service later. Set by hand; no measurement is recorded."""
FIRST_PAUSE_SECONDS = 0.1
"""Seconds before the first retry; each further pause is twice as long. Larger: less load, later success. Set by hand;
no measurement is recorded."""
LONGEST_PAUSE_SECONDS = 10.0
"""Maximum seconds between two attempts, unless Retry-After requests more. Larger: less load on a failing service, later
success. Set by hand; no measurement is recorded."""
LONGEST_RETRY_AFTER_SECONDS = 60.0
"""Maximum seconds of a Retry-After that the client waits for. After a longer one it raises the error, which has the
seconds in `retry_after`. Larger: calls can block for longer. Set by hand; the service itself
sends 1, a proxy can send more."""
NEVER_REACHED_RETRIES = 2
"""Maximum retries while no connection has ever been made. Larger: a wrong address is reported later; 2: within a
second."""
PASSING = (408, 423, 425, 429, 502, 503, 504)
"""HTTP statuses after which the same request can succeed later."""


class Backoff:
    """Exponential back-off with jitter. It gives up after `most` failures without progress."""

    def __init__(self, most: int = MOST_RETRIES) -> None:
        self._most = most
        self._failures = 0
        self._reached = -1

    def note_progress(self, reached: int) -> None:
        """Count failures from zero again if the work got further than ever before."""
        if reached > self._reached:
            self._reached = reached
            self._failures = 0

    def restart(self) -> None:
        """Count failures from zero again."""
        self._failures = 0

    def pause_after(
        self, error: Exception, *, repeatable: bool = True, reached: bool = True, passing: tuple[int, ...] = PASSING
    ) -> float:
        """Return the seconds to wait before the next attempt, or raise the error.

        `repeatable`: the request has the same effect if the service receives it twice. `reached`: a connection to the
        service was made before. `passing`: statuses after which the same request can succeed.
        """
        most = self._most if reached else min(self._most, NEVER_REACHED_RETRIES)
        self._failures += 1
        named = error.retry_after if isinstance(error, ApiError) else None
        is_long = named is not None and named > LONGEST_RETRY_AFTER_SECONDS
        if self._failures > most or is_long or not _can_repeat(error, repeatable, passing):
            if isinstance(error, httpx.HTTPError):
                raise ConnectionFailed(_described(error)) from error
            raise error
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (self._failures - 1))
        jittered = pause * random.uniform(0.5, 1.0)
        return jittered if named is None else named + jittered * 0.1


def _can_repeat(error: Exception, repeatable: bool, passing: tuple[int, ...]) -> bool:
    if isinstance(error, ApiError):
        if error.code == "idempotency_key_in_use" or error.status == 429:
            return True
        return repeatable and error.status in passing
    # A request that found no connection has had no effect.
    return repeatable or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def _described(error: httpx.HTTPError) -> str:
    try:
        place = f"{error.request.method} {error.request.url}"
    except RuntimeError:  # the error has no request
        place = "the service"
    return f"{place}: {error or type(error).__name__}"
