"""The OpenAPI document in version 3.0 says the same as the one in version 3.1, in words of version 3.0."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from app.web.api_document_30 import as_version_30
from docs.scripts.reference import DOCUMENT

Json = dict[str, Any]
OF_31 = {"const", "examples", "prefixItems", "patternProperties", "propertyNames", "$defs", "if", "then", "else"}
DATA = {"default", "example", "examples", "enum", "value"}


def schemas(part: Any, is_schema: bool = False) -> Iterator[Json]:
    if isinstance(part, list):
        for one in part:
            yield from schemas(one, is_schema)
    elif isinstance(part, dict):
        if is_schema:
            yield part
        for key, value in part.items():
            if key in ("properties", "schemas"):
                yield from schemas(list(value.values()), True)
            elif key not in DATA:
                yield from schemas(value, key in ("schema", "items", "additionalProperties", "anyOf", "allOf", "oneOf"))


def in_30(schema: Json) -> Json:
    document = {"openapi": "3.1.0", "components": {"schemas": {"X": schema}}}
    converted: Json = as_version_30(document)["components"]["schemas"]["X"]
    return converted


def test_no_word_of_version_31_is_left() -> None:
    document = json.loads(DOCUMENT.read_text())
    before = copy.deepcopy(document)
    found = as_version_30(document)
    assert document == before, "the document of version 3.1 is not changed"
    assert (found["openapi"], "webhooks" in found, len(found["x-webhooks"]) > 3) == ("3.0.3", False, True)
    assert found["paths"].keys() == document["paths"].keys()
    assert found["components"]["schemas"].keys() == document["components"]["schemas"].keys()
    seen = list(schemas(found))
    assert len(seen) > 1500
    for schema in seen:
        assert not OF_31 & schema.keys(), schema
        assert schema.get("type") != "null", schema
        assert "$ref" not in schema or len(schema) == 1, schema
        assert isinstance(schema.get("exclusiveMinimum", True), bool), schema
        assert isinstance(schema.get("exclusiveMaximum", True), bool), schema


def test_each_word_has_its_counterpart() -> None:
    number = {"type": "number", "exclusiveMinimum": 0, "examples": [1.5, 2.0]}
    assert in_30(number) == {"type": "number", "minimum": 0, "exclusiveMinimum": True, "example": 1.5}
    optional = {"anyOf": [number, {"type": "null"}], "description": "A number."}
    assert in_30(optional) == {**in_30(number), "nullable": True, "description": "A number."}
    choice = {"anyOf": [{"type": "string"}, {"const": 3}, {"type": "null"}]}
    assert in_30(choice) == {"anyOf": [{"type": "string"}, {"enum": [3]}], "nullable": True}
    there = {"$ref": "#/components/schemas/Y"}
    assert in_30(there) == there
    assert in_30({**there, "description": "A Y."}) == {"allOf": [there], "description": "A Y."}
    assert in_30({"anyOf": [there, {"type": "null"}]}) == {"allOf": [there], "nullable": True}
    nested = {"type": "object", "properties": {"const": {"const": "a"}}, "propertyNames": {"pattern": "a"}}
    assert in_30(nested) == {"type": "object", "properties": {"const": {"enum": ["a"]}}}
    data = {"type": "object", "default": {"anyOf": [{"type": "null"}]}}
    assert in_30(data) == data
