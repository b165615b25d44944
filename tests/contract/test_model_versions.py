"""Versions of models over HTTP: listed, deleted, restored and purged, in process, on every database."""

from concurrent.futures import ThreadPoolExecutor

from app.admin.integrity import verify_storage
from app.models import service as models
from app.predictions.model_cache import ModelCache
from app.storage import ownership
from app.web.context import context_of
from tests.support.builders import ANY_BLOBS, checked_problem, model_bytes, model_row, queued_jobs
from tests.support.model_registry import CARD, Registry


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
        context_of(registry.http.app).part(ModelCache).forget_reference("m:4")
        alive = registry.http.get("/v1/models/m:4").status_code == 200
        assert not alive, "a purge is not taken back"
        with registry.database.write() as session:
            row = models.resolve_deleted(session, "m:4")
            row.deleted_at = row.purged_at = None
            content = model_bytes([4.0], 0.0, card=CARD)
            ownership.own(session, ANY_BLOBS, row.id, {registry.blobs.put(content): len(content)})


def test_bytes_that_another_version_shares_stay(registry: Registry) -> None:
    (job_id,) = queued_jobs(registry.database, [0])
    with registry.database.write() as session:
        blob = models.locate(session, "m:1").blob
        models.register(session, ANY_BLOBS, model_row(job_id, name="twin", card=CARD, blob=blob), 1)
    registry.delete("m:1?purge=true")
    assert registry.blobs.path(blob).exists()
    assert registry.get("twin/weights")["coef"] == [1.0]
