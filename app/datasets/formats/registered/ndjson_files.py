"""ndjson: one JSON object per line."""

from app.datasets.formats.file_format import COLUMN_OPTIONS, FileFormat, Reader
from app.web import media_types


def _load() -> Reader:
    from app.datasets.formats.ndjson import read_ndjson

    return read_ndjson


NDJSON = FileFormat(
    name="ndjson",
    media_type=media_types.NDJSON,
    suffixes=(".ndjson", ".jsonl"),
    load=_load,
    options=COLUMN_OPTIONS,
)
