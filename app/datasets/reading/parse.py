"""What a parser process does: read a file, store its arrays, describe the dataset. Imports no web and no database
module."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.datasets import formats
from app.datasets.formats import Ceiling, Format, ReadOptions, Summary
from app.datasets.reading.blob_sink import BlobSink
from app.storage import BlobStore

ARRAYS_RATIO = 4
"""Maximum bytes of arrays per byte of the largest allowed text. Larger: an upload can fill more of the disk. Four,
because the cell "0," has two bytes and becomes a float64 of eight."""
MAX_ARRAYS_RATIO = 200
"""Maximum bytes of arrays per byte of the uploaded file. Larger: a small compressed file can fill more of the disk. Set
by hand; no measurement is recorded."""
ANY_ARRAYS_BYTES = 256 << 20
"""Size of the arrays in bytes up to which MAX_ARRAYS_RATIO does not apply. Larger: a small compressed file can fill
more of the disk. Set by hand; no measurement is recorded."""


@dataclass(frozen=True)
class Parsed:
    """A parsed dataset: the hashes of its arrays, which are stored as blobs, and the values of its database row."""

    arrays: dict[str, str]  # array name to SHA-256
    sizes: dict[str, int]  # SHA-256 to size in bytes
    description: dict[str, Any]  # column of DatasetRow to value


def parse(
    blob_root: Path, path: Path, file_format: Format, options: ReadOptions, most_bytes: int, reserve_bytes: int = 0
) -> Parsed:
    """Parse a file and store its arrays. `most_bytes` is the maximum size of the decompressed text, `reserve_bytes` the
    disk space to keep free; both in bytes."""
    blobs = BlobStore(blob_root, create=False)  # raises if the store does not exist, and does not create it
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
        "task_hint": summary.task_hint or "",
        "label_names": summary.labels,
        "classes": [{"label": label, "count": count} for label, count in summary.class_counts],
        "columns": _columns(summary),
        "warnings": [asdict(warning) for warning in summary.warnings],
    }


def _columns(summary: Summary) -> list[dict[str, Any]]:
    known = (asdict(column) for column in summary.columns)
    return [{key: value for key, value in column.items() if value is not None} for column in known]
