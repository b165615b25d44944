"""Chooses the reader of a request body by its Content-Type."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import msgspec

from app.errors import UnsupportedMediaType
from app.predictions import array_rows, arrow_rows, json_rows, text_rows
from app.predictions.model_features import Features
from app.predictions.rows import Rows
from app.web.media_types import ARROW, CSV, JSON, LIBSVM, NDJSON, NPY, NPZ, TSV


class Request(NamedTuple):
    """A parsed body: its rows, and the outputs and the coverage of sets that it requests (JSON only)."""

    rows: Rows
    wanted: list[str] | None = None
    coverage: float | None = None


class Body(NamedTuple):
    """A received body with its headers."""

    content: bytes
    parameters: dict[str, str]
    """Parameters of the Content-Type."""
    features: Features
    index_base: int
    """Number of the first feature in libsvm rows."""


def read(content: bytes, content_type: str | None, features: Features, index_base: int = 1) -> Request:
    """Parse a body. Raises UnsupportedMediaType, Unparsable or Invalid."""
    media_type, parameters = known_type(content_type)
    return READERS[media_type](Body(content, parameters, features, index_base))


def rows_in(content: bytes, content_type: str | None, features: Features, index_base: int = 1) -> Rows:
    return read(content, content_type, features, index_base).rows


def known_type(content_type: str | None) -> tuple[str, dict[str, str]]:
    """Return media type and parameters of a Content-Type. Raises UnsupportedMediaType."""
    if content_type in READERS:
        return content_type, {}
    media_type, parameters = split_type(content_type or "")
    if media_type not in READERS:
        raise UnsupportedMediaType(f"Send the rows as one of {', '.join(READERS)} (Content-Type).")
    return media_type, parameters


def split_type(content_type: str) -> tuple[str, dict[str, str]]:
    name, *pieces = content_type.split(";")
    pairs = (piece.partition("=") for piece in pieces)
    parameters = {key.strip().lower(): value.strip().strip('"').lower() for key, _, value in pairs}
    return name.strip().lower(), parameters


def _json(body: Body) -> Request:
    request = json_rows.read_json(body.content, body.features)
    return Request(request.rows, None if request.wanted is msgspec.UNSET else request.wanted, request.coverage)


def _ndjson(body: Body) -> Request:
    return Request(json_rows.read_ndjson(body.content, body.features))


def _delimited(delimiter: str, body: Body) -> Request:
    return Request(text_rows.read_csv(body.content, body.features, delimiter, body.parameters.get("header")))


def _libsvm(body: Body) -> Request:
    return Request(text_rows.read_libsvm(body.content, body.features, body.index_base))


def _arrow(body: Body) -> Request:
    return Request(arrow_rows.read_arrow(body.content, body.features))


def _npy(body: Body) -> Request:
    return Request(array_rows.read_npy(body.content, body.features))


def _npz(body: Body) -> Request:
    return Request(array_rows.read_npz(body.content, body.features))


READERS: dict[str, Callable[[Body], Request]] = {
    JSON: _json,
    NDJSON: _ndjson,
    CSV: partial(_delimited, ","),
    TSV: partial(_delimited, "\t"),
    LIBSVM: _libsvm,
    ARROW: _arrow,
    NPY: _npy,
    NPZ: _npz,
}
