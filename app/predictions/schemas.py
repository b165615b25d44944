"""OpenAPI schemas of the prediction routes. These routes parse their bodies themselves, so pydantic describes none."""

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
    _parameter(
        "routing_key",
        "query",
        TEXT,
        "Requests with the same key go to the same version of an alias that shares its requests.",
    ),
    _parameter("X-Routing-Key", "header", TEXT, "The same as the query parameter `routing_key`."),
]
INDEX_BASE = _parameter("index_base", "query", {"enum": [0, 1]}, "libsvm rows: number of the first feature.")
PREDICT_PARAMETERS = [
    _parameter("return", "query", TEXT, "Outputs for each row, separated by commas: as `return` of a JSON body."),
    INDEX_BASE,
    *ROUTING_PARAMETERS,
]
EXPLAIN_PARAMETERS = [
    _parameter("top", "query", {"type": "integer", "minimum": 1, "maximum": 1000}, "Number of features to list."),
    INDEX_BASE,
    *ROUTING_PARAMETERS,
]

ROW_SHAPES: list[dict[str, Any]] = [
    {"type": "array", "description": "All features in order; null: missing."},
    {"type": "object", "additionalProperties": True, "description": "All features by name."},
    {
        "type": "object",
        "required": ["indices", "values"],
        "properties": {
            "indices": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
                "description": "Numbers of the nonzero features, from 0.",
            },
            "values": {"type": "array", "items": {"type": "number"}, "description": "Their values, in the same order."},
        },
        "description": "A sparse row: its nonzero features.",
    },
]
SAID_OF = {
    "label": "Predicted class; ordinal: the rank; regression: the number. Ordinal models of real-valued relevance have "
    "none.",
    "rank": "Rank of an ordinal model, the same as `label`.",
    "score": "Decision value; multiclass: the score of the predicted class.",
    "probability": "Calibrated probability of the second of two classes; multiclass: of the predicted class.",
    "probabilities": "Calibrated probability of each class, in the order of `classes`.",
    "scores": "Score of each class of a multiclass model, in the order of `classes`.",
    "score_error_bound": "Largest possible difference between this score and the score of the exact optimum of the "
    "training problem, from the certificate, rounding included; null: nothing is proved.",
    "label_certain": "True if the exact optimum provably predicts the same label; null: nothing is proved.",
    "contributions": "What each column adds to the score. Added from first to last, and then the intercept, they give "
    "exactly the score. In the form of the row: by name, in order, or {indices, values}.",
}
"""Description of each output of a prediction."""
OUTPUTS_TEXT = "Outputs for each row. Default: label and score. " + " ".join(
    f"`{name}`: {said}" for name, said in SAID_OF.items()
)
REQUEST_SCHEMA = {
    "type": "object",
    "required": ["instances"],
    "additionalProperties": False,
    "properties": {
        "instances": {
            "type": "array",
            "minItems": 1,
            "items": {"anyOf": ROW_SHAPES},
            "description": "Rows to predict.",
        },
        "return": {"type": "array", "items": {"enum": list(EVERY_OUTPUT)}, "description": OUTPUTS_TEXT},
    },
}
PREDICTION_TYPES: dict[str, dict[str, Any]] = {
    "label": {"type": ["string", "number"]},
    "rank": {"type": "number"},
    "score": {"type": "number"},
    "probability": {"type": "number"},
    "probabilities": {"type": "array", "items": {"type": "number"}},
    "scores": {"type": "array", "items": {"type": "number"}},
    "score_error_bound": {"type": ["number", "null"]},
    "label_certain": {"type": ["boolean", "null"]},
    "contributions": {},
}
PREDICTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        **{name: {**schema, "description": SAID_OF[name]} for name, schema in PREDICTION_TYPES.items()},
        "intercept": {"type": "number", "description": "Intercept of the score, together with `contributions`."},
    },
}
ANSWERED_BY: dict[str, Any] = {
    "model": {"type": "string", "description": "Id of the model version (`mdl_…`)."},
    "name": {"type": "string", "description": "Name of the model."},
    "version": {"type": "integer", "description": "Version number."},
}
RESPONSE_PROPERTIES: dict[str, Any] = {
    **ANSWERED_BY,
    "classes": {"type": "array", "description": "Classes in the order of `scores` and `probabilities`, if requested."},
    "warnings": {
        "type": "array",
        "items": {"type": "object"},
        "description": "Warnings about the rows, each with `code` and `detail`. Absent: none.",
    },
    "predictions": {"type": "array", "items": PREDICTION, "description": "One prediction for each row, in order."},
}
RESPONSE_SCHEMA = {
    "type": "object",
    "required": ["model", "name", "version", "predictions"],
    "properties": RESPONSE_PROPERTIES,
}


INVOCATION_FORMS = ("dataframe_split", "dataframe_records", "instances", "inputs")
ROWS_OR_COLUMNS: dict[str, Any] = {
    "type": ["array", "object"],
    "minItems": 1,
    "additionalProperties": {"type": "array"},
    "description": "A list of rows, or lists of values by column name.",
}
INVOCATIONS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "description": "Rows in exactly one of the four forms of MLflow's scoring server, and optional `params`.",
    "oneOf": [{"required": [form]} for form in INVOCATION_FORMS],
    "properties": {
        "dataframe_split": {
            "type": "object",
            "required": ["data"],
            "description": "A data frame as pandas writes it with `orient='split'`.",
            "properties": {
                "columns": {
                    "type": "array",
                    "items": {"type": ["string", "integer"]},
                    "description": "Names of the columns.",
                },
                "index": {"type": "array", "description": "Names of the rows. Ignored."},
                "data": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "array"},
                    "description": "One list of values for each row.",
                },
            },
        },
        "dataframe_records": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object"},
            "description": "One object for each row: column name to value.",
        },
        **dict.fromkeys(("instances", "inputs"), ROWS_OR_COLUMNS),
        "params": {
            "type": "object",
            "additionalProperties": False,
            "description": "Options.",
            "properties": {
                "return": {
                    "type": "array",
                    "items": {"enum": list(EVERY_OUTPUT)},
                    "description": "Outputs for each row, as in predict. Default: label.",
                }
            },
        },
    },
}
INVOCATIONS_RESPONSE: dict[str, Any] = {
    "type": "object",
    "required": ["predictions"],
    "properties": {
        "predictions": {
            "type": "array",
            "description": "One label for each row, or the outputs that `params.return` lists.",
        }
    },
}
CONTRIBUTION: dict[str, Any] = {
    "type": "object",
    "required": ["feature", "contribution"],
    "properties": {
        "feature": {"type": "string", "description": "Name of the feature, or its number if it has no name."},
        "contribution": {"type": "number", "description": "What the feature adds to the score."},
    },
}
EXPLANATION: dict[str, Any] = {
    "type": "object",
    "required": ["score", "intercept", "contributions", "others", "text"],
    "properties": {
        "label": {"type": ["string", "number"], "description": SAID_OF["label"]},
        "score": {"type": "number", "description": SAID_OF["score"]},
        "intercept": {"type": "number", "description": "Intercept of the score."},
        "contributions": {
            "type": "array",
            "items": CONTRIBUTION,
            "description": "The features with the largest contributions, the strongest first.",
        },
        "others": {
            "type": "object",
            "description": "All other features together.",
            "properties": {
                "count": {"type": "integer", "description": "Number of these features."},
                "contribution": {"type": "number", "description": "Sum of their contributions."},
            },
        },
        "text": {"type": "string", "description": "The explanation as a sentence."},
    },
}
EXPLAIN_RESPONSE: dict[str, Any] = {
    "type": "object",
    "required": ["model", "name", "version", "explanations"],
    "properties": {
        **ANSWERED_BY,
        "explanations": {
            "type": "array",
            "items": EXPLANATION,
            "description": "One explanation for each row, in order.",
        },
    },
}


def request_body(json_schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a body in every format that rows are read from."""
    return {"required": True, "content": {name: {"schema": _schema(name, json_schema)} for name in READERS}}


def json_reply(description: str, json_schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {JSON: {"schema": json_schema}}}


def reply(description: str, json_schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a response in every format that it can have."""
    return {"description": description, "content": {name: {"schema": _schema(name, json_schema)} for name in OFFERED}}


def _schema(media_type: str, json_schema: dict[str, Any]) -> dict[str, Any]:
    if media_type == JSON:
        return json_schema
    return BINARY if media_type in BINARY_TYPES else TEXT
