"""`POST /v1/datasets/{id}/reread`: the stored file with another target, weight or group is a new dataset."""

import hashlib

import pytest

from tests.support.builders import NOBODY, checked_problem
from tests.support.serving import Service, checked

DATABASES = ["sqlite_service", "postgresql_service"]


@pytest.fixture(params=DATABASES)
def service(request: pytest.FixtureRequest) -> Service:
    found: Service = request.getfixturevalue(request.param)
    return found


def table(seed: int) -> bytes:
    """Forty rows that no other test uploads: two features, a weight, two columns that can be the target."""
    lines = [f"{n % 7};{n % 5 + seed};{n % 3 + 1};{n % 2};{'ab'[n % 4 // 2]}" for n in range(40)]
    return "\n".join(["first;second;heavy;flag;letter", *lines, ""]).encode()


def uploaded(service: Service, seed: int) -> dict[str, object]:
    return service.upload(table(seed), name="first-look", delimiter=";", target="flag", **{"label.team": "radar"})


def roles(dataset: dict[str, object]) -> dict[str, str]:
    return {column["name"]: column["role"] for column in dataset["columns"]}  # type: ignore[attr-defined]


def test_another_target_makes_a_new_dataset_of_the_same_bytes(service: Service) -> None:
    before = uploaded(service, seed=1)
    query = {"target": "letter", "weight": "heavy", "ignore": "second"}
    answer = service.http.post(f"/v1/datasets/{before['id']}/reread", params=query)
    assert answer.status_code == 201, answer.text
    after = answer.json()
    assert answer.headers["location"] == f"/v1/datasets/{after['id']}"
    assert (after["status"], after["done"], after["deduplicated"]) == ("ready", True, False)
    assert after["id"] != before["id"]
    assert (after["sha256"], after["bytes"]) == (before["sha256"], before["bytes"])
    wanted = {"first": "feature", "second": "ignored", "heavy": "weight", "flag": "feature", "letter": "target"}
    assert roles(after) == wanted
    assert roles(service.get(f"/v1/datasets/{before['id']}")) == roles(before), "the first one stays as it was"
    assert {one["label"]: one["count"] for one in after["classes"]} == {"a": 20, "b": 20}


def test_what_the_query_leaves_out_is_as_in_the_upload(service: Service) -> None:
    before = uploaded(service, seed=2)
    after = checked(service.http.post(f"/v1/datasets/{before['id']}/reread", params={"target": "letter"}))
    assert (after["name"], after["labels"]) == ("first-look", {"team": "radar"})
    assert after["n_rows"] == 40, "the delimiter of the upload holds"
    named = checked(service.http.post(f"/v1/datasets/{before['id']}/reread", params={"weight": "heavy", "name": "new"}))
    assert named["name"] == "new"
    assert roles(named)["flag"] == "target"


def test_equal_options_find_the_dataset_that_is_there(service: Service) -> None:
    before = uploaded(service, seed=3)
    for query, status in (({}, 200), ({"target": "letter"}, 201), ({"target": "letter"}, 200)):
        answer = service.http.post(f"/v1/datasets/{before['id']}/reread", params=query)
        assert (answer.status_code, answer.json()["deduplicated"]) == (status, status == 200)
    assert service.http.post(f"/v1/datasets/{before['id']}/reread").json()["id"] == before["id"]


def test_deleting_the_first_leaves_the_bytes_to_the_second(service: Service) -> None:
    before = uploaded(service, seed=4)
    after = checked(service.http.post(f"/v1/datasets/{before['id']}/reread", params={"target": "letter"}))
    checked(service.http.delete(f"/v1/datasets/{before['id']}"))
    content = service.http.get(f"/v1/datasets/{after['id']}/content").content
    assert hashlib.sha256(content).hexdigest() == before["sha256"] == hashlib.sha256(table(4)).hexdigest()
    freed = checked(service.http.delete(f"/v1/datasets/{after['id']}"))
    assert freed["bytes_freed"] >= len(content)


def test_what_cannot_be_read_so_is_refused_and_leaves_nothing(service: Service) -> None:
    before = uploaded(service, seed=5)
    path = f"/v1/datasets/{before['id']}/reread"
    known = service.get("/v1/datasets", limit=200)["data"]
    problem = checked_problem(service.http.post(path, params={"target": "nowhere"}), 422)
    assert "nowhere" in problem["detail"] + str(problem["errors"])
    checked_problem(service.http.post(path, params={"target": "letter"}, json={"target": "flag"}), 422)
    checked_problem(service.http.post(f"/v1/datasets/ds_{NOBODY}/reread"), 404)
    assert service.get("/v1/datasets", limit=200)["data"] == known


def test_a_dataset_without_bytes_is_not_read_again(service: Service) -> None:
    path = "/v1/datasets"
    headers = {"Content-Type": "text/csv", "Prefer": "respond-async"}
    sent = service.http.post(path, content=b"a,b\n1,2\n1,2,3\n", headers=headers).json()
    dataset = service.get(f"{path}/{sent['id']}", wait=20)
    assert dataset["status"] == "invalid"
    checked_problem(service.http.post(f"{path}/{sent['id']}/reread", params={"target": "a"}), 409)
