"""Media types of the formats, and guessing them from file names."""

from collections.abc import Mapping

JSON = "application/json"
CSV = "text/csv"
TSV = "text/tab-separated-values"
LIBSVM = "text/x-libsvm"
NDJSON = "application/x-ndjson"
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
NPY = "application/x-npy"
NPZ = "application/x-npz"

ENCODING_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}


def guess_type(file_name: str, suffixes: Mapping[str, str]) -> tuple[str | None, str]:
    """Return (media type or None, content encoding) by the last suffixes of a name, such as `rows.csv.gz`."""
    stem, dot, last = file_name.lower().rpartition(".")
    encoding = ENCODING_SUFFIXES.get(dot + last, "identity")
    if encoding != "identity":
        _, dot, last = stem.rpartition(".")
    return suffixes.get(dot + last), encoding
