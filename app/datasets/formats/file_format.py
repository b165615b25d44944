"""Declares the type `FileFormat`, and finds the formats that `registered/` declares."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from app.datasets.formats import registered
from app.datasets.formats.table import InvalidOption, ReadOptions, Summary
from app.plugins import declared

if TYPE_CHECKING:  # their modules need pyarrow
    from app.datasets.formats.collect import Collector
    from app.datasets.formats.compressed import Ceiling

__all__ = ["COLUMN_OPTIONS", "PARAMETERS", "FileFormat", "Reader", "check_options", "file_formats", "named"]

Reader = Callable[[Path, ReadOptions, "Collector", "Ceiling"], Summary]
"""A function that reads a decompressed file and passes its rows to the collector, block by block."""

COLUMN_OPTIONS = (
    "target",
    "weight",
    "group",
    "ignore",
    "columns",
    "on_missing_target",
    "decimal",
    "thousands",
    "date_order",
)
"""Read options that every format with named columns accepts."""
PARAMETERS = {"charset": "encoding"}
"""Query parameters whose name differs from the field of ReadOptions."""


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """The declaration of a format. Its module must not import the reader, because the API process imports all
    declarations."""

    name: str
    media_type: str
    suffixes: tuple[str, ...]
    """Suffixes of file names, in lower case and with a dot."""
    load: Callable[[], Reader]
    """Imports the reader, compiles its kernels and returns it. Called once per file, and once at the start of the
    forkserver."""
    options: tuple[str, ...] = ()
    """Fields of `ReadOptions` that the format accepts, besides `encoding`."""


@cache
def file_formats() -> dict[str, FileFormat]:
    """Return all formats by name."""
    return declared(registered, FileFormat)


def named(format: str) -> FileFormat:
    """Return the format of this name. Raises InvalidOption if it is not installed, as can be the case for an old
    dataset."""
    formats = file_formats()
    if format not in formats:
        raise InvalidOption("format", f"There is no format {format}; the formats are {', '.join(formats)}.")
    return formats[format]


def check_options(options: ReadOptions, format: FileFormat) -> None:
    """Raise InvalidOption for an option that the format does not accept."""
    for option in fields(ReadOptions):
        is_set = option.name != "encoding" and getattr(options, option.name) != option.default
        if is_set and option.name not in format.options:
            takers = [one.name for one in file_formats().values() if option.name in one.options]
            detail = f"The format {format.name} does not accept this option; use {' or '.join(takers)}."
            raise InvalidOption(PARAMETERS.get(option.name, option.name), detail)
