"""From a file to a certified model over HTTP, on both databases, judged by LIBLINEAR and by arithmetic."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from liblinear.liblinearutil import parameter, problem, train

from tests.support.serving import Service
from tests.support.tables import csv_text, libsvm_text, noisy_rows, primal


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest) -> Service:
    found: Service = request.getfixturevalue(f"{request.param}_service")
    return found


def load(folder: Path, split: str) -> tuple[sp.csr_array, np.ndarray]:
    with np.load(folder / "a9a" / f"{split}.npz", allow_pickle=False) as stored:
        parts = (stored["data"].astype(np.float64), stored["indices"], stored["indptr"])
        return sp.csr_array(parts, shape=tuple(stored["shape"])), stored["y"]


def liblinear_optimum(X: sp.csr_array, y: np.ndarray) -> float:
    """The squared-hinge primal at C = 1 that LIBLINEAR's Newton method reaches."""
    data = problem(y.astype(float), sp.csr_matrix(X), bias=1)
    model = train(data, parameter("-s 2 -c 1 -e 1e-8 -B 1 -q"))
    coef, intercept = model.get_decfun()
    positive = model.get_labels()[0]  # the label, 1 or -1, that a positive score means
    weights = {"coef": np.array(coef) * positive, "intercept": intercept * positive}
    return primal(X, y, weights, 1.0, 2)


@pytest.mark.parametrize("text", [libsvm_text, csv_text], ids=["libsvm", "csv"])
def test_a9a_is_trained_to_a_certified_gap(service: Service, shared_data: Path, text: object) -> None:
    X, y = load(shared_data, "train")
    X_test, y_test = load(shared_data, "test")
    media_type = "text/csv" if text is csv_text else "text/x-libsvm"
    as_rows = (lambda matrix: matrix.toarray()) if text is csv_text else (lambda matrix: matrix)
    data = service.upload(text(as_rows(X), y), media_type)  # type: ignore[operator]
    held_out = service.upload(text(as_rows(X_test), y_test), media_type)  # type: ignore[operator]
    assert (data["n_rows"], data["n_features"]) == X.shape
    assert data["classes"] == [{"label": -1, "count": 24720}, {"label": 1, "count": 7841}]

    split = {"test_dataset_id": held_out["id"]}
    job = service.submit(data["id"], model="a9a", loss="squared_hinge", C=1.0, tol=1e-4, split=split)
    job = service.wait(job["id"])
    assert job["status"] == "succeeded", job["error"]

    model = service.get(f"/v1/models/{job['model_id']}")
    assert model["converged"]
    assert model["certificate"]["relative_gap"] <= 1e-4
    optimum = liblinear_optimum(X, y)
    assert model["certificate"]["primal"] == pytest.approx(optimum, rel=1e-4)
    assert model["certificate"]["dual_bound"] <= optimum * (1 + 1e-9)
    assert 0.845 < model["metrics"]["test"]["accuracy"] < 0.855

    weights = service.get(f"/v1/models/{job['model_id']}/weights")
    assert weights["classes"] == [-1, 1]
    assert primal(X, y, weights, 1.0, 2) == pytest.approx(model["certificate"]["primal"], rel=1e-9)


@pytest.mark.parametrize(("loss", "power"), [("hinge", 1), ("squared_hinge", 2)])
def test_anybody_can_recompute_the_certificate(service: Service, loss: str, power: int) -> None:
    X, y = noisy_rows(300, 8, seed=3)
    data = service.upload(csv_text(X, y))
    job = service.wait(service.submit(data["id"], loss=loss, C=0.7, tol=1e-6, seed=power)["id"])
    model = service.get(f"/v1/models/{job['model_id']}")
    weights = service.get(f"/v1/models/{job['model_id']}/weights")
    assert model["certificate"]["relative_gap"] <= 1e-6
    assert primal(X, y, weights, 0.7, power) == pytest.approx(model["certificate"]["primal"], rel=1e-9)


def test_predictions_are_the_weights_applied(service: Service) -> None:
    X, y = noisy_rows(200, 5, seed=4)
    names = np.where(y > 0, "spam", "ham")
    data = service.upload(csv_text(X, names), name="mail")
    job = service.wait(service.submit(data["id"], model="filter", split={"test": 0.25})["id"])
    weights = service.get("/v1/models/filter/weights")
    assert weights["classes"] == ["ham", "spam"]
    scores = X @ np.array(weights["coef"]) + weights["intercept"]
    for reference in (job["model_id"], "filter", "filter:1"):
        body = {"instances": X.tolist()}
        answer = service.http.post(f"/v1/models/{reference}/predict", json=body).json()
        assert answer["model"] == job["model_id"]
        np.testing.assert_allclose([one["score"] for one in answer["predictions"]], scores, rtol=1e-12)
        assert [one["label"] for one in answer["predictions"]] == ["spam" if s > 0 else "ham" for s in scores]


def test_training_again_makes_the_next_version(service: Service) -> None:
    X, y = noisy_rows(100, 3, seed=5)
    data = service.upload(csv_text(X, y))
    first, second = (service.wait(service.submit(data["id"], model="again", C=C)["id"]) for C in (1.0, 2.0))
    newest = service.get("/v1/models/again")
    assert (newest["version"], newest["id"]) == (2, second["model_id"])
    assert service.get("/v1/models/again:1")["id"] == first["model_id"]
    assert service.http.delete("/v1/models/again:2").status_code == 204
    assert service.get("/v1/models/again")["id"] == first["model_id"]
    body = {"instances": [[0, 0, 0]]}
    assert service.http.post(f"/v1/models/{second['model_id']}/predict", json=body).status_code == 404


def test_the_job_tells_its_story(service: Service) -> None:
    X, y = noisy_rows(400, 6, seed=6)
    data = service.upload(csv_text(X, y))
    job = service.submit(data["id"], tol=1e-5, labels={"team": "blue"})
    done = service.wait(job["id"])
    assert done["progress"] == 1.0
    assert done["passes"] > 0
    events = service.get(f"/v1/jobs/{job['id']}/events")["data"]
    assert [event["type"] for event in events if event["type"] != "job.progress"] == [
        "job.queued",
        "job.running",
        "job.succeeded",
    ]
    trace = service.get(f"/v1/jobs/{job['id']}/trace")["data"]
    assert trace[-1]["relative_gap"] == done["relative_gap"] <= 1e-5
    assert trace[0]["seconds"] <= trace[-1]["seconds"]
    found = service.get("/v1/jobs", **{"label.team": "blue", "status": "succeeded"})["data"]
    assert [one["id"] for one in found] == [job["id"]]


def test_weights_and_class_weights_reach_the_solver(service: Service) -> None:
    """A column of weights equals repeated rows; a class weight of 2 equals the weight column that says so."""
    X, y = noisy_rows(120, 4, seed=7)
    weight = np.where(y > 0, 2.0, 1.0)
    twice = np.concatenate([np.arange(len(y)), np.flatnonzero(y > 0)])
    weighted = service.upload(csv_text(np.column_stack([X, weight]), y), weight="x4")
    repeated = service.upload(csv_text(X[twice], y[twice]))
    plain = service.upload(csv_text(X, y))
    jobs = [
        service.submit(weighted["id"], tol=1e-8, loss="squared_hinge"),
        service.submit(repeated["id"], tol=1e-8, loss="squared_hinge"),
        service.submit(plain["id"], tol=1e-8, loss="squared_hinge", class_weight={"1": 2.0, "-1": 1.0}),
    ]
    objectives = [service.wait(job["id"])["primal"] for job in jobs]
    assert weighted["n_features"] == 4
    assert objectives[1:] == pytest.approx([objectives[0]] * 2, rel=1e-7)


def test_the_same_upload_is_stored_once(service: Service) -> None:
    content = csv_text(*noisy_rows(50, 2, seed=8))
    first = service.upload(content, name="once")
    again = service.http.post("/v1/datasets?name=once", content=content, headers={"Content-Type": "text/csv"})
    assert again.status_code == 200
    assert again.json()["deduplicated"]
    assert again.json()["id"] == first["id"]
    assert service.upload(content, name="other")["id"] != first["id"]
    deleted = service.http.delete(f"/v1/datasets/{first['id']}")
    assert deleted.status_code == 200
    assert (deleted.json()["id"], deleted.json()["deleted"]) == (first["id"], True)
    assert service.http.get(f"/v1/datasets/{first['id']}").status_code == 404


def test_lists_are_paged_newest_first(service: Service) -> None:
    X, y = noisy_rows(40, 2, seed=9)
    made = [service.upload(csv_text(X + shift, y), name="paged")["id"] for shift in range(5)]
    seen, cursor = [], {}
    while True:
        response = service.http.get("/v1/datasets", params={"name": "paged", "limit": 2, **cursor})
        page = response.json()
        seen += [one["id"] for one in page["data"]]
        assert ("link" in response.headers) == page["has_more"]
        if not page["has_more"]:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen == made[::-1]


def test_two_hundred_jobs_on_two_slots_all_succeed(service: Service) -> None:
    data = service.upload(csv_text(*noisy_rows(150, 4, seed=10)))
    jobs = [service.submit(data["id"], model="many", seed=seed)["id"] for seed in range(200)]
    ended = [service.wait(job_id, 120) for job_id in jobs]
    assert {job["status"] for job in ended} == {"succeeded"}
    assert {job["attempt"] for job in ended} == {1}
    assert len({job["model_id"] for job in ended}) == 200
    assert service.get("/v1/models/many")["version"] == 200


def test_a_job_can_be_cancelled(service: Service) -> None:
    X, y = noisy_rows(20_000, 40, seed=11, flipped=0.3)
    data = service.upload(csv_text(X, y))
    job = service.submit(data["id"], solver="dcd", C=1000.0, tol=1e-12, stop={"seconds": 60})
    while service.job(job["id"])["status"] == "queued":
        pass
    assert service.http.post(f"/v1/jobs/{job['id']}/cancel").status_code == 200
    ended = service.wait(job["id"], 10)
    assert (ended["status"], ended["model_id"]) == ("cancelled", None)
    assert service.http.post(f"/v1/jobs/{job['id']}/cancel").json()["status"] == "cancelled"


def test_a_limit_keeps_the_best_or_fails(service: Service) -> None:
    data = service.upload(csv_text(*noisy_rows(2000, 20, seed=12, flipped=0.3)))
    limits = {"C": 100.0, "tol": 1e-12, "stop": {"passes": 3}}
    kept = service.wait(service.submit(data["id"], **limits)["id"])
    assert kept["status"] == "succeeded"
    assert not service.get(f"/v1/models/{kept['model_id']}")["converged"]
    assert kept["relative_gap"] > 1e-12
    failed = service.wait(service.submit(data["id"], on_limit="fail", **limits)["id"])
    assert (failed["status"], failed["error"]["code"], failed["model_id"]) == ("failed", "not_converged", None)
