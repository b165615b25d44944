"""Completes the OpenAPI document that FastAPI generates, so that other programs can generate clients from it.

It adds what no route declares: the schemas of bodies that routes parse themselves, the ways to authenticate, and the
messages that the service sends to webhooks.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.errors import Problem
from app.web.media_types import CSV, JSON

__all__ = ["Additions", "complete_document"]

Json = dict[str, Any]

OCTETS = "application/octet-stream"
REFERENCE = "#/components/schemas/{model}"
KEY: Json = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "key_….secret",
    "description": "An API key. `hyperplane keys create` makes one. A service that is bound to loopback and has no key "
    "is open.",
}
SECURITY: list[Json] = [{"key": []}, {"session": []}, {}]
"""What an operation accepts. The empty entry: nothing, if the service is open."""
MESSAGE_HEADERS = {
    "webhook-id": "Id of the message, the same in every attempt.",
    "webhook-timestamp": "Time of the attempt, in seconds since 1970-01-01 UTC.",
    "webhook-signature": "`v1,` and the Base64 of HMAC-SHA256 over `id.timestamp.body`, by the webhook's secret.",
}
"""Headers of the messages to webhooks, as Standard Webhooks defines them, with their descriptions."""


@dataclass(frozen=True)
class Additions:
    """What the features of the service add to the document."""

    schemas: Mapping[str, Json]
    """Schemas for the section `components`, by name."""
    messages: Mapping[str, type[BaseModel]]
    """Bodies of the messages to webhooks, by event type."""
    cookie: str
    """Name of the cookie of a signed-in browser."""
    csrf_header: str
    """Name of the header that changes by cookie need."""
    open_operations: Collection[tuple[str, str]]
    """Operations that need no key: method in lower case, and path."""


def complete_document(app: FastAPI, additions: Additions) -> None:
    """Replace `app.openapi` by one whose document is complete."""
    generate = app.openapi

    def openapi() -> Json:
        document = generate()
        if "webhooks" not in document:  # FastAPI keeps the document, so it is complete from the first call on
            _complete(document, additions)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(document: Json, additions: Additions) -> None:
    components = document["components"]
    models: set[type[BaseModel]] = {Problem, *additions.messages.values()}
    _, defined = models_json_schema([(one, "serialization") for one in models], ref_template=REFERENCE)
    components["schemas"] |= {**defined["$defs"], **additions.schemas}
    components["schemas"] = dict(sorted(components["schemas"].items()))
    session = {
        "type": "apiKey",
        "in": "cookie",
        "name": additions.cookie,
        "description": f"The cookie of a signed-in browser. Changes also need the header `{additions.csrf_header}`, "
        "whose value is in the response of `GET /v1/session`.",
    }
    components["securitySchemes"] = {"key": KEY, "session": session}
    document["security"] = SECURITY
    document["webhooks"] = {name: _message(name, body) for name, body in additions.messages.items()}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if (method, path) in additions.open_operations:
                operation["security"] = []
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
            if body := operation.get("requestBody"):
                body["content"] = dict(sorted(body["content"].items(), key=_body_order))


def _message(name: str, body: type[BaseModel]) -> Json:
    """Describe a request that the service sends to a webhook."""
    headers = [
        {"name": header, "in": "header", "required": True, "schema": {"type": "string"}, "description": said}
        for header, said in MESSAGE_HEADERS.items()
    ]
    content = {JSON: {"schema": {"$ref": REFERENCE.format(model=body.__name__)}}}
    return {
        "post": {
            "operationId": f"on_{name.replace('.', '_')}",
            "summary": name,
            "description": f"Sent for the event `{name}`.",
            "tags": ["messages"],
            "security": [],
            "parameters": headers,
            "requestBody": {"required": True, "content": content},
            "responses": {
                "2XX": {"description": "The receiver has the message."},
                "410": {"description": "The receiver wants no more messages: the webhook is disabled."},
                "default": {"description": "The message is sent again later."},
            },
        }
    }


def _body_order(content: tuple[str, Json]) -> int:
    """Put JSON first and CSV last: some generators know only one type for bytes, and take the last."""
    return {JSON: 0, OCTETS: 2, CSV: 3}.get(content[0], 1)


def _without_null(schema: Json) -> Json:
    """Return the schema without the choice of null: a query or a header cannot hold it."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    if not choices:
        return schema
    return {**choices[0], **rest} if len(choices) == 1 else {"anyOf": choices, **rest}
