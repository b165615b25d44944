"""Writes the OpenAPI document in version 3.0, for gateways and generators that do not read version 3.1 fully.

Both documents describe the same requests and answers. Version 3.0 has no word for two things: which keys an object can
have (left out), and messages to webhooks (moved to `x-webhooks`).
"""

from collections.abc import Mapping
from typing import Any

__all__ = ["as_version_30"]

Json = dict[str, Any]

VERSION = "3.0.3"
NULL: Json = {"type": "null"}
SCHEMAS = ("schema", "items", "additionalProperties")
"""Keys whose value is a schema."""
MAPS_OF_SCHEMAS = ("properties", "schemas")
"""Keys whose value is an object of schemas."""
LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "allOf")
VALUES = ("default", "example", "examples", "enum", "value")
"""Keys whose value is data, which stays as it is."""


def as_version_30(document: Mapping[str, Any]) -> Json:
    """Return the document in version 3.0. The given one is not changed."""
    converted: Json = _converted({**document, "openapi": VERSION})
    converted["x-webhooks"] = converted.pop("webhooks", {})
    return converted


def _converted(part: Any) -> Any:
    """Convert the schemas of a part of the document that is not a schema itself."""
    if isinstance(part, list):
        return [_converted(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {key: _value(key, value, _converted) for key, value in part.items()}


def _value(key: str, value: Any, otherwise: Any) -> Any:
    if key in VALUES:
        return value
    if key in SCHEMAS and isinstance(value, dict):
        return _schema(value)
    if key in MAPS_OF_SCHEMAS:
        return {name: _schema(one) for name, one in value.items()}
    if key in LISTS_OF_SCHEMAS:
        return [_schema(one) for one in value]
    return otherwise(value)


def _schema(schema: Json) -> Json:
    schema = _nullable(_keywords(schema))
    written: Json = {key: _value(key, value, lambda same: same) for key, value in schema.items()}
    if "$ref" in written and len(written) > 1:  # what stands beside a reference is ignored
        return {"allOf": [{"$ref": written.pop("$ref")}], **written}
    return written


def _keywords(schema: Json) -> Json:
    """Replace the keywords that version 3.0 does not have."""
    schema = {key: value for key, value in schema.items() if key != "propertyNames"}
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if "examples" in schema:
        schema["example"] = schema.pop("examples")[0]
    for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in schema:
            schema |= {limit: schema[exclusive], exclusive: True}
    return schema


def _nullable(schema: Json) -> Json:
    """Write the alternative of null as `nullable`."""
    choices = schema.get("anyOf", [])
    if NULL not in choices:
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    others = [choice for choice in choices if choice != NULL]
    if len(others) > 1:
        return {"anyOf": others, "nullable": True, **rest}
    (only,) = others
    written = {"allOf": [only]} if "$ref" in only else _keywords(only)
    return {**written, "nullable": True, **rest}
