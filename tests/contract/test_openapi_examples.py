"""Every JSON body of the document has examples, and a running service accepts each of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.support.serving import Service

pytestmark = pytest.mark.slow

Json = dict[str, Any]
WITHOUT_EXAMPLE = {
    "create_session": "its only field is a secret",
    "import_model": "its body is a whole model file",
}


@pytest.fixture(scope="module")
def things(sqlite_service: Service) -> Json:
    """What the examples speak of: a dataset with the columns x0 to x3, and two versions of a model."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 4)).round(3)
    lines = ["x0,x1,x2,x3,kind", *(",".join(map(str, row)) + (",good" if row[0] > 0 else ",bad") for row in X)]
    dataset = sqlite_service.upload("\n".join(lines).encode(), name="examples")
    jobs = [sqlite_service.submit(dataset["id"], model="radar", seed=seed) for seed in (0, 1)]
    for job in jobs:
        assert sqlite_service.wait(job["id"])["status"] == "succeeded"
    # Other tests of the shared service may have trained models of this name: the versions are those of these jobs.
    version = sqlite_service.get(f"/v1/models/{sqlite_service.job(jobs[0]['id'])['model_id']}")["version"]
    path = {"ref": "radar", "name": "radar", "alias": "examples", "job_id": jobs[0]["id"], "version": str(version)}
    sqlite_service.http.put("/v1/models/radar/aliases/examples", json={"version": version}).raise_for_status()
    return {"dataset_id": dataset["id"], "path": path}


@pytest.fixture(scope="module")
def document(sqlite_service: Service) -> Json:
    return sqlite_service.get("/openapi.json")


def json_bodies(document: Json) -> Iterator[tuple[str, str, Json, Json]]:
    """The method, path, operation and schema of each JSON request body; one for each member of a union."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = operation.get("requestBody", {}).get("content", {})
            if "application/json" in content:
                for schema in _members(document, content["application/json"]["schema"]):
                    yield method, path, operation, schema


def _members(document: Json, schema: Json) -> Iterator[Json]:
    for member in schema.get("anyOf") or schema.get("oneOf") or [schema]:
        if "$ref" in member:
            yield document["components"]["schemas"][member["$ref"].rpartition("/")[2]]
        elif member.get("type") != "null":
            yield member


def test_every_json_body_has_an_example(document: Json) -> None:
    without = {
        operation["operationId"] for *_, operation, schema in json_bodies(document) if not schema.get("examples")
    }
    assert without == set(WITHOUT_EXAMPLE)


def test_the_service_accepts_every_example(document: Json, things: Json, sqlite_service: Service) -> None:
    sent = 0
    for method, path, operation, schema in json_bodies(document):
        for example in schema.get("examples", ()):
            body = {**example, **({"dataset_id": things["dataset_id"]} if "dataset_id" in example else {})}
            response = sqlite_service.http.request(method, path.format(**things["path"]), json=body)
            assert response.is_success, (operation["operationId"], example, response.text)
            sent += 1
            if operation["operationId"] in ("create_job", "evaluate_model", "verify_model"):
                assert sqlite_service.wait(response.json()["id"])["status"] == "succeeded", example
            if operation["operationId"] == "create_webhook":
                sqlite_service.http.delete(f"/v1/webhooks/{response.json()['id']}").raise_for_status()
    assert sent >= 15
