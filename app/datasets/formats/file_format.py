"""What a format of uploaded files is, and the registry of those that `registered/` declares."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from app.datasets.formats import registered
from app.datasets.formats.table import InvalidOption, ReadOptions, Summary
from app.plugins import declared

if TYPE_CHECKING:  # they need pyarrow
    from app.datasets.formats.collect import Collector
    from app.datasets.formats.compressed import Ceiling

__all__ = ["COLUMN_OPTIONS", "FileFormat", "Reader", "check_options", "file_formats", "named"]

Reader = Callable[[Path, ReadOptions, "Collector", "Ceiling"], Summary]
"""Takes a file without its compression and gives its rows to the collector, block by block."""

COLUMN_OPTIONS = ("target", "weight", "group", "ignore")
"""Options of formats whose columns have names."""


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """The declaration of one format. Declarations import no reader: the API process holds them all."""

    name: str
    media_type: str
    suffixes: tuple[str, ...]
    """Of file names, in lower case and with their dot."""
    load: Callable[[], Reader]
    """Imports the reader, compiles its kernels and returns it. Called for each file, and ahead of the first one by
    the process that children are forked from."""
    options: tuple[str, ...] = ()
    """The fields of `ReadOptions` that have a meaning for its files; `encoding` has one for all."""


@cache
def file_formats() -> dict[str, FileFormat]:
    """All formats by name."""
    return declared(registered, FileFormat)


def named(format: str) -> FileFormat:
    """The format of this name; a stored dataset can be of one that is no longer installed."""
    formats = file_formats()
    if format not in formats:
        raise InvalidOption("format", f"There is no format {format}; there are {', '.join(formats)}.")
    return formats[format]


def check_options(options: ReadOptions, format: FileFormat) -> None:
    """Raise InvalidOption for an option that was set and that files of this format do not take."""
    for option in fields(ReadOptions):
        is_set = option.name != "encoding" and getattr(options, option.name) != option.default
        if is_set and option.name not in format.options:
            takers = [one.name for one in file_formats().values() if option.name in one.options]
            detail = f"Only files of the format {' or '.join(takers)} take it, not {format.name}."
            raise InvalidOption(option.name, detail)
