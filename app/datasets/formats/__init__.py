"""Reading uploaded files: one module a format, the same arrays and summary out of each.

Readers take a file and its options and pass rows on block by block, so that their memory does not grow
with the file. They run in a child process under limits, raise `InvalidFile`, `InvalidOption` or
`TooLarge`, and load their libraries only when a file of their format comes.
"""

from importlib import import_module
from pathlib import Path
from typing import get_args

from app.datasets.formats.collect import Collector, MemorySink, Sink
from app.datasets.formats.compressed import Ceiling, expanded
from app.datasets.formats.table import (
    Encoding,
    FileError,
    FileWarning,
    Format,
    InvalidFile,
    InvalidOption,
    Label,
    ReadOptions,
    Summary,
    Table,
    TaskHint,
    TooLarge,
    check_options,
)

__all__ = [
    "ENCODINGS",
    "MEDIA_TYPES",
    "Ceiling",
    "Encoding",
    "FileError",
    "FileWarning",
    "Format",
    "InvalidFile",
    "InvalidOption",
    "Label",
    "ReadOptions",
    "Sink",
    "Summary",
    "Table",
    "TaskHint",
    "TooLarge",
    "read",
    "read_into",
    "warm",
]

MEDIA_TYPES: dict[str, Format] = {
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/x-libsvm": "libsvm",
    "application/x-ndjson": "ndjson",
    "application/vnd.apache.parquet": "parquet",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/x-npz": "npz",
}
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
READERS: dict[Format, tuple[str, str]] = {
    "csv": (".csv", "read_csv"),
    "tsv": (".csv", "read_tsv"),
    "libsvm": (".libsvm", "read_libsvm"),
    "ndjson": (".ndjson", "read_ndjson"),
    "parquet": (".columnar", "read_parquet"),
    "arrow": (".columnar", "read_arrow"),
    "npz": (".npz", "read_npz"),
}


def read_into(sink: Sink, path: Path, format: Format, options: ReadOptions, ceiling: Ceiling) -> Summary:
    """Parse one file and give its rows to a sink. What a sink got before an error is of no use."""
    check_options(options, format)
    module, function = READERS[format]
    reader = getattr(import_module(module, __package__), function)
    with expanded(path, options.encoding, ceiling) as plain:
        summary: Summary = reader(plain, options, Collector(sink), ceiling)
        return summary


def read(path: Path, format: Format, options: ReadOptions) -> Table:
    """Parse one small file into memory."""
    sink = MemorySink()
    summary = read_into(sink, path, format, options, Ceiling())
    return Table(**vars(summary), arrays=sink.arrays())


def warm() -> None:
    """Compile what is compiled on first use and import what is slow to import."""
    for module, _ in READERS.values():
        import_module(module, __package__)
    from app.datasets.formats import csv, libsvm
    from solvers.linalg.kernel_cache import forget_stale

    forget_stale(Path(__file__).parent)
    csv.warm()
    libsvm.warm()
