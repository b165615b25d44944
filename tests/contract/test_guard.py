"""The gate in front of every route: who may pass, what is refused before it is read, and what every answer has.

The real application is called in process. Routes are walked, not listed, so a new one is guarded or fails here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Mount, Route

from app.config import Settings
from app.db import Database
from app.jobs import service as jobs
from app.keys import key_cache
from app.keys import service as keys
from app.main import create_app
from app.predictions.model_cache import ModelCache
from tests.support.builders import NOBODY, InProcess, checked_problem, in_chunks, migrated_database, temporary_settings

OPEN = {("GET", "/livez"), ("GET", "/readyz"), ("GET", "/v2/health/live"), ("GET", "/v2/health/ready")}
DASHBOARD = {
    (method, path) for method in ("GET", "HEAD") for path in ("/", "/ui", "/ui/", "/ui/sample.csv", "/ui/3/predict")
}
SIGNING_IN = {("GET", "/v1/session"), ("POST", "/v1/session")}
CHANGES = ("POST", "PUT", "PATCH", "DELETE")
PATH_PARAMETERS = {
    "dataset_id": f"ds_{NOBODY}",
    "upload_id": f"up_{NOBODY}",
    "job_id": f"job_{NOBODY}",
    "ref": "predict",
    "name": "predict",
    "version": "3",
    "alias": "predict",
    "evaluation_id": f"ev_{NOBODY}",
    "webhook_id": f"wh_{NOBODY}",
}
JSON = {"Content-Type": "application/json"}
NO_STREAM = {"Last-Event-ID": "nothing"}  # a stream of all events would not end; this is refused after the gate


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return temporary_settings(tmp_path)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    with migrated_database(settings.resolved_database_url) as database:
        yield database


@pytest.fixture
def http(settings: Settings, database: Database) -> InProcess:
    return InProcess(create_app(settings))


def make_key(database: Database, *scopes: keys.Scope) -> str:
    with database.write() as session:
        return keys.create(session, None, scopes)


def revoke(database: Database, token: str) -> None:
    with database.write() as session:
        keys.revoke(session, token.partition(".")[0])


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def walk(routes: Any) -> Iterator[tuple[str, str]]:
    """Every (method, path) that the application answers, hidden ones and mounted files too."""
    for route in routes:
        if isinstance(route, APIRoute | Route):
            for method in sorted(route.methods or ()):
                yield method, route.path.replace(":path}", "}").format(**PATH_PARAMETERS)
        elif isinstance(route, Mount):
            yield "GET", f"{route.path}/swagger-ui.css"
        else:
            yield from walk(route.original_router.routes)


def guarded(app: FastAPI) -> list[tuple[str, str]]:
    found = sorted(set(walk(app.routes)) - OPEN - DASHBOARD - SIGNING_IN)
    assert len(found) >= 20, "the walk lost its way"
    return found


def refused(
    http: InProcess, method: str, path: str, status: int, headers: dict[str, str] | None = None
) -> httpx.Response:
    response = http.request(method, path, headers=headers)
    assert response.status_code == status, (method, path)
    if method != "HEAD":  # its answer has no body
        checked_problem(response, status)
    return response


PREDICTING = (
    "/v1/models/predict/predict",
    f"/v1/jobs/job_{NOBODY}/predict",
    "/predict/invocations",
    "/predict/explain",
    "/infer",
)


def needed_scope(method: str, path: str) -> keys.Scope:
    if method == "POST" and path.endswith(PREDICTING):
        return "predict"
    return "write" if method in CHANGES else "read"


def test_the_walk_finds_what_the_document_lists(http: InProcess) -> None:
    walked = set(walk(http.app.routes))
    documented = {
        (method.upper(), path.format(**PATH_PARAMETERS))
        for path, methods in http.app.openapi()["paths"].items()
        for method in methods
    }
    assert documented <= walked
    hidden = {path for _, path in walked - documented}
    pages = {"/docs", "/docs/assets/swagger-ui.css", "/docs/errors", "/openapi.json", "/openapi-3.0.json"}
    assert hidden == pages | {path for _, path in DASHBOARD}


def test_without_a_key_nothing_but_health_answers_once_a_key_exists(http: InProcess, database: Database) -> None:
    make_key(database, "admin")
    for method, path in guarded(http.app):
        response = refused(http, method, path, 401)
        assert response.headers["www-authenticate"].startswith("Bearer")
    for method, path in OPEN:
        assert http.request(method, path).status_code in (200, 503)
    for method, path in DASHBOARD:
        assert http.request(method, path).status_code in (200, 307, 404)
    assert http.get("/v1/session").json()["signed_in"] is False
    refused(http, "POST", "/v1/session", 422, JSON)


@pytest.mark.parametrize("unknown", ["/v1/nothing", "/metrics", "/v1", "/livez/", "/livez/x", "/v1//livez", "/LIVEZ"])
def test_what_does_not_exist_is_guarded_too(http: InProcess, database: Database, unknown: str) -> None:
    make_key(database, "admin")
    checked_problem(http.get(unknown), 401)


def test_wrong_and_revoked_keys_open_nothing(http: InProcess, database: Database) -> None:
    revoked, valid = make_key(database, "admin"), make_key(database, "admin")
    revoke(database, revoked)
    other_secret = valid.partition(".")[0] + "." + revoked.partition(".")[2]
    for method, path in guarded(http.app):
        for token in (revoked, f"key_{NOBODY}.secret", other_secret):
            refused(http, method, path, 401, bearer(token))


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic {}", "{}", "Bearer: {}", "Bearer {} x", "Token {}"])
def test_only_a_bearer_is_a_bearer(http: InProcess, database: Database, header: str) -> None:
    token = make_key(database, "admin")
    checked_problem(http.get("/v1/jobs", headers={"Authorization": header.format(token)}), 401)
    assert http.get("/v1/jobs", headers={"Authorization": f"bearer  {token}"}).status_code == 200


def test_every_route_asks_for_its_scope_and_takes_no_other(http: InProcess, database: Database) -> None:
    tokens = {scope: make_key(database, scope) for scope in ("read", "write", "predict", "admin")}
    for method, path in guarded(http.app):
        if path == "/v1/session":  # every session may end itself
            continue
        needed = needed_scope(method, path)
        for scope, token in tokens.items():
            if scope in (needed, "admin"):
                response = http.request(method, path, headers=bearer(token) | NO_STREAM)
                assert response.status_code not in (401, 403, 500), (method, path, scope)
            else:
                refused(http, method, path, 403, bearer(token))


def test_a_refusal_names_the_scope_that_is_missing(http: InProcess, database: Database) -> None:
    problem = checked_problem(http.post("/v1/jobs", headers=bearer(make_key(database, "read"))), 403)
    assert problem["code"] == "missing_scope"
    assert "'write'" in problem["detail"]


def test_a_key_for_predictions_cannot_delete_a_model_called_predict(http: InProcess, database: Database) -> None:
    token = make_key(database, "predict")
    for method in ("DELETE", "GET"):
        checked_problem(http.request(method, "/v1/models/predict", headers=bearer(token)), 403)
    checked_problem(http.post("/v1/models/predict/predict", headers={**bearer(token), **JSON}, content=b"{}"), 404)


def test_a_revoked_key_stops_working_when_its_trust_runs_out(
    http: InProcess, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_cache, "KEY_TRUST_SECONDS", 0.0)
    make_key(database, "admin")
    token = make_key(database, "read")
    assert http.get("/v1/jobs", headers=bearer(token)).status_code == 200
    revoke(database, token)
    checked_problem(http.get("/v1/jobs", headers=bearer(token)), 401)


def test_the_first_key_closes_an_open_service(
    http: InProcess, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_cache, "KEY_TRUST_SECONDS", 0.0)
    assert http.get("/v1/jobs").status_code == 200
    make_key(database, "read")
    checked_problem(http.get("/v1/jobs"), 401)


def test_remembered_keys_are_bounded(http: InProcess, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_cache, "MAX_REJECTED_TOKENS", 2)
    token = make_key(database, "read")
    for number in range(5):
        checked_problem(http.get("/v1/jobs", headers=bearer(f"key_{NOBODY}.{number}")), 401)
    assert http.get("/v1/jobs", headers=bearer(token)).status_code == 200


def test_bound_elsewhere_it_is_closed_even_without_any_key(tmp_path: Path) -> None:
    settings = temporary_settings(tmp_path, host="0.0.0.0")
    with migrated_database(settings.resolved_database_url):
        http = InProcess(create_app(settings), "http://svm.example.org")
        checked_problem(http.get("/v1/jobs"), 401)
        assert http.get("/livez").status_code == 200


FOREIGN = [
    {"Origin": "http://evil.example"},
    {"Origin": "http://127.0.0.1:9999"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://127.0.0.1:8000.evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "Cross-Site", "Origin": "http://127.0.0.1:8000"},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_foreign_page_changes_nothing_even_when_the_service_is_open(http: InProcess, headers: dict[str, str]) -> None:
    changes = [(method, path) for method, path in guarded(http.app) if method in CHANGES]
    assert len(changes) >= 6
    for method, path in changes:
        assert checked_problem(http.request(method, path, headers=headers), 403)["code"] == "foreign_origin"
    assert http.get("/v1/jobs", headers=headers).status_code == 200


@pytest.mark.parametrize("headers", FOREIGN[:2])
def test_a_key_does_not_help_a_foreign_page(http: InProcess, database: Database, headers: dict[str, str]) -> None:
    token = make_key(database, "admin")
    checked_problem(http.post("/v1/jobs", json={}, headers={**headers, **bearer(token)}), 403)


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://127.0.0.1:8000"}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {}],
)
def test_our_own_page_and_plain_clients_may_change(http: InProcess, headers: dict[str, str]) -> None:
    problem = checked_problem(http.post("/v1/jobs", json={}, headers=headers), 422)
    assert problem["errors"][0]["field"] == "dataset_id"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "10.0.0.1:8000", "localhost.evil"]
)
def test_on_loopback_only_loopbacks_names_are_answered(http: InProcess, host: str) -> None:
    for path in ("/v1/jobs", "/livez"):
        checked_problem(http.get(path, headers={"Host": host}), 403)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8000", "127.0.0.1:8000"])
def test_all_names_of_loopback_are_answered(http: InProcess, host: str) -> None:
    assert http.get("/livez", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("headers", [{"Host": "[::1"}, {"Origin": "http://[::1"}, {"Host": "[x]"}])
def test_an_address_that_is_none_is_unparsable(http: InProcess, headers: dict[str, str]) -> None:
    checked_problem(http.post("/v1/jobs", json={}, headers=headers), 400)


JSON_ROUTES = ["/v1/jobs", f"/v1/jobs/job_{NOBODY}/cancel"]


@pytest.mark.parametrize("path", JSON_ROUTES)
@pytest.mark.parametrize("media_type", ["text/plain", "text/csv", "application/x-www-form-urlencoded", "json", None])
def test_a_json_route_reads_only_json(http: InProcess, path: str, media_type: str | None) -> None:
    headers = {"Content-Type": media_type} if media_type else {}
    checked_problem(http.post(path, content=b"{}", headers=headers), 415)
    checked_problem(http.post(path, content=in_chunks(b"{}", 1), headers=headers), 415)


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "json", None])
def test_predict_refuses_what_it_cannot_read_before_it_looks_for_a_model(
    http: InProcess, media_type: str | None
) -> None:
    headers = {"Content-Type": media_type} if media_type else {}
    for content in (b"{}", in_chunks(b"{}", 1)):
        checked_problem(http.post("/v1/models/m/predict", content=content, headers=headers), 415)
    problem = checked_problem(http.post("/v1/models/m/predict", json={}, headers={"Accept": "image/png"}), 406)
    assert "application/json" in problem["detail"]
    packed = {**JSON, "Content-Encoding": "gzip"}
    checked_problem(http.post("/v1/models/m/predict", content=b"{}", headers=packed), 415)
    checked_problem(http.post("/v1/models/m/predict", json={}), 404)


@pytest.mark.parametrize("media_type", ["application/json", "Application/JSON; charset=utf-8"])
def test_a_json_route_reads_json_however_it_is_spelt(http: InProcess, media_type: str) -> None:
    checked_problem(http.post("/v1/jobs", content=b"{}", headers={"Content-Type": media_type}), 422)


@pytest.mark.parametrize("headers", [JSON, {}, {"Content-Type": "text/csv", "Content-Encoding": "br"}])
def test_an_upload_says_which_format_it_is(http: InProcess, headers: dict[str, str]) -> None:
    checked_problem(http.post("/v1/datasets", content=b"a,y\n1,0\n", headers=headers), 415)


@pytest.mark.parametrize(
    ("path", "status"), [("/livez", 200), ("/v1/jobs", 200), ("/v1/nothing", 404), ("/", 307), ("/docs", 200)]
)
def test_every_answer_has_a_request_id_of_its_own(http: InProcess, path: str, status: int) -> None:
    ids = [http.get(path, headers={"X-Request-Id": "mine"}).headers["x-request-id"] for _ in range(2)]
    assert http.get(path).status_code == status
    assert len(set(ids)) == 2
    assert all(one.startswith("req_") for one in ids)


@pytest.mark.parametrize(
    "path",
    ["/v1/datasets", "/v1/jobs", "/v1/models", "/v1/solvers", f"/v1/jobs/job_{NOBODY}", "/v1/models/m", "/livez"],
)
def test_an_unknown_query_parameter_is_refused_by_name(http: InProcess, path: str) -> None:
    problem = checked_problem(http.get(f"{path}?limt=3"), 422)
    assert (problem["code"], problem["errors"][0]["field"]) == ("unknown_parameter", "limt")


@pytest.mark.parametrize(
    "query", ["limit=3", "limit=200&cursor=am9iXzE", "status=queued&label.team=x", "label.a.b=1&limit=1"]
)
def test_known_query_parameters_are_taken(http: InProcess, query: str) -> None:
    assert http.get(f"/v1/jobs?{query}").json() == {"data": [], "has_more": False, "next_cursor": None}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *(("limit=0", "limit"), ("limit=201", "limit"), ("limit=x", "limit"), ("limit=1e999", "limit")),
        *(("cursor=", "cursor"), ("cursor=%00", "cursor"), ("cursor=*", "cursor"), ("cursor=8J-Ygg", "cursor")),
        *(("status=done", "status"), ("label.=x", "label"), ("label.a%20b=x", "label"), ("label.a=%00", "label")),
    ],
)
def test_a_query_value_that_cannot_be_is_refused_by_field(http: InProcess, query: str, field: str) -> None:
    assert checked_problem(http.get(f"/v1/jobs?{query}"), 422)["errors"][0]["field"] == field


def test_unknown_routes_and_methods_are_problems(http: InProcess) -> None:
    assert checked_problem(http.get("/v1/nothing"), 404)["code"] == "not_found"
    response = http.request("PUT", "/v1/jobs")
    assert checked_problem(response, 405)["code"] == "method_not_allowed"
    assert response.headers["allow"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"NaN", b"[" * 900, b'{"dataset_id": "\\ud800"}', b'{"\\ud800": 1}', b'{"C": 1e999}'],
)
def test_a_body_that_is_no_job_is_refused(http: InProcess, body: bytes) -> None:
    assert http.post("/v1/jobs", content=body, headers=JSON).status_code in (400, 422)


def test_a_crash_is_told_without_its_inside(http: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(jobs, "list_newest", crash)
    monkeypatch.setattr(ModelCache, "recall", crash)
    for response in (http.get("/v1/jobs"), http.post("/v1/models/m/predict", json={"instances": [[1.0]]})):
        assert checked_problem(response, 500)["code"] == "internal"
        assert response.headers["connection"] == "close"
        for word in ("secret", "Traceback", "RuntimeError", ".py"):
            assert word not in response.text


def test_a_database_that_is_away_is_a_reason_to_try_again(tmp_path: Path) -> None:
    settings = temporary_settings(tmp_path, database_url="postgresql://user@127.0.0.1:1/nowhere")
    http = InProcess(create_app(settings))
    problem = checked_problem(http.get("/v1/jobs"), 503)
    assert problem["code"] == "unavailable"
    assert "nowhere" not in problem["detail"]
    assert http.get("/livez").status_code == 200
    assert http.get("/readyz").json()["checks"]["database"].startswith("failed")
