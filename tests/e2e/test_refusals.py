"""Wrong input is refused with its place, and nothing of it is kept."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.serving import Service, running_service
from tests.support.tables import csv_text, noisy_rows

JSON = {"Content-Type": "application/json"}
CSV = {"Content-Type": "text/csv"}
LIBSVM = {"Content-Type": "text/x-libsvm"}
NOBODY = "01m7h944fsex4m8e47tq1ns5tn"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("service"), workers=1) as service:
        yield service


@pytest.fixture(scope="module")
def dataset(service: Service) -> str:
    uploaded: str = service.upload(csv_text(*noisy_rows(60, 3, seed=1)))["id"]
    return uploaded


@pytest.fixture(scope="module")
def model(service: Service, dataset: str) -> str:
    trained: str = service.wait(service.submit(dataset, model="good")["id"])["model_id"]
    return trained


def problem(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["error"] == body["detail"]
    assert body["request_id"] == response.headers["x-request-id"]
    return body


def stored(service: Service) -> tuple[int, int, list[str]]:
    datasets = len(service.get("/v1/datasets", limit=200)["data"])
    jobs = len(service.get("/v1/jobs", limit=200)["data"])
    return datasets, jobs, sorted(str(path) for path in (service.data_dir / "staging").iterdir())


BAD_FILES = [
    (CSV, b"a,b,y\n1,2,x\n1,inf,z\n", {}, {"line": 3, "column": 2}),
    (CSV, b"a,b,y\n1,2,x\n1,2\n", {}, {"line": 3}),
    (CSV, b"a,b,y\n1,inf,x\n1,2,z\n", {}, {"line": 2, "column": 2}),
    (CSV, b"a,b,y\n1,2,x\n1,2,\n", {}, {"line": 3, "column": 3}),
    (CSV, b"a,b,y\n1,1e999,x\n1,2,z\n", {}, {"line": 2, "column": 2}),
    (CSV, b"a,b,y\n1,2,x\n1,2,z\n", {"target": "nope"}, {"field": "target"}),
    (CSV, b"a,b,y\n1,2,x\n1,2,z\n", {"weight": "nope"}, {"field": "weight"}),
    (LIBSVM, b"1 1:2\n-1 1:x\n", {}, {"line": 2}),
    (LIBSVM, b"1 1:2\n-1 3:nan\n", {}, {"line": 2}),
    (LIBSVM, b"1 1:2\n-1 5:1 5:2\n", {}, {"line": 2}),
    (LIBSVM, b"1 1:2\n-1 7:1\n", {"n_features": 3}, {"line": 2}),
]


@pytest.mark.parametrize(("headers", "content", "query", "place"), BAD_FILES)
def test_a_bad_file_is_refused_with_its_place(
    service: Service,
    headers: dict[str, str],
    content: bytes,
    query: dict[str, Any],
    place: dict[str, Any],
) -> None:
    before = stored(service)
    body = problem(service.http.post("/v1/datasets", content=content, headers=headers, params=query), 422)
    assert place.items() <= body["errors"][0].items()
    assert stored(service) == before


BAD_JOBS = [
    ({"solver": "nope"}, "solver"),
    ({"C": -1}, "C"),
    ({"C": 0}, "C"),
    ({"loss": "nope"}, "loss"),
    ({"bias": "free", "solver": "dcd"}, "bias"),
    ({"p": 1.5}, "p"),
    ({"tol": 0}, "tol"),
    ({"solver_options": {"nope": 1}}, "solver_options"),
    ({"solver": "dcd", "solver_options": {"shrinking": 3}}, "solver_options.shrinking"),
    ({"class_weight": {"7": 1.0}}, "class_weight"),
    ({"split": {"test": 1.5}}, "split"),
    ({"split": {"test_dataset_id": f"ds_{NOBODY}"}}, "split.test_dataset_id"),
    ({"dataset_id": f"ds_{NOBODY}"}, "dataset_id"),
    ({"dataset_id": "\x00"}, "dataset_id"),
    ({"colour": "blue"}, "colour"),
    ({"model": "has space"}, "model"),
    ({"model": f"mdl_{NOBODY}"}, "model"),
    ({"seed": 2**70}, "seed"),
    ({"stop": {"seconds": -1}}, "stop.seconds"),
]


@pytest.mark.parametrize(("fields", "field"), BAD_JOBS)
def test_a_bad_job_is_refused_by_field(service: Service, dataset: str, fields: dict[str, Any], field: str) -> None:
    before = stored(service)
    body = problem(service.http.post("/v1/jobs", json={"dataset_id": dataset, **fields}), 422)
    assert any(str(item.get("field", "")).startswith(field) for item in body["errors"]), body
    assert stored(service) == before


def test_half_a_character_is_refused(service: Service, dataset: str) -> None:
    content = f'{{"dataset_id": "{dataset}", "labels": {{"k": "\\ud800"}}}}'
    body = problem(service.http.post("/v1/jobs", content=content, headers=JSON), 422)
    assert body["errors"][0]["field"] == "labels"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(service: Service, dataset: str, number: str) -> None:
    content = f'{{"dataset_id": "{dataset}", "C": {number}}}'
    body = problem(service.http.post("/v1/jobs", content=content, headers=JSON), 422)
    assert body["errors"][0]["field"] == "C"


def test_an_unparsable_body_is_400(service: Service, model: str) -> None:
    for path in ("/v1/jobs", f"/v1/models/{model}/predict"):
        problem(service.http.post(path, content=b'{"', headers=JSON), 400)
        problem(service.http.post(path, content=b"\xff\xfe", headers=JSON), 400)


@pytest.mark.parametrize(
    "path",
    [
        f"/v1/datasets/ds_{NOBODY}",
        f"/v1/jobs/job_{NOBODY}",
        f"/v1/models/mdl_{NOBODY}",
        "/v1/models/nope",
        "/v1/models/good:99",
        f"/v1/models/good:{2**63}",
        "/v1/models/good:x",
        "/v1/datasets/%00",
        "/v1/models/%00",
        "/v1/jobs/..%2f..%2fetc",
        f"/v1/jobs/job_{NOBODY}/events",
        "/nope",
    ],
)
def test_what_is_not_there_is_404(service: Service, model: str, path: str) -> None:
    problem(service.http.get(path), 404)


@pytest.mark.parametrize(
    ("instances", "field"),
    [
        ([[1, 2]], "instances[0]"),
        ([[1, 2, 3], [1, None, 3]], "instances[1][1]"),
        ([[1, 2, "x"]], "instances[0][2]"),
        ([{"x0": 1, "x1": 2, "nope": 3}], "instances[0]"),
        ([{"indices": [3], "values": [1.0]}], "instances[0]"),
        ([], "instances"),
    ],
)
def test_a_bad_instance_is_named(service: Service, model: str, instances: list[Any], field: str) -> None:
    body = problem(service.http.post(f"/v1/models/{model}/predict", json={"instances": instances}), 422)
    assert body["errors"][0]["field"] == field


def test_labels_of_one_class_only_cannot_be_trained(service: Service) -> None:
    data = service.upload(b"a,b,y\n1,2,1\n2,3,1\n4,5,1\n")
    body = problem(service.http.post("/v1/jobs", json={"dataset_id": data["id"]}), 422)
    assert "class" in body["detail"]


def test_a_dataset_in_use_is_not_deleted(service: Service) -> None:
    X, y = noisy_rows(20_000, 30, seed=2, flipped=0.3)
    data = service.upload(csv_text(X, y))
    test = service.upload(csv_text(X[:100], y[:100]))
    split = {"test_dataset_id": test["id"]}
    job = service.submit(data["id"], solver="dcd", C=1000.0, tol=1e-12, stop={"seconds": 30}, split=split)
    needed = [f"/v1/datasets/{one['id']}" for one in (data, test)]
    for path in needed:
        assert problem(service.http.delete(path), 409)["code"] == "dataset_in_use"
    service.http.post(f"/v1/jobs/{job['id']}/cancel")
    service.wait(job["id"], 10)
    for path in needed:
        assert service.http.delete(path).status_code == 200


def test_a_finished_job_cannot_be_cancelled(service: Service, dataset: str) -> None:
    job = service.wait(service.submit(dataset)["id"])
    problem(service.http.post(f"/v1/jobs/{job['id']}/cancel"), 409)


def test_content_types_are_enforced(service: Service, dataset: str, model: str) -> None:
    problem(service.http.post("/v1/datasets", content=b"{}", headers=JSON), 415)
    problem(service.http.post("/v1/datasets", content=b"x", headers={**CSV, "Content-Encoding": "br"}), 415)
    problem(service.http.post("/v1/jobs", content=b"{}", headers={"Content-Type": "text/plain"}), 415)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    problem(service.http.post(f"/v1/models/{model}/predict", content=b"{}", headers=form), 415)
