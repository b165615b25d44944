"""What clients and browsers may expect of any HTTP server: HEAD, Allow, a content policy, numbers that are numbers."""

import base64
import hashlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from app.main import create_app
from app.web.context import context_of
from tests.support.builders import InProcess, checked_problem, migrated_database, temporary_settings


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    settings = temporary_settings(tmp_path_factory.mktemp("data"))
    with migrated_database(settings.resolved_database_url):
        app = create_app(settings)
        context_of(app).readers_warm = lambda: True
        yield InProcess(app)
        context_of(app).database.close()


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/v2/health/live", "/v2/health/ready", "/docs", "/openapi.json"])
def test_head_is_get_without_a_body(http: InProcess, path: str) -> None:
    got, head = http.get(path), http.request("HEAD", path)
    assert (head.status_code, head.content) == (got.status_code, b"") == (200, b"")
    for name in ("content-type", "content-length"):
        assert head.headers[name] == got.headers[name]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/jobs", {"GET", "POST"}),
        ("PUT", "/v1/datasets/ds_1", {"GET", "DELETE"}),
        ("POST", "/v1/models/m/aliases/a", {"GET", "PUT", "DELETE"}),
        ("PUT", "/v1/uploads/u", {"GET", "HEAD", "PATCH", "DELETE"}),
        ("GET", "/v1/models/m/predict", {"POST"}),
        ("POST", "/livez", {"GET", "HEAD"}),
    ],
)
def test_405_names_every_method_of_the_path(http: InProcess, method: str, path: str, allowed: set[str]) -> None:
    answer = http.request(method, path)
    assert checked_problem(answer, 405)["code"] == "method_not_allowed"
    assert set(answer.headers["allow"].split(", ")) == allowed


def test_the_documentation_runs_its_own_scripts_only(http: InProcess) -> None:
    page = http.get("/docs")
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    inline = re.findall(r"<script>(.*?)</script>", page.text, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in inline]
    assert policy["script-src"].split() == ["'self'", *(f"'sha256-{one}'" for one in hashes)]
    assert len(inline) == 1
    sources = re.findall(r"""(?:src|href)=["'](.*?)["']""", page.text)
    assert all(source.startswith("docs/assets/") for source in sources)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"priority": False}, "priority"),
        ({"C": True}, "C"),
        ({"seed": True}, "seed"),
        ({"class_weight": {"a": True}}, "class_weight"),
        ({"stop": {"seconds": True}}, "stop.seconds"),
        ({"split": {"test": True}}, "split.test"),
    ],
)
def test_true_and_false_are_no_numbers(http: InProcess, fields: dict[str, Any], field: str) -> None:
    problem = checked_problem(http.post("/v1/jobs", json={"dataset_id": "ds_1", **fields}), 422)
    assert any(item["field"].endswith(field) and item["code"] == "not_a_number" for item in problem["errors"]), problem


def test_true_and_false_are_taken_where_they_are_meant(http: InProcess) -> None:
    body = {"dataset_id": "ds_1", "split": {"test": 0.5, "stratify": False}}
    assert http.post("/v1/jobs", json=body).status_code in (404, 422)
    assert "not_a_number" not in http.post("/v1/jobs", json=body).text


def test_codes_of_refusals_by_solvers_are_in_small_letters(http: InProcess) -> None:
    data = http.post("/v1/datasets", content=b"a,y\n1,0\n2,1\n3,0\n", headers={"Content-Type": "text/csv"}).json()
    problem = checked_problem(http.post("/v1/jobs", json={"dataset_id": data["id"], "solver": "nothing"}), 422)
    assert problem["code"] == problem["errors"][0]["code"] == "unknown_solver"
