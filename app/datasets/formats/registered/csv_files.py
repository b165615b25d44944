"""CSV and TSV."""

from app.datasets.formats.file_format import COLUMN_OPTIONS, FileFormat, Reader
from app.web import media_types


def _load_csv() -> Reader:
    from app.datasets.formats import csv

    csv.warm()
    return csv.read_csv


def _load_tsv() -> Reader:
    from app.datasets.formats import csv

    csv.warm()
    return csv.read_tsv


CSV = FileFormat(
    name="csv",
    media_type=media_types.CSV,
    suffixes=(".csv",),
    load=_load_csv,
    options=(*COLUMN_OPTIONS, "charset", "delimiter", "header", "missing"),
)
TSV = FileFormat(
    name="tsv",
    media_type=media_types.TSV,
    suffixes=(".tsv",),
    load=_load_tsv,
    options=(*COLUMN_OPTIONS, "charset", "header", "missing"),
)
