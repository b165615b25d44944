"""Shadow versions: they score a copy of requests in the background, to be compared with the answering version.

After its response a request is put into a bounded queue, which one thread works off. Requests that do not fit are
counted and dropped, so that a slow shadow does not delay responses.
"""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from app.errors import AppError
from app.models.repository import Location
from app.predictions.model_cache import ModelCache, ServedModel
from app.tabular.types import Array

log = logging.getLogger(__name__)


MOST_WAITING = 256
"""Maximum requests in the queue. Larger: fewer dropped requests in bursts, more memory. Set by hand; no measurement is
recorded."""
MOST_WAITING_BYTES = 64 << 20
"""Maximum bytes of the bodies in the queue. Larger: fewer dropped requests, more memory. Set by hand; no measurement is
recorded."""


class Outcome(NamedTuple):
    """The predictions of a model for the rows of a request."""

    labels: Sequence[Any]
    """Labels; empty for a model without labels."""
    scores: Array


class _Mirrored(NamedTuple):
    reference: str
    shadow: Location
    model: ServedModel
    judge: Callable[[ServedModel], Outcome]
    bytes: int


@dataclass
class _Count:
    shadow: Location
    requests: int = 0
    rows: int = 0
    compared: int = 0
    label_differences: int = 0
    sum_of_differences: float = 0.0
    max_difference: float = 0.0
    failures: int = 0
    dropped: int = 0


class Shadows:
    """Scores mirrored requests in a thread, and counts the differences of each alias."""

    def __init__(self, served: ModelCache) -> None:
        self._served = served
        self._waiting: queue.SimpleQueue[_Mirrored | None] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._waiting_requests = 0
        self._counts: dict[str, _Count] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def mirror(
        self, reference: str, model: ServedModel, judge: Callable[[ServedModel], Outcome], body_bytes: int
    ) -> None:
        """Queue a request that `model` has just answered for the shadow of its reference. Never blocks or raises.

        `judge` scores the request with a given model; it is called later, for both models.
        """
        shadow = self._served.shadow_of(reference)
        if shadow is None:
            return
        with self._lock:
            count = self._counts.get(reference)
            if count is None or count.shadow.id != shadow.id:  # counts start again for another shadow
                count = self._counts[reference] = _Count(shadow)
            full = self._waiting_requests >= MOST_WAITING or self._waiting_bytes + body_bytes > MOST_WAITING_BYTES
            if full:
                count.dropped += 1
                return
            self._waiting_requests += 1
            self._waiting_bytes += body_bytes
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True, name="shadow")
                self._thread.start()
        self._waiting.put(_Mirrored(reference, shadow, model, judge, body_bytes))

    def stats(self, reference: str, version: int | None) -> dict[str, Any] | None:
        """Return the fields of `ShadowStats`; None if this process mirrored no request to this version."""
        with self._lock:
            count = self._counts.get(reference)
            if count is None or count.shadow.version != version:
                return None
            return {
                "version": version,
                "requests": count.requests,
                "rows": count.rows,
                "label_differences": count.label_differences,
                "mean_score_difference": count.sum_of_differences / count.compared if count.compared else None,
                "max_score_difference": count.max_difference if count.compared else None,
                "failures": count.failures,
                "dropped": count.dropped,
            }

    def stop(self) -> None:
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(1.0)

    def _work(self) -> None:
        while (mirrored := self._waiting.get()) is not None:
            try:
                self._compare(mirrored)
            except Exception:
                log.exception("a shadow of %s failed unexpectedly", mirrored.reference)
                with self._lock:
                    if count := self._count_of(mirrored):
                        count.requests += 1
                        count.failures += 1
            with self._lock:
                self._waiting_requests -= 1
                self._waiting_bytes -= mirrored.bytes

    def _count_of(self, mirrored: _Mirrored) -> _Count | None:
        """Return the counts of an alias; None: it has another shadow by now."""
        count = self._counts[mirrored.reference]
        return count if count.shadow.id == mirrored.shadow.id else None

    def _compare(self, mirrored: _Mirrored) -> None:
        ours = mirrored.judge(mirrored.model)
        theirs = None
        with suppress(AppError):  # the model was deleted, or cannot read these rows: count a failure
            theirs = mirrored.judge(self._served.find(mirrored.shadow.id))
        with self._lock:
            if (count := self._count_of(mirrored)) is None:
                return
            count.requests += 1
            if theirs is None:
                count.failures += 1
                return
            count.rows += len(ours.scores)
            count.label_differences += sum(a != b for a, b in zip(ours.labels, theirs.labels, strict=False))
            if ours.scores.shape == theirs.scores.shape:
                differences = np.abs(ours.scores - theirs.scores).reshape(len(ours.scores), -1).max(axis=1)
                count.compared += len(differences)
                count.sum_of_differences += float(differences.sum())
                count.max_difference = max(count.max_difference, float(differences.max(initial=0.0)))
