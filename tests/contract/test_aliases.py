"""Aliases over HTTP, in process, on every database."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy.engine import Connection

from app.models import repository
from app.predictions.shadow import Shadows
from app.web.context import context_of
from tests.support.builders import checked_problem
from tests.support.model_registry import Registry

Json = dict[str, Any]


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
    assert registry.put("m/aliases/prod", 201, version=1).json()["revision"] == 5, "the alias is created again"
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
    context_of(registry.http.app).part(Shadows).stop()
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
