"""The shapes of the Open Inference Protocol in the OpenAPI document, and its small answers."""

from typing import Any

from pydantic import BaseModel

TENSOR: dict[str, Any] = {
    "type": "object",
    "required": ["name", "shape", "datatype"],
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer"}},
        "datatype": {"type": "string"},
        "parameters": {"type": "object"},
        "data": {"type": "array"},
    },
}
REQUEST_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["inputs"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string"},
        "parameters": {"type": "object"},
        "inputs": {"type": "array", "items": TENSOR, "description": "`X` [rows, features], or one input a column"},
        "outputs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "parameters": {"type": "object"}},
            },
        },
    },
}
RESPONSE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["model_name", "model_version", "outputs"],
    "properties": {
        "model_name": {"type": "string"},
        "model_version": {"type": "string"},
        "id": {"type": "string"},
        "outputs": {"type": "array", "items": TENSOR},
    },
}
HEADER_LENGTH = {
    "name": "Inference-Header-Content-Length",
    "in": "header",
    "required": False,
    "schema": {"type": "integer"},
    "description": "length of the JSON part, if raw tensors follow it",
}
BINARY = {"schema": {"type": "string", "format": "binary"}}
REQUEST_BODY = {
    "required": True,
    "content": {"application/json": {"schema": REQUEST_SCHEMA}, "application/octet-stream": BINARY},
}
RESPONSE = {
    "description": "Tensors",
    "content": {"application/json": {"schema": RESPONSE_SCHEMA}, "application/octet-stream": BINARY},
}


class Live(BaseModel):
    live: bool = True


class Ready(BaseModel):
    ready: bool


class Server(BaseModel):
    name: str
    version: str
    extensions: list[str]


class ModelReady(BaseModel):
    name: str
    ready: bool = True


class TensorMetadata(BaseModel):
    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]
