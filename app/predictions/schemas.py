"""The shapes of predict in the OpenAPI document: bodies are decoded by hand, so they are described by hand."""

from typing import Any

from app.predictions.outputs import EVERY_OUTPUT
from app.predictions.request_bodies import READERS
from app.predictions.response_formats import OFFERED
from app.web.media_types import ARROW, JSON, NPY, NPZ

BINARY = {"type": "string", "format": "binary"}
TEXT = {"type": "string"}
BINARY_TYPES = frozenset({ARROW, NPY, NPZ})


def _parameter(name: str, place: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": False, "schema": schema, "description": description}


ROUTING_PARAMETERS = [
    _parameter("routing_key", "query", TEXT, "requests with the same key are answered by the same version of an alias"),
    _parameter("X-Routing-Key", "header", TEXT, "the same as the query's `routing_key`"),
]
INDEX_BASE = _parameter("index_base", "query", {"enum": [0, 1]}, "libsvm rows: what the first feature is counted as")
PREDICT_PARAMETERS = [
    _parameter("return", "query", TEXT, "as `return` of a JSON body, separated by commas"),
    INDEX_BASE,
    *ROUTING_PARAMETERS,
]
EXPLAIN_PARAMETERS = [
    _parameter("top", "query", {"type": "integer", "minimum": 1, "maximum": 1000}, "how many features to name"),
    INDEX_BASE,
    *ROUTING_PARAMETERS,
]

ROW_SHAPES: list[dict[str, Any]] = [
    {"type": "array", "description": "all features in order; null: missing"},
    {"type": "object", "additionalProperties": True, "description": "all features by name"},
    {
        "type": "object",
        "required": ["indices", "values"],
        "properties": {
            "indices": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            "values": {"type": "array", "items": {"type": "number"}},
        },
        "description": "the features that are not zero, counted from 0",
    },
]
OUTPUTS_TEXT = (
    "what to answer for each row; without it label and score. label: the class; ordinal: the rank; regression: the "
    "number. score: of the label in a multiclass model. rank: ordinal models, the same as label. scores: multiclass "
    "models, one a class. probability: of the second of two classes, or of the label; probabilities: one a class; both "
    "of calibrated models. score_error_bound: the largest possible difference between the score and that of the exact "
    "optimum of the training problem, by the certificate and with all rounding (null: nothing is proved). "
    "label_certain: true if the exact optimum provably gives the same label. contributions: what each column adds to "
    "the score; from the first to the last and then intercept they sum exactly to it. An ordinal model of real-valued "
    "relevance has no label."
)
REQUEST_SCHEMA = {
    "type": "object",
    "required": ["instances"],
    "additionalProperties": False,
    "properties": {
        "instances": {"type": "array", "minItems": 1, "items": {"anyOf": ROW_SHAPES}},
        "return": {"type": "array", "items": {"enum": list(EVERY_OUTPUT)}, "description": OUTPUTS_TEXT},
    },
}
PREDICTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": ["string", "number"]},
        "rank": {"type": "number"},
        "score": {"type": "number"},
        "probability": {"type": "number"},
        "probabilities": {"type": "array", "items": {"type": "number"}},
        "scores": {"type": "array", "items": {"type": "number"}},
        "score_error_bound": {"type": ["number", "null"]},
        "label_certain": {"type": ["boolean", "null"]},
        "contributions": {"description": "as the row was sent: by name, in order, or {indices, values}"},
        "intercept": {"type": "number", "description": "of the score; with contributions"},
    },
}
ANSWERED_BY: dict[str, Any] = {
    "model": {"type": "string"},
    "name": {"type": "string"},
    "version": {"type": "integer"},
}
RESPONSE_PROPERTIES: dict[str, Any] = {
    **ANSWERED_BY,
    "classes": {"type": "array", "description": "the order of scores and probabilities, where those are"},
    "warnings": {"type": "array", "items": {"type": "object"}, "description": "{code, detail}, if there are any"},
    "predictions": {"type": "array", "items": PREDICTION},
}
RESPONSE_SCHEMA = {
    "type": "object",
    "required": ["model", "name", "version", "predictions"],
    "properties": RESPONSE_PROPERTIES,
}


INVOCATIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "description": "exactly one of the four shapes of MLflow's scoring server",
    "properties": {
        "dataframe_split": {
            "type": "object",
            "required": ["data"],
            "properties": {
                "columns": {"type": "array", "items": {"type": ["string", "integer"]}},
                "index": {"type": "array"},
                "data": {"type": "array", "items": {"type": "array"}},
            },
        },
        "dataframe_records": {"type": "array", "items": {"type": "object"}},
        "instances": {"type": ["array", "object"], "description": "rows, or columns by name"},
        "inputs": {"type": ["array", "object"], "description": "rows, or columns by name"},
        "params": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"return": {"type": "array", "items": {"enum": list(EVERY_OUTPUT)}}},
        },
    },
}
INVOCATIONS_RESPONSE: dict[str, Any] = {
    "type": "object",
    "required": ["predictions"],
    "properties": {"predictions": {"type": "array", "description": "labels; what `params.return` names"}},
}
CONTRIBUTION: dict[str, Any] = {
    "type": "object",
    "required": ["feature", "contribution"],
    "properties": {"feature": {"type": "string"}, "contribution": {"type": "number"}},
}
EXPLANATION: dict[str, Any] = {
    "type": "object",
    "required": ["score", "intercept", "contributions", "others", "text"],
    "properties": {
        "label": {"type": ["string", "number"]},
        "score": {"type": "number"},
        "intercept": {"type": "number"},
        "contributions": {"type": "array", "items": CONTRIBUTION, "description": "strongest first"},
        "others": {
            "type": "object",
            "properties": {"count": {"type": "integer"}, "contribution": {"type": "number"}},
        },
        "text": {"type": "string", "description": "the same in a sentence"},
    },
}
EXPLAIN_RESPONSE: dict[str, Any] = {
    "type": "object",
    "required": ["model", "name", "version", "explanations"],
    "properties": {**ANSWERED_BY, "explanations": {"type": "array", "items": EXPLANATION}},
}


def request_body(json_schema: dict[str, Any]) -> dict[str, Any]:
    """Every format that rows are read from."""
    return {"required": True, "content": {name: {"schema": _schema(name, json_schema)} for name in READERS}}


def json_reply(description: str, json_schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {JSON: {"schema": json_schema}}}


def reply(description: str, json_schema: dict[str, Any]) -> dict[str, Any]:
    """Every format that an answer can have."""
    return {"description": description, "content": {name: {"schema": _schema(name, json_schema)} for name in OFFERED}}


def _schema(media_type: str, json_schema: dict[str, Any]) -> dict[str, Any]:
    if media_type == JSON:
        return json_schema
    return BINARY if media_type in BINARY_TYPES else TEXT
