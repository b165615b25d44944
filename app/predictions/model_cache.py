"""A cache of open models, bounded in bytes. Model files are memory-mapped."""

import hashlib
import math
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from app.db import Database
from app.errors import NotFound
from app.ids import is_id
from app.models import file, service
from app.models.file import ModelFile
from app.models.repository import Location
from app.predictions.model_features import MOST_BYTES, Features
from app.predictions.outputs import offered
from app.predictions.preprocessed_features import features_of
from app.predictions.score_error import Certainty
from app.predictions.set_outputs import ServedSets
from app.storage import BlobStore

ID_TRUST_SECONDS = 1.0
"""Seconds that the result of a lookup by id is used again. An id can only be deleted meanwhile. Larger: fewer queries,
and a deletion by another process takes effect later. Set by hand; no measurement is recorded."""
NAME_TRUST_SECONDS = 0.1
"""Seconds that the result of a lookup by name or alias is used again. It is shorter than ID_TRUST_SECONDS, because a
name can get a new version and an alias can be moved. Larger: fewer queries, later changes. Set by hand; no measurement
is recorded."""
LAST_PART = 0.5
"""Fraction, at the end of ID_TRUST_SECONDS and NAME_TRUST_SECONDS, in which a request renews its lookup in the
background. Under steady load no request then waits for a query. Larger: more queries. Set by hand; no measurement is
recorded."""
LATE_LOOK_SECONDS = 30.0
"""Extra seconds that a lookup is used while its renewal is running: a locked database does not delay predictions.
Larger: a change by another process can take effect later. Equal to the lock timeout of SQLite, after which the renewal
fails."""
MAX_TRUSTED = 10_000
"""Maximum cached lookups. Larger: more memory, fewer queries with many references. Set by hand; no measurement is
recorded."""
MOST_LOOKS = 5
"""Maximum attempts to open a model that is purged or replaced at the same time. Larger: fewer spurious errors. Set by
hand; no measurement is recorded."""
CONFIRMING_THREADS = 2
"""Threads that renew lookups in the background. Larger: more simultaneous renewals, more database connections. Set by
hand; no measurement is recorded."""


@dataclass(frozen=True)
class ServedModel:
    id: str
    name: str
    version: int
    file: ModelFile
    features: Features  # how it turns rows into features
    outputs: tuple[str, ...]  # outputs that a request can ask for

    @cached_property
    def is_certified(self) -> bool:
        """Whether its certificate bounds the error of single scores."""
        return Certainty.of(self.file.header) is not None

    @cached_property
    def sets(self) -> ServedSets:
        """Return the prediction sets. Fold models are opened on demand: most predictions need none."""
        return ServedSets.of(self.file, self.features.most_bytes)

    @classmethod
    def opened(cls, row: Location, stored: ModelFile, most_bytes: int = MOST_BYTES) -> "ServedModel":
        """Open a model file. `most_bytes`: maximum bytes of the rows of a request as numbers."""
        return cls(row.id, row.name, row.version, stored, features_of(stored, most_bytes), offered(stored.header))


class _Trusted(NamedTuple):
    """The result of a lookup, and how long it is used."""

    targets: tuple[tuple[str, float], ...]  # ids with their shares
    shadow: Location | None
    aging_from: float
    until: float


class ModelCache:
    """Finds a model by reference and keeps the recently used ones open."""

    def __init__(
        self, database: Database, blobs: BlobStore, max_bytes: int, max_predict_bytes: int = MOST_BYTES
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._max_bytes = max_bytes
        self._max_predict_bytes = max_predict_bytes
        self._bytes = 0
        self._models: OrderedDict[str, ServedModel] = OrderedDict()
        self._trusted: dict[str, _Trusted] = {}  # by reference
        self._lock = threading.Lock()
        self._changes = 0  # changes by this process; a lookup that began before the last one is not used
        self._confirming: dict[str, _Trusted] = {}  # by reference: the number of changes when the renewal began
        self._confirmer = ThreadPoolExecutor(CONFIRMING_THREADS, "confirm")

    def recall(self, reference: str, routing_key: str | None = None) -> ServedModel | None:
        """Return the model if that needs no I/O: it is open, and its lookup is recent enough. Else None."""
        trusted, now = self._trusted.get(reference), time.monotonic()
        if trusted is None:
            return None
        is_looking = self._confirming.get(reference) is trusted
        if now >= trusted.until and not (is_looking and now < trusted.until + LATE_LOOK_SECONDS):
            return None
        if now >= trusted.aging_from and reference not in self._confirming:
            self._confirming[reference] = trusted
            self._confirmer.submit(self._confirm, reference)
        return self._opened(choose_target(reference, trusted.targets, routing_key))

    def find(self, reference: str, routing_key: str | None = None, *, in_use: bool = False) -> ServedModel:
        """Return the model, from database and disk if necessary (blocking). Raises NotFound.

        The lookup counts from its start. For a reference in use it counts from its end: a lookup that waited for a lock
        would otherwise be outdated at once, and the next request would have to wait again.
        """
        for _ in range(MOST_LOOKS):
            asked_at, changes = time.monotonic(), self._changes
            with self._database.look() as connection:
                route = service.route(connection, reference)
            targets = tuple((location.id, share) for location, share in route.targets)
            chosen = choose_target(reference, targets, routing_key)
            location = next(one for one, _ in route.targets if one.id == chosen)
            try:
                model = self._opened(chosen) or self._open(location)
            except FileNotFoundError:
                continue  # purged meanwhile: the alias has been moved, or the next lookup finds nothing
            seconds = _trust_seconds(reference)
            asked_at = time.monotonic() if in_use else asked_at
            aging_from, until = asked_at + LAST_PART * seconds, asked_at + seconds
            self._trust(reference, _Trusted(targets, route.shadow, aging_from, until), changes)
            return model
        raise NotFound("There is no such model; `GET /v1/models` lists models.")

    def open_file(self, location: Location) -> ServedModel:
        """Open a model file that is not a registered version, such as a snapshot of a running job (blocking).

        The model is cached under `location.id`. Raises FileNotFoundError.
        """
        return self._opened(location.id) or self._open(location)

    def shadow_of(self, reference: str) -> Location | None:
        """Return the shadow version of this reference according to the last lookup."""
        trusted = self._trusted.get(reference)
        return None if trusted is None else trusted.shadow

    def forget(self, model_id: str) -> None:
        """Remove a model from the cache, under all references."""
        with self._lock:
            self._changes += 1
            self._trusted = {
                reference: trusted
                for reference, trusted in self._trusted.items()
                if all(target != model_id for target, _ in trusted.targets)
            }
            self._drop(model_id)

    def forget_reference(self, reference: str) -> None:
        """Discard the lookup of a reference."""
        with self._lock:
            self._changes += 1
            self._trusted.pop(reference, None)

    def _confirm(self, reference: str) -> None:
        """Renew a lookup. If that fails, the cached result expires, and the next request gets the error."""
        try:
            self.find(reference, in_use=True)
        finally:
            self._confirming.pop(reference, None)

    def _trust(self, reference: str, trusted: _Trusted, changes: int) -> None:
        with self._lock:
            if changes != self._changes:
                return
            if len(self._trusted) >= MAX_TRUSTED:
                self._trusted.clear()
            self._trusted[reference] = trusted

    def _opened(self, model_id: str) -> ServedModel | None:
        with self._lock:
            model = self._models.get(model_id)
            if model is not None:
                self._models.move_to_end(model_id)
        return model

    def _open(self, row: Location) -> ServedModel:
        stored = file.read(self._blobs.path(row.blob))
        model = ServedModel.opened(row, stored, self._max_predict_bytes)
        with self._lock:
            self._drop(row.id)
            self._models[row.id] = model
            self._bytes += stored.bytes
            while self._bytes > self._max_bytes and len(self._models) > 1:
                self._drop(next(iter(self._models)))
        return model

    def _drop(self, model_id: str) -> None:
        if model := self._models.pop(model_id, None):
            self._bytes -= model.file.bytes


def _trust_seconds(reference: str) -> float:
    return ID_TRUST_SECONDS if is_id("mdl", reference) else NAME_TRUST_SECONDS


def choose_target(alias: str, targets: Sequence[tuple[str, float]], key: str | None) -> str:
    """Choose one of the targets at random by weight.

    With a key, use weighted rendezvous hashing: a change of weights moves only as many keys as necessary.
    """
    if len(targets) == 1:
        return targets[0][0]
    if key is None:
        return random.choices([one for one, _ in targets], [weight for _, weight in targets])[0]
    return max(targets, key=lambda target: -target[1] / math.log(_fraction(alias, target[0], key)))[0]


def _fraction(alias: str, target: str, key: str) -> float:
    """Hash key and target to a number strictly between 0 and 1, uniformly over keys."""
    text = f"{alias}\n{target}\n{key}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return ((int.from_bytes(digest) >> 12) + 0.5) / 2.0**52
