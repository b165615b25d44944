"""Media types of the formats that the service reads, and guessing them from file names."""

from os import PathLike
from pathlib import PurePath

__all__ = ["ARROW", "CSV", "JSON", "NPY", "NPZ", "PARQUET", "file_headers"]

JSON = "application/json"
CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
NPY = "application/x-npy"
NPZ = "application/x-npz"

SUFFIXES = {
    ".csv": CSV,
    ".tsv": "text/tab-separated-values",
    ".libsvm": "text/x-libsvm",
    ".svmlight": "text/x-libsvm",
    ".svm": "text/x-libsvm",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".parquet": PARQUET,
    ".arrow": ARROW,
    ".arrows": ARROW,
    ".npz": NPZ,
}
ENCODINGS = {".gz": "gzip", ".zst": "zstd"}


def file_headers(name: str | PathLike[str]) -> dict[str, str]:
    """Return the headers of a file by its suffixes. An unknown suffix is a ValueError that lists the known ones."""
    file = PurePath(name)
    encoding = ENCODINGS.get(file.suffix.lower())
    stem = PurePath(file.stem) if encoding else file
    media_type = SUFFIXES.get(stem.suffix.lower())
    if media_type is None:
        known = f"{', '.join(SUFFIXES)}, each with {' or '.join(ENCODINGS)} or without"
        raise ValueError(f"{file.name}: the suffix must be one of {known}; or name the format with content_type")
    return {"Content-Type": media_type} | ({"Content-Encoding": encoding} if encoding else {})
