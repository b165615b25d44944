"""The document that clients are generated from: its paths are pinned, and it says all that a route can answer."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.error_codes import error_codes
from app.main import create_app
from app.models.aliases.schemas import AliasRequest
from app.predictions.open_inference.schemas import DATATYPES
from app.predictions.open_inference.tensors import DTYPES
from tests.support.builders import InProcess, migrated_database, temporary_settings

PROBLEM = {"$ref": "#/components/schemas/Problem"}
OPEN = {"livez", "readyz", "v2_live", "v2_ready"}

OPERATIONS = {
    "livez": "GET /livez",
    "readyz": "GET /readyz",
    "create_dataset": "POST /v1/datasets",
    "list_datasets": "GET /v1/datasets",
    "get_dataset": "GET /v1/datasets/{dataset_id}",
    "delete_dataset": "DELETE /v1/datasets/{dataset_id}",
    "preview_dataset": "GET /v1/datasets/{dataset_id}/preview",
    "list_dataset_columns": "GET /v1/datasets/{dataset_id}/columns",
    "get_dataset_statistics": "GET /v1/datasets/{dataset_id}/statistics",
    "get_dataset_issues": "GET /v1/datasets/{dataset_id}/issues",
    "get_dataset_content": "GET /v1/datasets/{dataset_id}/content",
    "create_upload": "POST /v1/uploads",
    "get_upload": "GET /v1/uploads/{upload_id}",
    "get_upload_offset": "HEAD /v1/uploads/{upload_id}",
    "append_to_upload": "PATCH /v1/uploads/{upload_id}",
    "delete_upload": "DELETE /v1/uploads/{upload_id}",
    "create_job": "POST /v1/jobs",
    "list_jobs": "GET /v1/jobs",
    "get_job": "GET /v1/jobs/{job_id}",
    "cancel_job": "POST /v1/jobs/{job_id}/cancel",
    "predict_with_job": "POST /v1/jobs/{job_id}/predict",
    "finish_job": "POST /v1/jobs/{job_id}/finish",
    "pause_job": "POST /v1/jobs/{job_id}/pause",
    "resume_job": "POST /v1/jobs/{job_id}/resume",
    "list_job_events": "GET /v1/jobs/{job_id}/events",
    "get_job_trace": "GET /v1/jobs/{job_id}/trace",
    "get_job_path": "GET /v1/jobs/{job_id}/path",
    "list_models": "GET /v1/models",
    "get_model": "GET /v1/models/{ref}",
    "get_model_weights": "GET /v1/models/{ref}/weights",
    "delete_model": "DELETE /v1/models/{ref}",
    "evaluate_model": "POST /v1/models/{ref}/evaluate",
    "list_evaluations": "GET /v1/models/{ref}/evaluations",
    "get_evaluation": "GET /v1/evaluations/{evaluation_id}",
    "get_job_output": "GET /v1/jobs/{job_id}/output",
    "get_job_errors": "GET /v1/jobs/{job_id}/errors",
    "delete_job_output": "DELETE /v1/jobs/{job_id}/output",
    "verify_model": "POST /v1/models/{ref}/verify",
    "leave_one_out": "POST /v1/models/{ref}/leave_one_out",
    "restore_model": "POST /v1/models/{ref}/restore",
    "list_aliases": "GET /v1/models/{name}/aliases",
    "put_alias": "PUT /v1/models/{name}/aliases/{alias}",
    "get_alias": "GET /v1/models/{name}/aliases/{alias}",
    "delete_alias": "DELETE /v1/models/{name}/aliases/{alias}",
    "list_alias_history": "GET /v1/models/{name}/aliases/{alias}/history",
    "roll_back_alias": "POST /v1/models/{name}/aliases/{alias}/rollback",
    "export_model": "GET /v1/models/{ref}/export",
    "get_model_report": "GET /v1/models/{ref}/report",
    "import_model": "POST /v1/models/import",
    "predict": "POST /v1/models/{ref}/predict",
    "invoke_model": "POST /v1/models/{ref}/invocations",
    "explain_predictions": "POST /v1/models/{ref}/explain",
    "v2_live": "GET /v2/health/live",
    "v2_ready": "GET /v2/health/ready",
    "v2_server": "GET /v2",
    "v2_model": "GET /v2/models/{name}",
    "v2_model_version": "GET /v2/models/{name}/versions/{version}",
    "v2_model_ready": "GET /v2/models/{name}/ready",
    "v2_model_version_ready": "GET /v2/models/{name}/versions/{version}/ready",
    "v2_infer": "POST /v2/models/{name}/infer",
    "v2_infer_version": "POST /v2/models/{name}/versions/{version}/infer",
    "list_solvers": "GET /v1/solvers",
    "create_webhook": "POST /v1/webhooks",
    "list_webhooks": "GET /v1/webhooks",
    "get_webhook": "GET /v1/webhooks/{webhook_id}",
    "delete_webhook": "DELETE /v1/webhooks/{webhook_id}",
    "test_webhook": "POST /v1/webhooks/{webhook_id}/test",
    "reread_dataset": "POST /v1/datasets/{dataset_id}/reread",
    "stream_events": "GET /v1/events",
    "get_system": "GET /v1/system",
    "create_session": "POST /v1/session",
    "get_session": "GET /v1/session",
    "delete_session": "DELETE /v1/session",
    "list_webhook_deliveries": "GET /v1/webhooks/{webhook_id}/deliveries",
}


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    settings = temporary_settings(tmp_path_factory.mktemp("data"))
    with migrated_database(settings.resolved_database_url):
        response = InProcess(create_app(settings)).get("/openapi.json")
    assert response.status_code == 200
    parsed: dict[str, Any] = json.loads(response.text, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    return parsed


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", path, operation


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def test_the_operations_are_these(document: dict[str, Any]) -> None:
    assert {operation["operationId"]: route for route, _, operation in operations(document)} == OPERATIONS


def test_it_is_openapi_3_1_and_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["title"] == "Hyperplane"
    found = set(references(document))
    assert PROBLEM["$ref"] in found
    for reference in found:
        place: Any = document
        for key in reference.removeprefix("#/").split("/"):
            place = place[key]
        assert place


def test_the_problem_schema_has_every_field_of_the_contract(document: dict[str, Any]) -> None:
    fields = document["components"]["schemas"]["Problem"]["properties"]
    assert set(fields) == {
        *("type", "title", "status", "detail", "code", "errors", "request_id", "retryable", "error"),
    }


def test_every_operation_declares_what_the_gate_answers(document: dict[str, Any]) -> None:
    for route, path, operation in operations(document):
        declared = operation["responses"]
        if operation["operationId"] in OPEN:
            continue
        assert {"401", "403", "422", "503"} <= set(declared), route
        assert {"200", "201", "204"} & set(declared), route
        assert ("404" in declared) is ("{" in path), route


def test_every_refusal_is_a_problem_document(document: dict[str, Any]) -> None:
    for route, _, operation in operations(document):
        for status, response in operation["responses"].items():
            if int(status) >= 400 and operation["operationId"] not in OPEN:
                assert response["content"] == {"application/problem+json": {"schema": PROBLEM}}, (route, status)
                assert response["description"]


def test_every_operation_with_a_body_declares_how_a_body_can_be_wrong(document: dict[str, Any]) -> None:
    with_body = {op["operationId"]: op for _, _, op in operations(document) if "requestBody" in op}
    may_be_empty = {"roll_back_alias", "verify_model", "leave_one_out"}
    assert set(with_body) == {
        *("create_dataset", "append_to_upload", "create_job", "import_model", "predict", "put_alias"),
        *("evaluate_model", "create_webhook", "invoke_model", "explain_predictions", "v2_infer", "v2_infer_version"),
        *("predict_with_job", "create_session"),
        *may_be_empty,
    }
    for name, operation in with_body.items():
        assert {"400", "413", "415"} <= set(operation["responses"]), name
        assert operation["requestBody"].get("required", False) is (name not in may_be_empty)
    assert set(with_body["create_dataset"]["requestBody"]["content"]) == {
        *("text/csv", "text/tab-separated-values", "text/x-libsvm", "application/x-ndjson", "multipart/form-data"),
        *("application/vnd.apache.parquet", "application/vnd.apache.arrow.stream", "application/x-npz"),
    }
    for name in ("create_dataset", "append_to_upload"):
        assert {"200", "201", "408", "507"} <= set(with_body[name]["responses"])


def test_the_conflicts_are_declared(document: dict[str, Any]) -> None:
    conflicts = {op["operationId"] for _, _, op in operations(document) if "409" in op["responses"]}
    assert conflicts == {
        *("create_job", "cancel_job", "finish_job", "pause_job", "resume_job", "predict_with_job", "get_job_path"),
        *("create_dataset", "delete_dataset", "reread_dataset", "create_upload", "append_to_upload", "import_model"),
        *("delete_model", "restore_model", "put_alias", "roll_back_alias", "verify_model", "evaluate_model"),
        "leave_one_out",
        *("get_job_output", "get_job_errors", "delete_job_output", "create_webhook", "test_webhook"),
        *("preview_dataset", "get_dataset_statistics", "get_dataset_issues", "get_dataset_content"),
    }


def test_path_parameters_are_declared_where_they_are_used(document: dict[str, Any]) -> None:
    for route, path, operation in operations(document):
        declared = {one["name"] for one in operation.get("parameters", []) if one["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", path)), route


def test_lists_take_a_limit_and_a_cursor(document: dict[str, Any]) -> None:
    for name in (
        *("list_datasets", "list_jobs", "list_models", "list_job_events", "get_dataset_statistics"),
        "list_dataset_columns",
        *("list_aliases", "list_alias_history", "list_evaluations"),
    ):
        operation = next(op for _, _, op in operations(document) if op["operationId"] == name)
        parameters = {one["name"]: one["schema"] for one in operation["parameters"]}
        assert (parameters["limit"]["minimum"], parameters["limit"]["maximum"]) == (1, 200)
        assert "cursor" in parameters


def parameters(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        for operation in methods.values():
            yield from operation.get("parameters", ())


def test_no_parameter_can_be_null(document: dict[str, Any]) -> None:
    """A query or a header has no null; `null` would be a text."""
    assert [one["name"] for one in parameters(document) if "null" in str(one["schema"].get("anyOf"))] == []
    (length,) = (one["schema"] for one in parameters(document) if one["name"] == "upload-length")
    assert (length["type"], length["minimum"], "anyOf" in length) == ("integer", 0, False)


@pytest.mark.parametrize("text", ["tab", "", "ab", ";;", "tabs", "\u00e9", "\n;", *map(chr, range(128))])
def test_the_pattern_of_a_delimiter_is_the_rule(document: dict[str, Any], text: str) -> None:
    schemas = [one["schema"] for one in parameters(document) if one["name"] == "delimiter"]
    assert len(schemas) == 3
    plain = len(text) == 1 and text.isascii() and not text.isalnum() and text not in '"+-.\r\n\0'
    for schema in schemas:
        assert bool(re.fullmatch(schema["pattern"].strip("^$"), text)) == (plain or text == "tab")


@pytest.mark.parametrize(
    ("body", "is_valid"),
    [
        ({"version": 1}, True),
        ({"version": 1, "targets": None}, True),
        ({"targets": [{"version": 1}], "version": None, "shadow": None}, True),
        ({"version": 1, "targets": [{"version": 1}]}, False),
        ({"version": None, "targets": None}, False),
        ({"shadow": 1}, False),
        ({}, False),
    ],
)
def test_an_alias_has_either_a_version_or_targets(body: dict[str, Any], is_valid: bool) -> None:
    try:
        AliasRequest.model_validate(body)
    except ValidationError:
        assert not is_valid
    else:
        assert is_valid


def test_the_page_that_shows_it_needs_no_other_machine(tmp_path: Path) -> None:
    settings = temporary_settings(tmp_path)
    with migrated_database(settings.resolved_database_url):
        http = InProcess(create_app(settings))
        page = http.get("/docs").text
        assert "://" not in page
        for asset in re.findall(r'(?:src|href)="(/[^"]+)"', page):
            assert http.get(asset).status_code == 200


def test_the_type_of_a_problem_leads_to_its_entry(tmp_path: Path) -> None:
    settings = temporary_settings(tmp_path)
    with migrated_database(settings.resolved_database_url):
        http = InProcess(create_app(settings))
        page, anchor = http.get("/v1/jobs/job_nobody").json()["type"].split("#")
        answer = http.get(page)
    assert anchor == "not_found"
    assert "://" not in answer.text
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    anchors = re.findall(r"<h3 id=(\w+)>", answer.text)
    assert anchors == [entry.code for entry in error_codes()]


def test_the_datatypes_of_tensors_are_those_that_are_read() -> None:
    assert set(DATATYPES) == {*DTYPES, "BYTES"}
