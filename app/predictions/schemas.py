"""OpenAPI schemas of the prediction routes. These routes parse their bodies themselves, so pydantic describes none."""

from typing import Any

from app.predictions.outputs import EVERY_OUTPUT, SET
from app.predictions.request_bodies import READERS
from app.predictions.response_formats import OFFERED
from app.web.media_types import ARROW, JSON, NPY, NPZ

BINARY = {"type": "string", "format": "binary"}
TEXT = {"type": "string"}
COMPONENT = "#/components/schemas/"
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
INDEX_BASE = _parameter(
    "index_base", "query", {"type": "integer", "enum": [0, 1]}, "libsvm rows: number of the first feature."
)
PREDICT_PARAMETERS = [
    _parameter("return", "query", TEXT, "Outputs for each row, separated by commas: as `return` of a JSON body."),
    _parameter(
        "coverage",
        "query",
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "Probability with which the output `set` should contain the truth: as `coverage` of a JSON body.",
    ),
    INDEX_BASE,
    *ROUTING_PARAMETERS,
]
EXPLAIN_PARAMETERS = [
    _parameter("top", "query", {"type": "integer", "minimum": 1, "maximum": 1000}, "Number of features to list."),
    INDEX_BASE,
    *ROUTING_PARAMETERS,
]

CELL: dict[str, Any] = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]}
"""A value of a row: a number, a category, a date, a text, true, false, or null for a missing value."""
LABEL: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "number"}]}
NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "number"}}
SPARSE_ROW: dict[str, Any] = {
    "type": "object",
    "required": ["indices", "values"],
    "properties": {
        "indices": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0},
            "description": "Numbers of the nonzero features, from 0.",
        },
        "values": {**NUMBERS, "description": "Their values, in the same order."},
    },
    "description": "A sparse row: its nonzero features.",
}
ROW: dict[str, Any] = {
    "description": "A row to predict.",
    "anyOf": [
        {"type": "array", "items": CELL, "description": "All features in order; null: missing."},
        {"$ref": f"{COMPONENT}SparseRow"},
        {"$ref": f"{COMPONENT}NamedRow"},
    ],
}
COVERAGE: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
COVERAGE_TEXT = "With the output `set`: probability with which a set should contain the truth."
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
    "contributions": "What each column adds to the score of the average training row: weight * (value - mean). Added "
    "from first to last, and then `intercept`, they give the score, up to one rounding. A model without stored means "
    "has weight * value, and the sum is exact; `relative_to` says which. In the form of the row: by name, in order, or "
    "{indices, values}.",
    "set": "Prediction set of the requested `coverage`: the labels that are not excluded, or {low, high} of a number "
    "(null: no bound). Only of models that were trained with `cross_validation`.",
}
"""Description of each output of a prediction."""
OUTPUTS_TEXT = "Outputs for each row. Default: label and score. " + " ".join(
    f"`{name}`: {said}" for name, said in SAID_OF.items()
)
OUTPUT: dict[str, Any] = {"type": "string", "enum": list(EVERY_OUTPUT), "description": "An output of a prediction."}
OUTPUT_LIST: dict[str, Any] = {"type": "array", "items": {"$ref": f"{COMPONENT}PredictionOutput"}}
PREDICTION_REQUEST: dict[str, Any] = {
    "type": "object",
    "description": "Rows to predict, and the outputs to return.",
    "required": ["instances"],
    "additionalProperties": False,
    "properties": {
        "instances": {
            "type": "array",
            "minItems": 1,
            "items": {"$ref": f"{COMPONENT}Row"},
            "description": "Rows to predict.",
        },
        "return": {**OUTPUT_LIST, "description": OUTPUTS_TEXT},
        "coverage": {**COVERAGE, "description": f"{COVERAGE_TEXT} Default: 0.9."},
    },
    "examples": [
        {"instances": [[0.5, -1.0, 2.0, 0.25]]},
        {"instances": [{"x0": 0.5, "x1": -1.0, "x2": 2.0, "x3": 0.25}], "return": ["label", "score"]},
        {"instances": [{"indices": [0, 2], "values": [0.5, 2.0]}], "return": ["label_certain"]},
    ],
}
PREDICTION_TYPES: dict[str, dict[str, Any]] = {
    "label": LABEL,
    "rank": {"type": "number"},
    "score": {"type": "number"},
    "probability": {"type": "number"},
    "probabilities": NUMBERS,
    "scores": NUMBERS,
    "score_error_bound": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    "label_certain": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
    "contributions": {
        "anyOf": [
            NUMBERS,
            {"$ref": f"{COMPONENT}SparseRow"},
            {"type": "object", "additionalProperties": {"type": "number"}},
        ]
    },
    "set": {
        "anyOf": [
            {"type": "array", "items": LABEL},
            {"type": "object", "additionalProperties": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
        ]
    },
}
PREDICTION: dict[str, Any] = {
    "type": "object",
    "description": "Prediction of a row: the outputs that the request lists.",
    "properties": {
        **{name: {**schema, "description": SAID_OF[name]} for name, schema in PREDICTION_TYPES.items()},
        "intercept": {
            "type": "number",
            "description": "With `contributions`: what is added to them to give the score. Relative to zero it is the "
            "intercept; relative to the training mean it is `base_score`, up to rounding, and for {indices, values} "
            "also what the features that are left out contribute.",
        },
        "base_score": {
            "type": "number",
            "description": "With `contributions` relative to the training mean: the score of the mean.",
        },
    },
}
ANSWERED_BY: dict[str, Any] = {
    "model": {"type": "string", "description": "Id of the model version (`mdl_…`)."},
    "name": {"type": "string", "description": "Name of the model."},
    "version": {"type": "integer", "description": "Version number."},
}
RELATIVE_TO: dict[str, Any] = {
    "type": "string",
    "enum": ["training_mean", "zero"],
    "description": "What contributions are relative to: the mean of the training rows, or `zero` for a model that has "
    "no stored means (imported, or trained by an older version).",
}
RESPONSE_PROPERTIES: dict[str, Any] = {
    **ANSWERED_BY,
    "relative_to": {**RELATIVE_TO, "description": f"With `contributions`. {RELATIVE_TO['description']}"},
    "classes": {
        "type": "array",
        "items": LABEL,
        "description": "Classes in the order of `scores` and `probabilities`, if requested.",
    },
    "warnings": {
        "type": "array",
        "items": {"type": "object", "additionalProperties": {"type": "string"}},
        "description": "Warnings about the rows, each with `code` and `detail`. Absent: none.",
    },
    "coverage": {
        "type": "object",
        "description": "With the output `set`: `requested`; `nominal`, which the sets aim at; `guaranteed`, which is "
        "proven (null: nothing is, for the `reason` given). Other formats have it as the header `X-Coverage`.",
        "required": ["requested", "nominal", "guaranteed", "reason"],
        "properties": {
            "requested": {"type": "number", "description": "The coverage that was asked for."},
            "nominal": {"type": "number", "description": "The coverage that the sets aim at."},
            "guaranteed": {
                "anyOf": [{"type": "number"}, {"type": "null"}],
                "description": "The coverage that is proven; null: none.",
            },
            "reason": {
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "description": "Why nothing is proven; null: it is.",
            },
        },
    },
    "predictions": {
        "type": "array",
        "items": {"$ref": f"{COMPONENT}Prediction"},
        "description": "One prediction for each row, in order.",
    },
}
PREDICTION_RESPONSE: dict[str, Any] = {
    "type": "object",
    "description": "Predictions, and the model version that made them.",
    "required": ["model", "name", "version", "predictions"],
    "properties": RESPONSE_PROPERTIES,
}


INVOCATION_FORMS = ("dataframe_split", "dataframe_records", "instances", "inputs")
ROWS_OR_COLUMNS: dict[str, Any] = {
    "anyOf": [
        {"type": "array", "minItems": 1, "items": {"$ref": f"{COMPONENT}Row"}},
        {"type": "object", "additionalProperties": {"type": "array", "items": CELL}},
    ],
    "description": "A list of rows, or lists of values by column name.",
}
INVOCATIONS_REQUEST: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "description": "Rows in exactly one of the four forms of MLflow's scoring server, and optional `params`.",
    "properties": {
        "dataframe_split": {
            "type": "object",
            "required": ["data"],
            "additionalProperties": False,
            "description": "A data frame as pandas writes it with `orient='split'`.",
            "properties": {
                "columns": {
                    "type": "array",
                    "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    "description": "Names of the columns.",
                },
                "index": {"type": "array", "items": CELL, "description": "Names of the rows. Ignored."},
                "data": {
                    "type": "array",
                    "minItems": 1,
                    "items": {"type": "array", "items": CELL},
                    "description": "One list of values for each row.",
                },
            },
        },
        "dataframe_records": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "additionalProperties": CELL},
            "description": "One object for each row: column name to value.",
        },
        **dict.fromkeys(("instances", "inputs"), ROWS_OR_COLUMNS),
        "params": {
            "type": "object",
            "additionalProperties": False,
            "description": "Options.",
            "properties": {
                "return": {
                    **OUTPUT_LIST,
                    "items": {"type": "string", "enum": [name for name in EVERY_OUTPUT if name != SET]},
                    "description": "Outputs for each row, as in predict. Default: label.",
                }
            },
        },
    },
    "examples": [
        {"dataframe_split": {"columns": ["x0", "x1", "x2", "x3"], "data": [[0.5, -1.0, 2.0, 0.25]]}},
        {"dataframe_records": [{"x0": 0.5, "x1": -1.0, "x2": 2.0, "x3": 0.25}]},
        {"instances": [[0.5, -1.0, 2.0, 0.25]], "params": {"return": ["label", "score"]}},
        {"inputs": {"x0": [0.5], "x1": [-1.0], "x2": [2.0], "x3": [0.25]}},
    ],
}
INVOCATIONS_RESPONSE: dict[str, Any] = {
    "type": "object",
    "description": "Predictions in the form of MLflow's scoring server.",
    "required": ["predictions"],
    "properties": {
        "predictions": {
            "type": "array",
            "items": {"anyOf": [{"type": "string"}, {"type": "number"}, {"$ref": f"{COMPONENT}Prediction"}]},
            "description": "One label for each row, or the outputs that `params.return` lists.",
        }
    },
}
CONTRIBUTION: dict[str, Any] = {
    "type": "object",
    "description": "What one feature adds to the score.",
    "required": ["feature", "contribution"],
    "properties": {
        "feature": {"type": "string", "description": "Name of the feature, or its number if it has no name."},
        "contribution": {
            "type": "number",
            "description": "What the feature adds to the score: weight * (value - training mean).",
        },
    },
}
EXPLANATION: dict[str, Any] = {
    "type": "object",
    "description": "The score of a row, by feature.",
    "required": ["score", "intercept", "contributions", "others", "text"],
    "properties": {
        "label": {**LABEL, "description": SAID_OF["label"]},
        "score": {"type": "number", "description": SAID_OF["score"]},
        "base_score": {
            "type": "number",
            "description": "Score of the training mean (relative to zero: the intercept). `base_score`, all "
            "`contributions` and `others` add up to `score`.",
        },
        "intercept": {"type": "number", "description": "The same number as `base_score`, for older clients."},
        "contributions": {
            "type": "array",
            "items": {"$ref": f"{COMPONENT}Contribution"},
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
    "description": "Explanations, and the model version that made them.",
    "required": ["model", "name", "version", "explanations"],
    "properties": {
        **ANSWERED_BY,
        "relative_to": RELATIVE_TO,
        "explanations": {
            "type": "array",
            "items": {"$ref": f"{COMPONENT}Explanation"},
            "description": "One explanation for each row, in order.",
        },
    },
}


COMPONENTS: dict[str, dict[str, Any]] = {
    "SparseRow": SPARSE_ROW,
    "NamedRow": {"type": "object", "additionalProperties": CELL, "description": "All features by name."},
    "Row": ROW,
    "PredictionOutput": OUTPUT,
    "PredictionRequest": PREDICTION_REQUEST,
    "Prediction": PREDICTION,
    "PredictionResponse": PREDICTION_RESPONSE,
    "InvocationsRequest": INVOCATIONS_REQUEST,
    "InvocationsResponse": INVOCATIONS_RESPONSE,
    "Contribution": CONTRIBUTION,
    "Explanation": EXPLANATION,
    "ExplainResponse": EXPLAIN_RESPONSE,
}
"""Schemas for the section `components` of the document, by name."""


def request_body(name: str) -> dict[str, Any]:
    """Describe a body in every format that rows are read from. `name`: the schema of the JSON form."""
    return {"required": True, "content": {one: {"schema": _schema(one, name)} for one in READERS}}


def json_reply(description: str, name: str) -> dict[str, Any]:
    return {"description": description, "content": {JSON: {"schema": _schema(JSON, name)}}}


def reply(description: str, name: str) -> dict[str, Any]:
    """Describe a response in every format that it can have. `name`: the schema of the JSON form."""
    return {"description": description, "content": {one: {"schema": _schema(one, name)} for one in OFFERED}}


def _schema(media_type: str, name: str) -> dict[str, Any]:
    if media_type == JSON:
        return {"$ref": f"{COMPONENT}{name}"}
    return BINARY if media_type in BINARY_TYPES else TEXT
