"""What schemathesis loads before it sends requests: things that exist, and refusals that no schema can foresee.

`openapi.py` starts it, with the ids of the things in a file that HYPERPLANE_SOAK_THINGS names, and reads what was
explained from the file that HYPERPLANE_SOAK_EXPLAINED names.
"""

import json
import os
import zlib
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis import Case, HookContext, Response

THINGS: dict[str, Any] = json.loads(Path(os.environ["HYPERPLANE_SOAK_THINGS"]).read_text())
EXPLAINED = Path(os.environ["HYPERPLANE_SOAK_EXPLAINED"])
PLACES = THINGS.keys()
ROW = [0.5, -1.0, 2.0, 0.25]

FILE = "the bytes of a file are `format: binary` in the schema"
OTHER_THING = "names a thing that is not there, or not any more"
TOGETHER = "fields that exclude or need each other"
OF_MODEL = "fits the schema, not the model, the solver or the dataset"
HEADER = "a header's null is sent as the text null"
REASONS = {
    "invalid_cursor": "a cursor is a text that the service gave out",
    "invalid_event_id": "Last-Event-ID is a text that the service gave out",
    "idempotency_key_reused": "the same Idempotency-Key for two different requests",
    "refused_address": "an address that webhooks are not sent to",
    "precondition_failed": "If-Match or If-None-Match does not hold",
    "payload_too_large": "a length over HYPERPLANE_MAX_UPLOAD_BYTES",
    "unsupported_media_type": "the format of a file that was not sent, or that its name does not say",
    "url_too_long": "a URL over 64 KiB: an array in a query has no greatest length",
    **dict.fromkeys(("invalid_body", "unparsable", "empty_body", "invalid_file", "unexpected_part"), FILE),
    **dict.fromkeys(("unknown_dataset", "unknown_model", "unknown_version", "unknown_revision"), OTHER_THING),
    **dict.fromkeys(("given_twice", "unexpected", "invalid_problem"), TOGETHER),
    **dict.fromkeys(
        ("wrong_width", "wrong_shape", "wrong_size", "wrong_type", "wrong_length", "wrong_order"), OF_MODEL
    ),
    **dict.fromkeys(
        ("unknown_output", "unknown_feature", "unknown_column", "unknown_class", "unknown_datatype"), OF_MODEL
    ),
    **dict.fromkeys(("missing", "missing_feature", "missing_column", "missing_values", "missing_data"), OF_MODEL),
    **dict.fromkeys(("duplicate", "duplicate_input", "duplicate_column", "ragged", "too_many", "too_long"), OF_MODEL),
    **dict.fromkeys(("empty", "unsupported", "not_finite", "not_a_number", "out_of_range", "overflow"), OF_MODEL),
    **dict.fromkeys(("feature_mismatch", "labels_are_text", "no_groups", "no_features", "not_exportable"), OF_MODEL),
    **dict.fromkeys(("class_too_small", "too_many_folds", "folds_are_given", "needs_preprocessing"), OF_MODEL),
    **dict.fromkeys(("invalid_option", "contradiction", "invalid_precondition", "upload_incomplete"), TOGETHER),
    "invalid_name": "a name must not look like an id",
}
"""Why a request that the schema allows is refused, by the code of the problem."""
FIELD_REASONS = {
    **dict.fromkeys(("int_parsing", "string_pattern_mismatch"), HEADER),
    "int_type": "78385.0 is an integer in JSON Schema; a version is written without a decimal point",
    "less_than_equal": "the schema rounds 2^62, the greatest count, to a float",
    **dict.fromkeys(("give either", "targets names", "shadow answers"), TOGETHER),
    "must not look like an id": "a name must not look like an id",
    "must not contain a NUL character": "a NUL in a text, which PostgreSQL cannot store",
}
"""The same for `invalid`, by the code of an error or the begin of what it says."""


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Name things that exist in half of the requests that the schema allows, so that they reach more than a 404."""
    meta = case.meta
    if meta is None or not meta.generation.mode.is_positive or meta.phase.name.value == "stateful":
        return
    if case.operation.label == "POST /v1/uploads":  # of the file that is to come: OpenAPI has no place for it
        case.headers["Content-Type"] = "text/csv"
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
    return zlib.crc32(repr(value).encode()) % 2 == 0


@schemathesis.hook
def filter_failure(context: HookContext, failure: Any, case: Case, response: Response) -> bool:
    """Whether it is a failure. What is explained is counted, and is none."""
    answer = _document(response)
    problem = answer if "code" in answer else {}
    reason = _reason(type(failure).__name__, case, answer)
    shown = {
        **{"failure": type(failure).__name__, "operation": case.operation.label, "status": response.status_code},
        **{"reason": reason, "code": problem.get("code"), "errors": problem.get("errors")},
        **({} if reason else {"said": str(failure)[:500], "curl": case.as_curl_command()[:5000]}),
    }
    with EXPLAINED.open("a") as file:
        file.write(json.dumps(shown) + "\n")
    return reason is None


def _reason(failure: str, case: Case, answer: dict[str, Any]) -> str | None:
    """None: nothing explains it."""
    if failure == "AllowHeaderMismatch" and case.path == "/v1/models/import":
        return "`import` may also be the name of a model, which GET and DELETE take"
    if failure == "AcceptedNegativeData" and case.path.startswith("/v2/models/{name}/versions/{version}"):
        return "a number in a path is the same text as a string of its digits"
    if failure == "AcceptedNegativeData" and answer.get("status", 0) >= 400:
        return "refused, with a status (413, 414, ...) that schemathesis does not take for a refusal"
    if failure == "AcceptedNegativeData" and answer.get("valid") is False:
        return "validate_only answers 200 and says what is wrong"
    if failure != "RejectedPositiveData":
        return None
    if answer.get("code") != "invalid":
        return REASONS.get(answer.get("code", ""))
    reasons = [_reason_of_field(one) for one in answer["errors"]]
    return None if None in reasons else reasons[0]


def _reason_of_field(error: dict[str, Any]) -> str | None:
    found = (why for said, why in FIELD_REASONS.items() if error["code"] == said or error["detail"].startswith(said))
    return next(found, None)


def _document(response: Response) -> dict[str, Any]:
    try:
        found = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
