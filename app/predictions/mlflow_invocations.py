"""`…/invocations`: the request bodies of MLflow's scoring server, and its response `{"predictions": [...]}`."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app.errors import invalid_field
from app.predictions import request_bodies
from app.predictions.json_rows import check_values, decoded, rows_of
from app.predictions.model_cache import ServedModel
from app.predictions.model_features import Features
from app.predictions.outputs import SET, chosen
from app.predictions.response_formats import Reply, plain, records
from app.predictions.rows import Columns, ListRows, NamedRows, Places, Rows
from app.predictions.schemas import INVOCATION_FORMS
from app.predictions.service import headers_of, score
from app.web.media_types import JSON

_encode = msgspec.json.Encoder().encode


class DataframeSplit(msgspec.Struct, forbid_unknown_fields=True):
    data: list[list[Any]]
    columns: list[str | int] | None = None
    index: list[Any] | None = None  # names of the rows, which are ignored


class Params(msgspec.Struct, forbid_unknown_fields=True):
    """`params` of a request: here only the outputs."""

    wanted: list[str] | None = msgspec.field(default=None, name="return")


class InvocationsBody(msgspec.Struct, forbid_unknown_fields=True):
    dataframe_split: DataframeSplit | None = None
    dataframe_records: list[dict[str, Any]] | None = None
    instances: list[Any] | dict[str, list[Any]] | None = None
    inputs: list[Any] | dict[str, list[Any]] | None = None
    params: Params | None = None


_decode = msgspec.json.Decoder(InvocationsBody).decode


def invoke_with(model: ServedModel, body: bytes, content_type: str | None) -> Reply:
    """Answer with one value per row, or with records if `params.return` lists several outputs."""
    rows, wanted = _read(body, content_type, model.features)
    offered = tuple(name for name in model.outputs if name != SET)
    outputs = chosen(offered, wanted, ("label",) if "label" in offered else ("score",))
    scored = score(model, rows)
    columns = scored.columns(outputs)
    answers = plain(next(iter(columns.values()))) if len(columns) == 1 else records(columns)
    return Reply(_encode({"predictions": answers}), JSON, headers_of(model, scored))


def rows_in(body: bytes, content_type: str | None, features: Features) -> Rows:
    return _read(body, content_type, features)[0]


def _read(body: bytes, content_type: str | None, features: Features) -> tuple[Rows, list[str] | None]:
    if request_bodies.known_type(content_type)[0] != JSON:
        return request_bodies.rows_in(body, content_type, features), None
    check_values(body, features)
    request: InvocationsBody = decoded(_decode, body)
    given = [name for name in INVOCATION_FORMS if getattr(request, name) is not None]
    if len(given) != 1:
        raise invalid_field("body", "wrong_shape", f"give exactly one of {', '.join(INVOCATION_FORMS)}")
    wanted = request.params.wanted if request.params else None
    if request.dataframe_split is not None:
        return _from_split(request.dataframe_split, features), wanted
    if request.dataframe_records is not None:
        features.admit(len(request.dataframe_records), "dataframe_records")
        return NamedRows(request.dataframe_records, Places("dataframe_records")), wanted
    value = request.instances if request.instances is not None else request.inputs
    assert value is not None
    if isinstance(value, dict):
        return _from_columns(value, given[0], features), wanted
    return rows_of(value, features, Places(given[0])), wanted


def _from_split(frame: DataframeSplit, features: Features) -> Rows:
    places = Places("dataframe_split.data")
    features.admit(len(frame.data), places.name)
    names = frame.columns
    if names is None:
        return ListRows(frame.data, places)
    for number, row in enumerate(frame.data):
        if len(row) != len(names):
            raise places.refuse(number, "wrong_width", f"has {len(row)} values; columns has {len(names)} names")
    if names and all(isinstance(name, int) for name in names):
        if names != list(range(len(names))):
            detail = "numbered columns must be 0, 1, 2, … in this order"
            raise invalid_field("dataframe_split.columns", "wrong_order", detail)
        return ListRows(frame.data, places)
    if not features.names:
        return ListRows(frame.data, places)
    if len(set(names)) != len(names):
        raise invalid_field("dataframe_split.columns", "duplicate_column", "a column occurs twice")
    columns = zip(*frame.data, strict=True)
    return Columns({str(name): column for name, column in zip(names, columns, strict=True)}, len(frame.data), places)


def _from_columns(columns: Mapping[str, Sequence[Any]], field: str, features: Features) -> Rows:
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise invalid_field(field, "wrong_length", "all columns must have the same number of values")
    n_rows = lengths.pop() if lengths else 0
    features.admit(n_rows, field)
    return Columns(columns, n_rows, Places(field))
