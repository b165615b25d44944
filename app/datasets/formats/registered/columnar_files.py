"""Parquet files and Arrow streams."""

from app.datasets.formats.file_format import COLUMN_OPTIONS, FileFormat, Reader
from app.web import media_types


def _load_parquet() -> Reader:
    from app.datasets.formats.columnar import read_parquet

    return read_parquet


def _load_arrow() -> Reader:
    from app.datasets.formats.columnar import read_arrow

    return read_arrow


PARQUET = FileFormat(
    name="parquet",
    media_type=media_types.PARQUET,
    suffixes=(".parquet",),
    load=_load_parquet,
    options=COLUMN_OPTIONS,
)
ARROW = FileFormat(
    name="arrow",
    media_type=media_types.ARROW,
    suffixes=(".arrow", ".arrows"),
    load=_load_arrow,
    options=COLUMN_OPTIONS,
)
