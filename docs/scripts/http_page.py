"""The page of the HTTP API, from its OpenAPI description: every route, parameter, status and property."""

import tempfile
from pathlib import Path
from typing import Any

from docs.scripts.markdown import sentence, table

__all__ = ["api_document", "http_page"]

Json = dict[str, Any]
SHARED_STATUSES = {"401", "403", "422", "503"}
SHARED_HEADERS = {"Idempotency-Key"}


def http_page() -> str:
    description = api_document()
    operations = [
        (path, method, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]
    tags = list(dict.fromkeys(operation["tags"][0] for _, _, operation in operations))
    sections = []
    for tag in sorted(tags):
        sections.append(f"## {tag.capitalize()}\n")
        sections += [_operation(*one) for one in operations if one[2]["tags"][0] == tag]
    messages = [
        (f"`{name}`", _type(_body(item["post"])), item["post"]["description"])
        for name, item in description["webhooks"].items()
    ]
    schemas = [
        _schema(name, schema)
        for name, schema in sorted(description["components"]["schemas"].items())
        if not name.startswith("Listing_")
    ]
    return f"""# HTTP API

The same description as `/openapi.json` (OpenAPI 3.1) and `/docs` of a running service, on one page. What holds for all
routes (errors, lists, names, idempotency) is in [Conventions](conventions.md).

Every route can also answer 401 and 403 (key), 422 (invalid) and 503 (try again later); only further statuses are
listed. A `POST` that creates or changes something takes the header `Idempotency-Key`.

{table(("route", "what it does"), [_entry(*one) for one in operations])}
{chr(10).join(sections)}
## Messages to webhooks

The service sends these requests; [Events and webhooks](../how-to/events-and-webhooks.md) shows how to check them.

{table(("message", "body", "meaning"), messages)}
## Schemas

Properties in requests and answers. Lists answer with `{{data, has_more, next_cursor}}`.

{chr(10).join(schemas)}"""


def api_document() -> Json:
    """Return the OpenAPI document of a service with the default settings."""
    from app.config import Settings
    from app.main import create_app

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), memory_budget_bytes=1 << 30)
        found: Json = create_app(settings).openapi()
    return found


def _body(operation: Json) -> Json:
    found: Json = operation["requestBody"]["content"]["application/json"]["schema"]
    return found


def _entry(path: str, method: str, operation: Json) -> tuple[str, str]:
    first = str(operation.get("description") or operation["summary"]).split("\n\n")[0]
    return f"[`{method.upper()} {path}`](#{operation['operationId'].lower()})", sentence(first)


def _operation(path: str, method: str, operation: Json) -> str:
    parameters = table(
        ("parameter", "in", "type", "meaning"),
        [
            (f"`{one['name']}`", one["in"], _type(one.get("schema", {})), sentence(one.get("description", "")))
            for one in operation.get("parameters", [])
            if one["name"] not in SHARED_HEADERS
        ],
    )
    body = "".join(
        f"Body: `{media_type}`, {_type(content.get('schema', {})) or 'bytes'}.\n\n"
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items()
    )
    answers = [
        (status, _answer_type(answer), sentence(answer.get("description", "")))
        for status, answer in sorted(operation["responses"].items())
        if status not in SHARED_STATUSES
    ]
    description = operation.get("description", operation["summary"])
    heading = f"### {operation['operationId']}\n\n`{method.upper()} {path}`\n\n{description}\n\n"
    return heading + parameters + body + table(("status", "answer", "meaning"), answers)


def _answer_type(answer: Json) -> str:
    content = answer.get("content", {})
    if "application/problem+json" in content:
        return "[Problem](#problem)"
    return ", ".join(
        dict.fromkeys(_type(one.get("schema", {})) or f"`{media_type}`" for media_type, one in content.items())
    )


def _schema(name: str, schema: Json) -> str:
    text = f"### {name}\n\n{schema.get('description', '')}\n\n"
    if "enum" in schema:
        return text + "One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".\n"
    required = set(schema.get("required", ()))
    return text + table(
        ("property", "type", "meaning"),
        [
            (f"`{key}`" + ("" if key in required else " (optional)"), _type(about), _meaning(about))
            for key, about in schema.get("properties", {}).items()
        ],
    )


def _meaning(about: Json) -> str:
    text = sentence(about.get("description", ""))
    default = about.get("default")
    if default is not None and default not in ("", [], {}):
        text += f" Default: `{str(default).lower() if isinstance(default, bool) else default}`."
    limits = [
        f"{word} {about[key]}"
        for key, word in (("minimum", "at least"), ("exclusiveMinimum", "above"), ("maximum", "at most"))
        if key in about
    ]
    return f"{text} {', '.join(limits).capitalize()}." if limits else text


def _type(schema: Json) -> str:
    """A type in words, with links to schemas."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name.startswith("Listing_"):
            item = name.removeprefix("Listing_").rstrip("_")
            return f"list of [{item}](#{item.lower()})"
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(filter(None, (_type(one) for one in schema[key]))))
    kind = schema.get("type", "")
    if kind == "array":
        item = _type(schema.get("items", {}))
        return f"array of {item}" if item else "array"
    return str(kind)
