"""What schemathesis loads before it sends requests: things that exist, and refusals that no schema can foresee.

`openapi.py` starts it, with the ids of the things in a file that HYPERPLANE_SOAK_THINGS names, and reads what was
explained from the file that HYPERPLANE_SOAK_EXPLAINED names.
"""

import itertools
import json
import os
import zlib
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import Case, HookContext, Response

from tests.soak.openapi_explained import ENTRIES

THINGS: dict[str, Any] = json.loads(Path(os.environ["HYPERPLANE_SOAK_THINGS"]).read_text())
EXPLAINED = Path(os.environ["HYPERPLANE_SOAK_EXPLAINED"])
PLACES = THINGS.keys()
ROW = [0.5, -1.0, 2.0, 0.25]
LONGEST_URL = 1 << 16
NUMBERS = itertools.count()


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Name things that exist in half of the requests that the schema allows, so that they reach more than a 404."""
    meta = case.meta
    if case.operation.label == "POST /v1/uploads" and meta is not None and meta.generation.mode.is_positive:
        case.headers["Content-Type"] = "text/csv"  # of the file that is to come: OpenAPI has no place for it
    if meta is None or not meta.generation.mode.is_positive:
        return
    is_stateful = meta.phase.name.value == "stateful"
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and (is_stateful or _is_drawn(key + repr(case.body))):
        # In a sequence every request is a new one: the answer to an old one can name what was deleted since.
        sent = next(NUMBERS) if is_stateful else repr((case.path_parameters, case.query, case.body))
        case.headers["Idempotency-Key"] = f"{key[:200]}-{zlib.crc32(str(sent).encode(errors='replace'))}"
    if is_stateful:
        return
    if case.method == "DELETE":
        return
    for name, value in (case.path_parameters or {}).items():
        if name in PLACES and _is_drawn(value):
            case.path_parameters[name] = THINGS[name]
    if not isinstance(case.body, dict):
        return
    for name in ("dataset_id", "model"):
        if isinstance(case.body.get(name), str) and _is_drawn(case.body[name]):
            case.body[name] = THINGS[name]
    if isinstance(case.body.get("instances"), list) and _is_drawn(case.body["instances"]):
        case.body["instances"] = [ROW] * max(1, len(case.body["instances"]))


def _is_drawn(value: Any) -> bool:
    """Whether to put something else in its place: by the value itself, so that a replay does the same."""
    return zlib.crc32(repr(value).encode(errors="replace")) % 2 == 0


@schemathesis.hook
def filter_failure(context: HookContext, failure: Any, case: Case, response: Response) -> bool:
    """Whether it is a failure. What is explained is counted, and is none."""
    answer = _document(response)
    entries = [f"{type(failure).__name__}, {case.operation.label}: {said}" for said in _said(answer, failure, response)]
    explained = all(entry in ENTRIES for entry in entries) and _is_true(answer.get("code"), case, response)
    shown: dict[str, Any] = {"entries": sorted(set(entries)), "explained": explained}
    if not explained:
        shown |= {"status": response.status_code, "errors": answer.get("errors")}
        shown |= {"said": str(failure)[:500], "curl": case.as_curl_command()[:5000]}
    with EXPLAINED.open("a") as file:
        file.write(json.dumps(shown) + "\n")
    return not explained


def _said(answer: dict[str, Any], failure: Any, response: Response) -> list[str]:
    """Return the code of the problem; for `invalid`, the code of each field or the rule that refused it."""
    if "code" not in answer:
        if answer.get("valid") is False:
            return ["valid: false"]
        is_text = _media_type(response).startswith("text/") and "in body - violates `type`" in str(failure)
        return ["accepted as text" if is_text else "accepted"]
    if answer["code"] != "invalid":
        return [answer["code"]]
    return [
        one["detail"].partition(";")[0] if one["code"] == "value_error" else one["code"] for one in answer["errors"]
    ]


def _is_true(code: str | None, case: Case, response: Response) -> bool:
    """Whether the request has what the explanation of this code speaks of."""
    query, headers = case.query or {}, {name.lower() for name in case.headers or {}}
    match code:
        case "invalid_cursor":
            return "cursor" in query
        case "idempotency_key_reused":
            return "idempotency-key" in headers
        case "precondition_failed":
            return bool(headers & {"if-match", "if-none-match"})
        case "url_too_long":
            return len(response.request.url or "") > LONGEST_URL
    return True


def _media_type(response: Response) -> str:
    """Return the type of the body that was sent."""
    headers = response.request.headers
    return str(headers.get("Content-Type", "")) if headers else ""


def _document(response: Response) -> dict[str, Any]:
    try:
        found = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
