"""The names of formats, and what a file's name says about what is in it. Imports nothing: the client uses it too."""

JSON = "application/json"
CSV = "text/csv"
TSV = "text/tab-separated-values"
LIBSVM = "text/x-libsvm"
NDJSON = "application/x-ndjson"
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
NPY = "application/x-npy"
NPZ = "application/x-npz"

SUFFIXES = {
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
ENCODING_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}


def guess_type(file_name: str) -> tuple[str | None, str]:
    """(media type or None, content encoding) by the name's last one or two suffixes: `rows.csv.gz`."""
    stem, dot, last = file_name.lower().rpartition(".")
    encoding = ENCODING_SUFFIXES.get(dot + last, "identity")
    if encoding != "identity":
        _, dot, last = stem.rpartition(".")
    return SUFFIXES.get(dot + last), encoding
