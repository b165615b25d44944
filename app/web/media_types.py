"""The names of formats, and what a file's name says about what is in it. Imports nothing but types: the client uses
it too."""

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
"""Suffixes that the client knows. The service has those that its formats declare (app/datasets/formats)."""
ENCODING_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}


def guess_type(file_name: str, suffixes: Mapping[str, str] = SUFFIXES) -> tuple[str | None, str]:
    """(media type or None, content encoding) by the name's last one or two suffixes: `rows.csv.gz`."""
    stem, dot, last = file_name.lower().rpartition(".")
    encoding = ENCODING_SUFFIXES.get(dot + last, "identity")
    if encoding != "identity":
        _, dot, last = stem.rpartition(".")
    return suffixes.get(dot + last), encoding
