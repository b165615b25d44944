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
from app.storage import BlobStore

# For this long a model's id is answered without asking the database whether it was deleted elsewhere.
TRUST_SECONDS = 1.0


@dataclass(frozen=True)
class ServedModel:
    id: str
    name: str
    version: int
    file: ModelFile
    index_of: dict[str, int]  # feature name > column


class ServedModels:
    """Finds a model by reference and keeps the recently used ones open."""

    def __init__(self, database: Database, blobs: BlobStore, max_bytes: int) -> None:
        self._database = database
        self._blobs = blobs
        self._max_bytes = max_bytes
        self._bytes = 0
        self._models: OrderedDict[str, ServedModel] = OrderedDict()
        self._trusted_until: dict[str, float] = {}
        self._lock = threading.Lock()

    def recall(self, reference: str) -> ServedModel | None:
        """The model if that takes no I/O: asked for by id, open, and confirmed a moment ago."""
        if time.monotonic() >= self._trusted_until.get(reference, 0.0):
            return None
        with self._lock:
            model = self._models.get(reference)
            if model is not None:
                self._models.move_to_end(reference)
        return model

    def find(self, reference: str) -> ServedModel:
        """The model, from the database and disk if need be (blocking). Raises NotFound."""
        with self._database.read() as session:
            row = service.locate(session, reference)
        with self._lock:
            model = self._models.get(row.id)
            if model is not None:
                self._models.move_to_end(row.id)
        if model is None:
            model = self._open(row)
        if is_id("mdl", reference):
            self._trusted_until[row.id] = time.monotonic() + TRUST_SECONDS
        return model

    def forget(self, model_id: str) -> None:
        with self._lock:
            self._drop(model_id)

    def _open(self, row: Location) -> ServedModel:
        stored = file.read(self._blobs.path(row.blob))
        names = stored.header.feature_names or []
        model = ServedModel(row.id, row.name, row.version, stored, {name: i for i, name in enumerate(names)})
        with self._lock:
            self._drop(row.id)
            self._models[row.id] = model
            self._bytes += stored.bytes
            while self._bytes > self._max_bytes and len(self._models) > 1:
                self._drop(next(iter(self._models)))
        return model

    def _drop(self, model_id: str) -> None:
        self._trusted_until.pop(model_id, None)
        if model := self._models.pop(model_id, None):
            self._bytes -= model.file.bytes
