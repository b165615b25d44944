"""Reading uploaded files: one module a format, one `Table` out of each.

Readers are pure functions of a file and its options. They run in a child process under limits, raise
`InvalidFile` or `InvalidOption`, and load their libraries only when a file of their format comes.
"""

from importlib import import_module
from pathlib import Path
from typing import Literal

from .table import FileError, FileWarning, InvalidFile, InvalidOption, Label, ReadOptions, Table, TaskHint

__all__ = [
    "FileError",
    "FileWarning",
    "Format",
    "InvalidFile",
    "InvalidOption",
    "Label",
    "ReadOptions",
    "Table",
    "TaskHint",
    "read",
    "warm",
]

Format = Literal["csv", "libsvm"]


def read(path: Path, format: Format, options: ReadOptions) -> Table:
    """Parse one file. Nothing of it is stored; the arrays of the table are the caller's."""
    if format == "csv":
        from .csv import read_csv

        return read_csv(path, options)
    from .libsvm import read_libsvm

    return read_libsvm(path, options)


def warm() -> None:
    """Compile what is compiled on first use and import what is slow to import."""
    import_module(".csv", __package__)
    from .libsvm import warm as warm_libsvm

    warm_libsvm()
