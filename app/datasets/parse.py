"""What a parser child does: read a file, store its arrays, describe the rest. Imports neither web nor database."""

from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from app.datasets import formats
from app.datasets.formats import Format, InvalidFile, InvalidOption, ReadOptions, Table
from app.storage import BlobStore


@dataclass(frozen=True)
class Parsed:
    """A parsed dataset: its arrays are blobs already, its description is plain data for the row."""

    arrays: dict[str, str]  # array name > sha256
    sizes: dict[str, int]  # sha256 > bytes
    description: dict[str, Any]  # columns of DatasetRow


def do_nothing() -> None:
    return


def parse(reply: Connection, blob_root: Path, path: Path, file_format: Format, options: ReadOptions) -> None:
    try:
        table = formats.read(path, file_format, options)
        reply.send(_store(BlobStore(blob_root), table))
    except (InvalidFile, InvalidOption, OSError, MemoryError) as error:
        reply.send(error)


def _store(blobs: BlobStore, table: Table) -> Parsed:
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
    return Parsed(arrays, {sha256: blobs.size(sha256) for sha256 in arrays.values()}, description)


def _columns(table: Table) -> list[dict[str, str]]:
    if table.feature_names is None:
        return []
    columns = [{"name": name, "role": "feature"} for name in table.feature_names]
    return [*columns, {"name": table.target, "role": "target"}] if table.target else columns
