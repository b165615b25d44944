"""Readers of uploaded files. Every reader produces the same arrays and the same summary.

A reader gets a file and options and passes its rows on in blocks, so its memory use does not grow with the file.
Readers run in a child process with limits on memory and time, and raise `InvalidFile`, `InvalidOption` or `TooLarge`.
`registered/` declares the formats. A reader and its libraries are imported on first use, so importing this package
imports neither pyarrow nor numba.
"""

from pathlib import Path
from typing import TYPE_CHECKING, get_args

from app.datasets.formats.compressed import Ceiling, expanded
from app.datasets.formats.file_format import FileFormat, check_options, file_formats, named
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
)

if TYPE_CHECKING:  # its module needs pyarrow
    from app.datasets.formats.collect import Sink

__all__ = [
    "ENCODINGS",
    "Ceiling",
    "Encoding",
    "FileError",
    "FileFormat",
    "FileWarning",
    "Format",
    "InvalidFile",
    "InvalidOption",
    "Label",
    "ReadOptions",
    "Summary",
    "Table",
    "TaskHint",
    "TooLarge",
    "file_formats",
    "read",
    "read_into",
    "warm",
]

ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)


def read_into(sink: "Sink", path: Path, format: Format, options: ReadOptions, ceiling: Ceiling) -> Summary:
    """Parse a file and pass its rows to a sink. If this raises, discard the content of the sink."""
    from app.datasets.formats.collect import Collector

    chosen = named(format)
    check_options(options, chosen)
    read_file = chosen.load()
    with expanded(path, options.encoding, ceiling) as plain:
        return read_file(plain, options, Collector(sink), ceiling)


def read(path: Path, format: Format, options: ReadOptions) -> Table:
    """Parse a small file into memory."""
    from app.datasets.formats.collect import MemorySink

    sink = MemorySink()
    summary = read_into(sink, path, format, options, Ceiling())
    return Table(**vars(summary), arrays=sink.arrays())


def warm() -> None:
    """Load every reader: compile its kernels and import its libraries."""
    from solvers.linalg.kernel_cache import forget_stale

    forget_stale(Path(__file__).parent)
    for one in file_formats().values():
        one.load()
