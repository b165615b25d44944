"""Aliases, deletion and purge over HTTP, in process, on every database."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.engine import Connection

from app.db import Database
from app.main import create_app
from app.models import repository
from app.models import service as models
from app.predictions.served import ServedModels
from app.predictions.shadow import Shadows
from app.storage import BlobStore
from app.storage import repository as ownership
from app.verify import verify_storage
from tests.builders import (
    InProcess,
    checked_problem,
    model_bytes,
    model_row,
    queued_jobs,
    temporary_settings,
)

Json = dict[str, Any]
CARD: Json = {
    "classes": ["no", "yes"],
    "n_features": 1,
    "params": {},
    "certificate": {"primal": 1.0, "dual_bound": 1.0, "gap": 0.0, "relative_gap": 0.0, "method": "m"},
    "metrics": {},
    "training": {},
    "lineage": {},
}


class Registry:
    """The service in process, with versions of models to point at; version v scores a row x as v x."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.settings = temporary_settings(folder, database_url=database.url.render_as_string(hide_password=False))
        self.database, self.blobs = database, BlobStore(folder)
        self.http = InProcess(create_app(self.settings))

    def begin(self) -> None:
        """Four versions, and a server that remembers nothing of earlier ones."""
        served = ServedModels(self.database, self.blobs, 1 << 20)
        self.http.app.state.served_models, self.http.app.state.shadows = served, Shadows(served)
        job_ids = queued_jobs(self.database, [0] * 4)
        with self.database.write() as session:
            for version, job_id in enumerate(job_ids, 1):
                content = model_bytes([float(version)], 0.0, card=CARD)
                row = model_row(job_id, name="m", card=CARD, blob=self.blobs.put(content))
                models.register(session, row, len(content))

    def put(self, path: str, status: int = 200, headers: Any = None, **body: Any) -> httpx.Response:
        response = self.http.request("PUT", f"/v1/models/{path}", json=body, headers=headers)
        assert response.status_code == status, response.text
        return response

    def get(self, path: str) -> Json:
        response = self.http.get(f"/v1/models/{path}")
        assert response.status_code == 200, response.text
        body: Json = response.json()
        return body

    def delete(self, path: str, status: int = 204, headers: Any = None) -> httpx.Response:
        response = self.http.request("DELETE", f"/v1/models/{path}", headers=headers)
        assert response.status_code == status, response.text
        return response

    def post(self, path: str, status: int = 200, **arguments: Any) -> httpx.Response:
        response = self.http.post(f"/v1/models/{path}", **arguments)
        assert response.status_code == status, response.text
        return response

    def answered_by(self, ref: str, **headers: str) -> int:
        body: Json = self.post(f"{ref}/predict", json={"instances": [[1.0]]}, headers=headers).json()
        assert body["predictions"][0]["score"] == body["version"], "another version's weights answered"
        version: int = body["version"]
        return version


@pytest.fixture(scope="module")
def service(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    service = Registry(module_database, tmp_path_factory.mktemp("data"))
    yield service
    service.http.app.state.context.database.close()


@pytest.fixture
def registry(service: Registry, database: Database) -> Iterator[Registry]:
    assert service.database is database, "another database was emptied"
    service.begin()
    yield service
    service.http.app.state.shadows.stop()


def test_an_alias_names_a_version_wherever_a_model_is_named(registry: Registry) -> None:
    created = registry.put("m/aliases/prod", 201, version=2)
    assert created.headers["etag"] == '"1"'
    assert {**created.json(), "updated_at": None} == {
        **{"name": "m", "alias": "prod", "revision": 1, "version": 2, "shadow": None},
        **{"targets": [{"version": 2, "weight": 1.0}], "shadow_stats": None, "updated_at": None},
    }
    assert registry.get("m/aliases/prod") == created.json()
    assert registry.answered_by("m@prod") == 2
    assert registry.get("m@prod")["version"] == 2
    assert registry.get("m@prod")["aliases"] == ["prod"]
    assert registry.get("m@prod/weights")["coef"] == [2.0]
    registry.put("m/aliases/prod", version=3)
    assert registry.answered_by("m@prod") == 3, "this process believes what it changed itself"
    assert registry.get("m:2")["aliases"] == []


@pytest.mark.parametrize(
    "ref", ["m@", "@prod", "m@other", "x@prod", "m@prod@prod", "m:2@prod", "m@pr\x00d", "m@prod:2"]
)
def test_an_alias_that_is_none_is_not_found(registry: Registry, ref: str) -> None:
    registry.put("m/aliases/prod", 201, version=2)
    checked_problem(registry.http.get(f"/v1/models/{ref.replace(chr(0), '%00')}"), 404)


def test_a_change_happens_only_if_what_it_asks_for_is_true(registry: Registry) -> None:
    first = registry.put("m/aliases/prod", 201, {"If-None-Match": "*"}, version=1)
    checked_problem(registry.put("m/aliases/prod", 412, {"If-None-Match": "*"}, version=2), 412)
    second = registry.put("m/aliases/prod", 200, {"If-Match": first.headers["etag"]}, version=2)
    assert second.headers["etag"] == '"2"'
    stale = {"If-Match": first.headers["etag"]}
    problem = checked_problem(registry.put("m/aliases/prod", 412, stale, version=3), 412)
    assert problem["code"] == "precondition_failed"
    assert "revision 2" in problem["detail"]
    registry.delete("m/aliases/prod", 412, stale)
    registry.post("m/aliases/prod/rollback", 412, headers=stale)
    registry.put("m/aliases/prod", 200, {"If-Match": '"9", "2"'}, version=3)
    registry.put("m/aliases/prod", 200, {"If-Match": "*"}, version=4)
    registry.put("m/aliases/other", 412, {"If-Match": "*"}, version=4)
    checked_problem(registry.put("m/aliases/other", 422, {"If-None-Match": '"1"'}, version=4), 422)
    assert registry.get("m/aliases/prod")["version"] == 4


def test_of_many_who_change_the_same_revision_one_wins(registry: Registry) -> None:
    etag = registry.put("m/aliases/prod", 201, version=1).headers["etag"]

    def change(number: int) -> int:
        body = {"version": 2 + number % 3}  # all of them other than what is set
        path = "/v1/models/m/aliases/prod"
        return registry.http.request("PUT", path, json=body, headers={"If-Match": etag}).status_code

    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(change, range(8)))
    assert sorted(statuses) == [200] + [412] * 7
    assert registry.get("m/aliases/prod")["revision"] == 2


def test_setting_what_is_set_is_no_change(registry: Registry) -> None:
    registry.put("m/aliases/prod", 201, version=1)
    shared = [{"version": 2, "weight": 9}, {"version": 3, "weight": 1}]
    first = registry.put("m/aliases/prod", 200, targets=shared, shadow=4)
    again = registry.put("m/aliases/prod", 200, {"If-Match": first.headers["etag"]}, targets=shared, shadow=4)
    assert (again.json(), again.headers["etag"]) == (first.json(), first.headers["etag"])
    registry.put("m/aliases/prod", 412, {"If-Match": '"1"'}, targets=shared, shadow=4)
    assert registry.post("m/aliases/prod/rollback").json()["version"] == 1, "what was sent twice is one step"
    registry.delete("m/aliases/prod")
    assert registry.put("m/aliases/prod", 201, version=1).json()["revision"] == 5, "it is made anew"
    registry.put("m/aliases/prod", 200, version=1)


def test_history_and_rollback(registry: Registry) -> None:
    for version in (1, 2, 3):
        registry.put("m/aliases/prod", 201 if version == 1 else 200, version=version)
    assert registry.post("m/aliases/prod/rollback").json()["version"] == 2
    assert registry.post("m/aliases/prod/rollback", json={"revision": 1}).json()["version"] == 1
    assert registry.answered_by("m@prod") == 1
    registry.delete("m/aliases/prod")
    checked_problem(registry.http.get("/v1/models/m/aliases/prod"), 404)
    checked_problem(registry.http.get("/v1/models/m@prod"), 404)
    back = registry.post("m/aliases/prod/rollback")
    assert (back.json()["version"], back.json()["revision"]) == (1, 7)
    history = registry.get("m/aliases/prod/history")["data"]
    assert [one["revision"] for one in history] == [7, 6, 5, 4, 3, 2, 1]
    versions = [one["targets"] and one["targets"][0]["version"] for one in history]
    assert versions == [1, None, 1, 2, 3, 2, 1]
    page = registry.get("m/aliases/prod/history?limit=3")
    assert page["has_more"] is True
    rest = registry.get(f"m/aliases/prod/history?cursor={page['next_cursor']}")["data"]
    assert [*page["data"], *rest] == history


def test_what_cannot_be_rolled_back_to_is_said(registry: Registry) -> None:
    registry.put("m/aliases/prod", 201, version=1)
    assert checked_problem(registry.post("m/aliases/prod/rollback", 409), 409)["code"] == "nothing_to_roll_back_to"
    registry.put("m/aliases/prod", version=2)
    checked_problem(registry.post("m/aliases/prod/rollback", 422, json={"revision": 7}), 422)
    registry.delete("m:1")
    problem = checked_problem(registry.post("m/aliases/prod/rollback", 409), 409)
    assert problem["code"] == "version_deleted"
    assert "version 1" in problem["detail"]
    checked_problem(registry.post("m/aliases/none/rollback", 404), 404)
    assert registry.get("m/aliases/prod")["version"] == 2


def test_aliases_are_listed_by_name_in_pages(registry: Registry) -> None:
    names = ["a.b", "a-b", "prod", "z"]
    for name in names:
        registry.put(f"m/aliases/{name}", 201, version=1)
    found: list[str] = []
    page = registry.get("m/aliases?limit=3")
    while True:
        found += [one["alias"] for one in page["data"]]
        if not page["has_more"]:
            break
        page = registry.get(f"m/aliases?limit=3&cursor={page['next_cursor']}")
    assert sorted(found) == sorted(names)
    assert len(found) == 4
    checked_problem(registry.http.get("/v1/models/x/aliases"), 404)
    for path in ("m/aliases?cursor=am9i", "m/aliases/z/history?cursor=am9i"):
        checked_problem(registry.http.get(f"/v1/models/{path}"), 422)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, None),
        ({"version": 1, "targets": [{"version": 2}]}, None),
        ({"version": 9}, "version"),
        ({"version": 0}, "version"),
        ({"version": True}, "version"),
        ({"version": "1"}, "version"),
        ({"version": 10**15}, "version"),
        ({"targets": []}, "targets"),
        ({"targets": [{"version": 1}, {"version": 1}]}, None),
        ({"targets": [{"version": 1}, {"version": 9}]}, "targets"),
        ({"targets": [{"version": 1, "weight": 0}]}, "targets.0.weight"),
        ({"targets": [{"version": 1, "weight": -1}]}, "targets.0.weight"),
        ({"version": 1, "shadow": 1}, None),
        ({"version": 1, "shadow": 9}, "shadow"),
        ({"version": 1, "wieght": 1}, "wieght"),
    ],
)
def test_what_an_alias_cannot_be_set_to_is_refused(registry: Registry, body: Json, field: str | None) -> None:
    problem = checked_problem(registry.put("m/aliases/prod", 422, **body), 422)
    assert problem["errors"][0].get("field") == field
    checked_problem(registry.http.get("/v1/models/m/aliases/prod"), 404)


@pytest.mark.parametrize("alias", ["a b", "-a", "a" * 129, "mdl_01m7h944fsex4m8e47tq1ns5tn", "é"])
def test_an_alias_has_a_name_like_all_others(registry: Registry, alias: str) -> None:
    checked_problem(registry.put(f"m/aliases/{alias}", 422, version=1), 422)
    for path in (f"m/aliases/{alias}", f"m/aliases/{alias}/history"):
        checked_problem(registry.http.get(f"/v1/models/{path}"), 404)
    checked_problem(registry.delete(f"m/aliases/{alias}", 404), 404)


def test_an_alias_of_no_model_is_not_found(registry: Registry) -> None:
    for name in ("x", "m:1", "m@prod", "mdl_01m7h944fsex4m8e47tq1ns5tn"):
        checked_problem(registry.put(f"{name}/aliases/prod", 404, version=1), 404)


def test_a_key_is_always_answered_by_the_same_version_and_keys_are_shared_by_weight(registry: Registry) -> None:
    targets = [{"version": 1, "weight": 90}, {"version": 2, "weight": 10}]
    shown = registry.put("m/aliases/prod", 201, targets=targets).json()
    assert shown["targets"] == [{"version": 1, "weight": 0.9}, {"version": 2, "weight": 0.1}]
    assert shown["version"] == 1
    by_header = [registry.answered_by("m@prod", **{"X-Routing-Key": f"user-{n}"}) for n in range(60)]
    assert set(by_header) == {1, 2}
    again = [
        registry.post(f"m@prod/predict?routing_key=user-{n}", json={"instances": [[1.0]]}).json()["version"]
        for n in range(60)
    ]
    assert again == by_header
    registry.put("m/aliases/prod", targets=[{"version": 1, "weight": 0.5}, {"version": 2, "weight": 0.5}])
    moved = [registry.answered_by("m@prod", **{"X-Routing-Key": f"user-{n}"}) for n in range(60)]
    assert {(old, new) for old, new in zip(by_header, moved, strict=True)} == {(1, 1), (1, 2), (2, 2)}


def test_an_alias_that_moves_while_it_is_looked_up_is_found(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.put("m/aliases/prod", 201, version=2)
    look, moves = repository.locate_versions, iter([3])

    def move_and_look(connection: Connection, name: str, versions: Sequence[int]) -> dict[int, repository.Location]:
        for version in moves:
            registry.put("m/aliases/prod", version=version)
            registry.delete("m:2")
        return look(connection, name, versions)

    monkeypatch.setattr(repository, "locate_versions", move_and_look)
    assert registry.answered_by("m@prod") == 3


def test_without_a_key_each_request_is_drawn(registry: Registry) -> None:
    registry.put("m/aliases/prod", 201, targets=[{"version": 1}, {"version": 2}])
    assert {registry.answered_by("m@prod") for _ in range(40)} == {1, 2}


def test_a_shadow_is_compared_and_never_answers(registry: Registry) -> None:
    registry.put("m/aliases/prod", 201, version=1, shadow=3)
    assert registry.get("m/aliases/prod")["shadow_stats"] is None
    for _ in range(3):
        body = {"instances": [[1.0], [-2.0], [0.5]]}
        assert registry.post("m@prod/predict", json=body).json()["version"] == 1
    registry.http.app.state.shadows.stop()
    assert registry.get("m/aliases/prod")["shadow_stats"] == {
        **{"version": 3, "requests": 3, "rows": 9, "label_differences": 0, "failures": 0, "dropped": 0},
        **{"mean_score_difference": pytest.approx(2 * 3.5 / 3), "max_score_difference": 4.0},
    }


def test_a_version_that_an_alias_uses_is_not_deleted(registry: Registry) -> None:
    registry.put("m/aliases/prod", 201, targets=[{"version": 1}, {"version": 2}], shadow=3)
    for ref in ("m:1", "m:2", "m:3", "m@prod", "m:1?purge=true"):
        problem = checked_problem(registry.delete(ref, 409), 409)
        assert problem["code"] == "version_in_use"
        assert "'prod'" in problem["detail"]
    registry.delete("m:4")
    registry.put("m/aliases/prod", version=2)
    registry.delete("m:1")
    registry.delete("m/aliases/prod")
    registry.delete("m:2")
    assert registry.get("m")["version"] == 3


def test_a_deleted_version_can_be_seen_and_restored(registry: Registry) -> None:
    registry.delete("m:4")
    assert registry.answered_by("m") == 3
    for path in ("m:4", "m:4/weights"):
        checked_problem(registry.http.get(f"/v1/models/{path}"), 404)
    (listed,) = registry.http.get("/v1/models?deleted=true").json()["data"]
    assert listed["version"] == 4
    assert listed["deleted_at"] is not None
    assert registry.get("m:4?deleted=true")["id"] == listed["id"]
    assert registry.post("m:4/restore").json()["deleted_at"] is None
    assert registry.answered_by("m") == 4
    assert registry.post(f"{listed['id']}/restore").json()["version"] == 4, "it is there already"
    for ref in ("m:9", "x", "x:1", "m@x"):
        checked_problem(registry.post(f"{ref}/restore", 404), 404)


def test_models_are_listed_by_name_task_and_time(registry: Registry) -> None:
    def listed(**query: str) -> list[int]:
        response = registry.http.get("/v1/models", params=query)
        assert response.status_code == 200, response.text
        return [one["version"] for one in response.json()["data"]]

    times = [registry.get(f"m:{version}")["created_at"] for version in (1, 2, 3, 4)]
    assert listed(name="m", task="binary") == [4, 3, 2, 1]
    assert listed(task="multiclass") == listed(name="other") == []
    assert listed(created_after=times[0].removesuffix("Z")) == listed(created_after=times[0])
    assert listed(created_after=times[0]) == [k + 1 for k in (3, 2, 1, 0) if times[k] > times[0]]
    assert listed(created_after="2999-01-01T00:00:00Z") == []
    for query in ({"task": "svm"}, {"created_after": "yesterday"}, {"tsak": "binary"}):
        checked_problem(registry.http.get("/v1/models", params=query), 422)


def test_bytes_that_are_gone_a_moment_after_the_look_are_not_found(registry: Registry) -> None:
    with registry.database.read() as session:
        registry.blobs.path(models.locate(session, "m:4").blob).unlink()
    for path in ("weights", "export?format=json"):
        checked_problem(registry.http.get(f"/v1/models/m:4/{path}"), 404)
    checked_problem(registry.post("m:4/predict", 404, json={"instances": [[1.0]]}), 404)


def test_purge_frees_the_bytes_and_keeps_the_page(registry: Registry) -> None:
    with registry.database.read() as session:
        paths = [registry.blobs.path(models.locate(session, f"m:{version}").blob) for version in (1, 2, 3, 4)]
    registry.delete("m:3")
    assert sum(path.exists() for path in paths) == 4
    registry.delete("m:3?purge=true")
    registry.delete("m:4?purge=true")
    registry.delete("m:4?purge=true")
    assert sum(path.exists() for path in paths) == 2
    assert checked_problem(registry.post("m:3/restore", 409), 409)["code"] == "model_purged"
    page = registry.get("m:3?deleted=true")
    assert page["purged_at"] is not None
    assert page["certificate"]["primal"] == 1.0
    assert registry.answered_by("m") == 2
    assert verify_storage(registry.settings).sound


def test_whoever_comes_first_a_restored_model_has_its_bytes(registry: Registry) -> None:
    for _ in range(5):
        registry.delete("m:4")
        with ThreadPoolExecutor(2) as threads:
            purged = threads.submit(registry.http.request, "DELETE", "/v1/models/m:4?purge=true")
            restored = threads.submit(registry.http.post, "/v1/models/m:4/restore")
        assert purged.result().status_code == 204
        assert restored.result().status_code in (200, 409)
        registry.http.app.state.served_models.forget_reference("m:4")
        alive = registry.http.get("/v1/models/m:4").status_code == 200
        assert not alive, "a purge is not taken back"
        with registry.database.write() as session:
            row = models.resolve_deleted(session, "m:4")
            row.deleted_at = row.purged_at = None
            content = model_bytes([4.0], 0.0, card=CARD)
            ownership.own(session, row.id, {registry.blobs.put(content): len(content)})


def test_bytes_that_another_version_shares_stay(registry: Registry) -> None:
    (job_id,) = queued_jobs(registry.database, [0])
    with registry.database.write() as session:
        blob = models.locate(session, "m:1").blob
        models.register(session, model_row(job_id, name="twin", card=CARD, blob=blob), 1)
    registry.delete("m:1?purge=true")
    assert registry.blobs.path(blob).exists()
    assert registry.get("twin/weights")["coef"] == [1.0]
