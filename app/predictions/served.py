"""Models ready to answer: mapped files in a cache that is bounded by bytes."""

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass

from app.db import Database
from app.ids import is_id
from app.models import file, service
from app.models.file import ModelFile
from app.models.repository import Location
from app.predictions.answers import offered
from app.storage import BlobStore

# For so long an answer of the database about a reference is believed, which spares most requests a look: an id can
# only be deleted elsewhere meanwhile, a name can also get a new version.
ID_TRUST_SECONDS = 1.0
NAME_TRUST_SECONDS = 0.1
MAX_TRUSTED = 10_000


@dataclass(frozen=True)
class ServedModel:
    id: str
    name: str
    version: int
    file: ModelFile
    index_of: dict[str, int]  # feature name > column
    outputs: tuple[str, ...]  # what a request may ask for

    @classmethod
    def opened(cls, row: Location, stored: ModelFile) -> "ServedModel":
        names = stored.header.feature_names or []
        index_of = {name: number for number, name in enumerate(names)}
        return cls(row.id, row.name, row.version, stored, index_of, offered(stored))


class ServedModels:
    """Finds a model by reference and keeps the recently used ones open."""

    def __init__(self, database: Database, blobs: BlobStore, max_bytes: int) -> None:
        self._database = database
        self._blobs = blobs
        self._max_bytes = max_bytes
        self._bytes = 0
        self._models: OrderedDict[str, ServedModel] = OrderedDict()
        self._trusted: dict[str, tuple[float, str]] = {}  # reference > until when, id
        self._lock = threading.Lock()

    def recall(self, reference: str) -> ServedModel | None:
        """The model if that takes no I/O: it is open, and what the reference means was confirmed a moment ago."""
        until, model_id = self._trusted.get(reference, (0.0, ""))
        return self._opened(model_id) if time.monotonic() < until else None

    def find(self, reference: str) -> ServedModel:
        """The model, from the database and disk if need be (blocking). Raises NotFound."""
        with self._database.read() as session:
            row = service.locate(session, reference)
        model = self._opened(row.id) or self._open(row)
        trust = ID_TRUST_SECONDS if is_id("mdl", reference) else NAME_TRUST_SECONDS
        with self._lock:
            if len(self._trusted) >= MAX_TRUSTED:
                self._trusted.clear()
            self._trusted[reference] = (time.monotonic() + trust, row.id)
        return model

    def forget(self, model_id: str) -> None:
        """Stop answering from it at once, by whatever reference."""
        with self._lock:
            self._trusted = {ref: known for ref, known in self._trusted.items() if known[1] != model_id}
            self._drop(model_id)

    def _opened(self, model_id: str) -> ServedModel | None:
        with self._lock:
            model = self._models.get(model_id)
            if model is not None:
                self._models.move_to_end(model_id)
        return model

    def _open(self, row: Location) -> ServedModel:
        stored = file.read(self._blobs.path(row.blob))
        model = ServedModel.opened(row, stored)
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
