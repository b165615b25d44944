"""OpenAPI schemas of the Open Inference Protocol."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

DATATYPES = [*(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)), "FP16", "FP32", "FP64"]
DATATYPES += ["BOOL", "BYTES"]
OPTIONS: dict[str, Any] = {"type": "object", "additionalProperties": True}
ELEMENTS: list[dict[str, Any]] = [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]
TENSOR: dict[str, Any] = {
    "type": "object",
    "description": "A tensor of the protocol.",
    "required": ["name", "shape", "datatype"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "description": "Name of the tensor."},
        "shape": {
            "type": "array",
            "items": {"type": "integer", "minimum": 0, "maximum": 1 << 31},
            "description": "Sizes of its dimensions.",
        },
        "datatype": {"type": "string", "enum": DATATYPES, "description": "Datatype of the protocol."},
        "parameters": {**OPTIONS, "description": "Options, such as `binary_data_size`."},
        "data": {
            "type": "array",
            "items": {"anyOf": [*ELEMENTS, {"type": "array", "items": {"anyOf": ELEMENTS}}]},
            "description": "Elements, flat or nested by the shape. Absent for binary tensors.",
        },
    },
}
ID = {"type": "string", "description": "Id of the request, which the response repeats."}
OUTPUT: dict[str, Any] = {
    "type": "object",
    "description": "An output to return.",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "description": "Name of the output."},
        "parameters": {**OPTIONS, "description": "Options, such as `binary_data`."},
    },
}
REQUEST: dict[str, Any] = {
    "type": "object",
    "description": "Input tensors, and the outputs to return.",
    "examples": [
        {
            "inputs": [{"name": "X", "shape": [1, 4], "datatype": "FP64", "data": [0.5, -1.0, 2.0, 0.25]}],
            "outputs": [{"name": "label"}, {"name": "score"}],
        }
    ],
    "required": ["inputs"],
    "additionalProperties": False,
    "properties": {
        "id": ID,
        "parameters": {**OPTIONS, "description": "Options, such as `binary_data_output`."},
        "inputs": {
            "type": "array",
            "items": {"$ref": "#/components/schemas/Tensor"},
            "description": "The input `X` of shape [rows, features], or one input for each column.",
        },
        "outputs": {
            "type": "array",
            "description": "Outputs to return. Default: label and score.",
            "items": {"$ref": "#/components/schemas/RequestedTensor"},
        },
    },
}
RESPONSE_FIELDS: dict[str, Any] = {
    "type": "object",
    "description": "Output tensors, and the model version that computed them.",
    "required": ["model_name", "model_version", "outputs"],
    "properties": {
        "model_name": {"type": "string", "description": "Name of the model."},
        "model_version": {"type": "string", "description": "Version that predicted."},
        "id": ID,
        "outputs": {
            "type": "array",
            "items": {"$ref": "#/components/schemas/Tensor"},
            "description": "The requested outputs.",
        },
    },
}
HEADER_LENGTH = {
    "name": "Inference-Header-Content-Length",
    "in": "header",
    "required": False,
    "schema": {"type": "integer", "minimum": 0},
    "description": "Length of the JSON part in bytes, if binary tensors follow it.",
}
BINARY = {"schema": {"type": "string", "format": "binary"}}
REQUEST_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/InferRequest"}},
        "application/octet-stream": BINARY,
    },
}
RESPONSE = {
    "description": "The outputs as tensors.",
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/InferResponse"}},
        "application/octet-stream": BINARY,
    },
}


COMPONENTS: dict[str, dict[str, Any]] = {
    "Tensor": TENSOR,
    "RequestedTensor": OUTPUT,
    "InferRequest": REQUEST,
    "InferResponse": RESPONSE_FIELDS,
}
"""Schemas for the section `components` of the document, by name."""


ModelName = Annotated[str, Field(description="Name of the model.")]


class Live(BaseModel):
    """Answer of the liveness check."""

    live: bool = Field(True, description="Always true: the process responds.")


class Ready(BaseModel):
    """Answer of the readiness check."""

    ready: bool = Field(description="Whether requests can be served; `/readyz` shows what is missing.")


class Server(BaseModel):
    """Metadata of the server."""

    name: str = Field(description="Name of the server.")
    version: str = Field(description="Version of the server.")
    extensions: list[str] = Field(description="Extensions of the protocol that it supports.")


class ModelReady(BaseModel):
    """Answer of the readiness check of a model."""

    name: ModelName
    ready: bool = Field(True, description="Always true: an unknown model is 404.")


class TensorMetadata(BaseModel):
    """Metadata of an input or output."""

    name: str = Field(description="Name of the tensor.")
    datatype: str = Field(description="Datatype of the protocol, such as `FP64`, `INT64` or `BYTES`.")
    shape: list[int] = Field(description="Sizes of its dimensions; -1: any.")


class ModelMetadata(BaseModel):
    """Metadata of a model."""

    name: ModelName
    versions: list[str] = Field(description="Its versions, at most the newest 200, ascending.")
    platform: str = Field(description="Kind of the model.")
    inputs: list[TensorMetadata] = Field(description="Inputs that it accepts.")
    outputs: list[TensorMetadata] = Field(description="Outputs that it offers.")
