"""Turn an uploaded file into mapped arrays, in a child process that a bad file may crash alone.

The child comes from a forkserver that has the parser's kernels compiled, so it starts in milliseconds.
"""

import multiprocessing
import threading
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from app.datasets import formats
from app.datasets.formats import Format, InvalidFile, InvalidOption, ReadOptions, Table
from app.errors import AppError, ErrorItem, Invalid, invalid_field
from app.storage import BlobStore

PRELOAD = "app.datasets.preload"


@dataclass(frozen=True)
class Ingested:
    """A parsed dataset: its arrays are blobs already, its description is plain data for the row."""

    arrays: dict[str, str]  # array name > sha256
    sizes: dict[str, int]  # sha256 > bytes
    description: dict[str, Any]  # columns of DatasetRow


class Ingestor:
    """Runs parser children, at most `slots` at a time."""

    def __init__(self, blob_root: Path, slots: int = 2) -> None:
        self._blob_root = blob_root
        self._slots = threading.BoundedSemaphore(slots)
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload([PRELOAD])
        self.warm = False

    def warm_up(self) -> None:
        """Start the forkserver and wait until it has compiled its kernels."""
        child = self._processes.Process(target=_do_nothing, daemon=True)
        child.start()
        child.join()
        self.warm = child.exitcode == 0

    def ingest(self, path: Path, file_format: Format, options: ReadOptions) -> Ingested:
        """Parse a file (blocking). Raises Invalid with every place that is wrong."""
        with self._slots:
            ours, theirs = self._processes.Pipe(duplex=False)
            arguments = (theirs, self._blob_root, path, file_format, options)
            child = self._processes.Process(target=_child, args=arguments, daemon=True)
            child.start()
            theirs.close()
            try:
                outcome = ours.recv()
            except EOFError:
                outcome = None
            finally:
                ours.close()
                child.join()
        if outcome is None:
            raise AppError("The process that parsed this file died; nothing was stored.", code="parser_died")
        if isinstance(outcome, InvalidFile):
            items = [ErrorItem(**asdict(error)) for error in outcome.errors]
            raise Invalid(str(outcome), code="invalid_file", errors=items) from outcome
        if isinstance(outcome, InvalidOption):
            raise invalid_field(outcome.field, "invalid_option", outcome.detail) from outcome
        if isinstance(outcome, BaseException):
            raise outcome
        assert isinstance(outcome, Ingested)
        return outcome


def _do_nothing() -> None:
    return


def _child(reply: Connection, blob_root: Path, path: Path, file_format: Format, options: ReadOptions) -> None:
    try:
        table = formats.read(path, file_format, options)
        reply.send(_store(BlobStore(blob_root), table))
    except (InvalidFile, InvalidOption, OSError, MemoryError) as error:
        reply.send(error)


def _store(blobs: BlobStore, table: Table) -> Ingested:
    arrays = {name: blobs.put_array(array) for name, array in table.arrays.items()}
    description = {
        "n_rows": table.n_rows,
        "n_features": table.n_features,
        "nnz": table.nnz,
        "storage": table.storage,
        "task_hint": table.task_hint,
        "label_names": table.labels,
        "classes": [{"label": label, "count": count} for label, count in table.class_counts],
        "columns": _columns(table),
        "warnings": [asdict(warning) for warning in table.warnings],
    }
    return Ingested(arrays, {sha256: blobs.size(sha256) for sha256 in arrays.values()}, description)


def _columns(table: Table) -> list[dict[str, str]]:
    if table.feature_names is None:
        return []
    columns = [{"name": name, "role": "feature"} for name in table.feature_names]
    return [*columns, {"name": table.target, "role": "target"}] if table.target else columns
