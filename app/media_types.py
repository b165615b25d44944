"""What a file's name says about what is in it. Imports nothing: the client uses it too."""

SUFFIXES = {
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".libsvm": "text/x-libsvm",
    ".svmlight": "text/x-libsvm",
    ".svm": "text/x-libsvm",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".arrow": "application/vnd.apache.arrow.stream",
    ".arrows": "application/vnd.apache.arrow.stream",
    ".npz": "application/x-npz",
}
ENCODING_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}


def guess_type(file_name: str) -> tuple[str | None, str]:
    """(media type or None, content encoding) by the name's last one or two suffixes: `rows.csv.gz`."""
    stem, dot, last = file_name.lower().rpartition(".")
    encoding = ENCODING_SUFFIXES.get(dot + last, "identity")
    if encoding != "identity":
        _, dot, last = stem.rpartition(".")
    return SUFFIXES.get(dot + last), encoding
