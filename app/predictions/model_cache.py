"""Models ready to answer: mapped files in a cache that is bounded by bytes."""

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
from app.storage import BlobStore

# For so long an answer of the database about a reference is believed, which spares most requests a look: an id can
# only be deleted elsewhere meanwhile, a name can also get a new version, an alias be moved. A reference that is asked
# for in the last part of that time is looked up again meanwhile, so that no request of a steady flow waits for a look.
ID_TRUST_SECONDS = 1.0
NAME_TRUST_SECONDS = 0.1
LAST_PART = 0.5
LATE_LOOK_SECONDS = 30.0
"""Seconds that an answer is believed beyond its time while a look that began within it has not ended: a database that
is locked does not hold up predictions. Larger: a change elsewhere may be seen later then. As long as SQLite waits for
its lock, after which the look fails."""
MAX_TRUSTED = 10_000
MOST_LOOKS = 5
CONFIRMING_THREADS = 2


@dataclass(frozen=True)
class ServedModel:
    id: str
    name: str
    version: int
    file: ModelFile
    features: Features  # what it wants of a row
    outputs: tuple[str, ...]  # what a request may ask for

    @cached_property
    def is_certified(self) -> bool:
        """Whether its certificate bounds single scores."""
        return Certainty.of(self.file.header) is not None

    @classmethod
    def opened(cls, row: Location, stored: ModelFile, most_bytes: int = MOST_BYTES) -> "ServedModel":
        """`most_bytes` is what the rows of one request may take as numbers."""
        return cls(row.id, row.name, row.version, stored, features_of(stored, most_bytes), offered(stored.header))


class _Trusted(NamedTuple):
    """What a reference was found to mean, and until when that is believed."""

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
        self._changes = 0  # that were told to us: an answer from before one is not believed
        self._confirming: dict[str, _Trusted] = {}  # by reference, what was known when its look began
        self._confirmer = ThreadPoolExecutor(CONFIRMING_THREADS, "confirm")

    def recall(self, reference: str, routing_key: str | None = None) -> ServedModel | None:
        """The model if that takes no I/O: it is open, and what the reference means was confirmed a moment ago."""
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
        """The model, from the database and disk if need be (blocking). Raises NotFound.

        The answer is believed from when it was asked for. That of a reference in use is believed from now: a look that
        waited for a lock would else be out of date when it ends, and the next request would have to wait for another.
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
                continue  # purged since: whoever did it had moved the alias, or the next look finds nothing
            seconds = _trust_seconds(reference)
            asked_at = time.monotonic() if in_use else asked_at
            aging_from, until = asked_at + LAST_PART * seconds, asked_at + seconds
            self._trust(reference, _Trusted(targets, route.shadow, aging_from, until), changes)
            return model
        raise NotFound("There is no such model.")

    def open_file(self, location: Location) -> ServedModel:
        """A model file that is no version (blocking); its `id` is what it is kept open by. Raises FileNotFoundError."""
        return self._opened(location.id) or self._open(location)

    def shadow_of(self, reference: str) -> Location | None:
        """The version that is to score this reference's requests too, as far as was confirmed last."""
        trusted = self._trusted.get(reference)
        return None if trusted is None else trusted.shadow

    def forget(self, model_id: str) -> None:
        """Stop answering from it at once, by whatever reference."""
        with self._lock:
            self._changes += 1
            self._trusted = {
                reference: trusted
                for reference, trusted in self._trusted.items()
                if all(target != model_id for target, _ in trusted.targets)
            }
            self._drop(model_id)

    def forget_reference(self, reference: str) -> None:
        """Ask the database again what it means."""
        with self._lock:
            self._changes += 1
            self._trusted.pop(reference, None)

    def _confirm(self, reference: str) -> None:
        """If it fails, the cached answer expires, and the next request gets the error."""
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
    """One of the targets' ids, each as often as its weight says.

    With a key, by weighted rendezvous hashing: a change of weights moves only as many keys as it must, and a key that
    stays with a version stays however the others share the rest.
    """
    if len(targets) == 1:
        return targets[0][0]
    if key is None:
        return random.choices([one for one, _ in targets], [weight for _, weight in targets])[0]
    return max(targets, key=lambda target: -target[1] / math.log(_fraction(alias, target[0], key)))[0]


def _fraction(alias: str, target: str, key: str) -> float:
    """Between 0 and 1, neither of them; evenly spread over keys and unlike from target to target."""
    text = f"{alias}\n{target}\n{key}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return ((int.from_bytes(digest) >> 12) + 0.5) / 2.0**52
