"""Media types of the formats, and guessing them from file names. Imports only types, because the client uses it too."""

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

SUFFIXES: Mapping[str, str] = {
    ".csv": CSV,
    ".tsv": TSV,
    ".libsvm": LIBSVM,
    ".svmlight": LIBSVM,
    ".svm": LIBSVM,
    ".ndjson": NDJSON,
    ".jsonl": NDJSON,
    ".parquet": PARQUET,
    ".arrow": ARROW,
    ".arrows": ARROW,
    ".npz": NPZ,
}
"""File name suffixes that the client knows. The service uses those that its formats declare (app/datasets/formats)."""
ENCODING_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}


def guess_type(file_name: str, suffixes: Mapping[str, str] = SUFFIXES) -> tuple[str | None, str]:
    """Return (media type or None, content encoding) by the last suffixes of a name, such as `rows.csv.gz`."""
    stem, dot, last = file_name.lower().rpartition(".")
    encoding = ENCODING_SUFFIXES.get(dot + last, "identity")
    if encoding != "identity":
        _, dot, last = stem.rpartition(".")
    return suffixes.get(dot + last), encoding
