"""The work of a parser process: read a file, store its arrays, describe the dataset. Imports no web, no database."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.datasets import formats
from app.datasets.formats import Ceiling, Format, ReadOptions, Summary
from app.datasets.reading.blob_sink import BlobSink
from app.storage import BlobStore

ARRAYS_RATIO = 4
"""Maximum bytes of arrays per byte of the largest allowed text: "0," has two bytes and becomes eight."""
MAX_ARRAYS_RATIO = 200
"""Maximum bytes of arrays per byte of the uploaded file. Larger: a small compressed file can fill more of the disk."""
ANY_ARRAYS_BYTES = 256 << 20
"""Bytes of arrays that a file of any size is allowed; MAX_ARRAYS_RATIO limits only larger arrays. Larger: a small
compressed file can fill more of the disk."""


@dataclass(frozen=True)
class Parsed:
    """A parsed dataset: its arrays are stored as blobs; its description is plain data for the row."""

    arrays: dict[str, str]  # array name > sha256
    sizes: dict[str, int]  # sha256 > bytes
    description: dict[str, Any]  # columns of DatasetRow


def parse(
    blob_root: Path, path: Path, file_format: Format, options: ReadOptions, most_bytes: int, reserve_bytes: int = 0
) -> Parsed:
    """Read a file. `most_bytes`: maximum size of the decompressed text. `reserve_bytes`: disk space to keep free."""
    blobs = BlobStore(blob_root, create=False)  # where there is no store, nothing is written
    ceiling = Ceiling(most_bytes, blobs.staging, reserve_bytes)
    by_file = max(ANY_ARRAYS_BYTES, MAX_ARRAYS_RATIO * path.stat().st_size)
    with BlobSink(blobs, min(ARRAYS_RATIO * most_bytes, by_file), reserve_bytes) as sink:
        summary = formats.read_into(sink, path, file_format, options, ceiling)
        arrays = sink.commit()
    return Parsed(arrays, {sha256: blobs.size(sha256) for sha256 in arrays.values()}, _describe(summary))


def _describe(summary: Summary) -> dict[str, Any]:
    return {
        "n_rows": summary.n_rows,
        "n_features": summary.n_features,
        "nnz": summary.nnz,
        "storage": summary.storage,
        "task_hint": summary.task_hint,
        "label_names": summary.labels,
        "classes": [{"label": label, "count": count} for label, count in summary.class_counts],
        "columns": _columns(summary),
        "warnings": [asdict(warning) for warning in summary.warnings],
    }


def _columns(summary: Summary) -> list[dict[str, Any]]:
    known = (asdict(column) for column in summary.columns)
    return [{key: value for key, value in column.items() if value is not None} for column in known]
