"""A trained model leaves the service, answers elsewhere as it did here, and comes back."""

import io
import json
import sqlite3

import numpy as np
import onnxruntime
import pytest

from tests.support.serving import Service, checked

generator = np.random.default_rng(21)
JOBS = ["clerk", "it's complicated", "nurse", None]
ROWS = [
    {
        "age": None if number % 9 == 0 else round(float(generator.normal(45, 15)), 2),
        "job": JOBS[int(generator.integers(0, 4))],
        "hours": float(generator.integers(1, 60)),
    }
    for number in range(200)
]


@pytest.fixture(scope="session")
def service(sqlite_service: Service) -> Service:
    return sqlite_service


@pytest.fixture(scope="session")
def trained(service: Service) -> str:
    """A model of a table with words and gaps, scaled, with its certificate."""
    lines = ["age,job,hours,earns"]
    for row in ROWS:
        earns = row["hours"] + (20 if row["job"] == "nurse" else 0) > 35
        age = "" if row["age"] is None else row["age"]
        lines.append(f"{age},{row['job'] or ''},{row['hours']},{'a lot' if earns else 'little'}")
    data = service.upload("\n".join([*lines, ""]).encode())
    job = service.wait(service.submit(data["id"], model="income", preprocess={})["id"])
    assert job["status"] == "succeeded", job["error"]
    name: str = job["model_id"]
    return name


def scores(service: Service, ref: str) -> list[float]:
    told = checked(service.http.post(f"/v1/models/{ref}/predict", json={"instances": ROWS}))["predictions"]
    return [row["score"] for row in told]


def export(service: Service, ref: str, kind: str) -> bytes:
    response = service.http.get(f"/v1/models/{ref}/export", params={"format": kind})
    assert response.status_code == 200, response.text
    assert float(response.headers["x-max-score-difference"]) <= 1e-9
    return response.content


def test_the_scores_are_the_same_in_onnxruntime_and_in_sqlite(service: Service, trained: str) -> None:
    expected = scores(service, trained)
    assert max(expected) > 0 > min(expected)
    session = onnxruntime.InferenceSession(export(service, trained, "onnx"))
    numbers = {
        name: np.array([np.nan if row[name] is None else row[name] for row in ROWS]) for name in ("age", "hours")
    }
    words = np.array([row["job"] or "" for row in ROWS], dtype=object)
    label, score = session.run(["label", "score"], {**numbers, "job": words})
    np.testing.assert_allclose(score, expected, rtol=1e-9, atol=1e-9)
    assert set(label) == {"a lot", "little"}

    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE rows (age, job, hours)")
    connection.executemany("INSERT INTO rows VALUES (:age, :job, :hours)", ROWS)
    found = connection.execute(f"SELECT {export(service, trained, 'sql').decode()} FROM rows").fetchall()
    connection.close()
    np.testing.assert_allclose([score for (score,) in found], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["json", "safetensors"])
def test_a_model_that_comes_back_is_the_same_and_its_certificate_a_claim(
    service: Service, trained: str, kind: str
) -> None:
    original = service.get(f"/v1/models/{trained}")
    content = export(service, trained, kind)
    query = {"name": f"income-{kind}", "format": kind}
    made = checked(service.http.post("/v1/models/import", params=query, content=content))
    assert scores(service, made["id"]) == scores(service, trained)
    assert scores(service, f"income-{kind}:1") == scores(service, trained)
    assert original["certificate"]["claimed"] is False
    assert made["certificate"] == {**original["certificate"], "claimed": True}
    assert made["lineage"]["claims"]["metrics"] == original["metrics"]
    assert (
        service.get(f"/v1/models/{made['id']}/weights")["coef"] == service.get(f"/v1/models/{trained}/weights")["coef"]
    )


def test_what_is_only_claimed_makes_no_label_certain(service: Service, trained: str) -> None:
    made = checked(
        service.http.post("/v1/models/import?name=claimed&format=json", content=export(service, trained, "json"))
    )
    body = {"instances": ROWS[:5], "return": ["score_error_bound", "label_certain"]}
    proven, claimed = (
        checked(service.http.post(f"/v1/models/{ref}/predict", json=body))["predictions"]
        for ref in (trained, made["id"])
    )
    assert all(row["score_error_bound"] > 0 for row in proven)
    assert claimed == [{"score_error_bound": None, "label_certain": None}] * 5
    # nor after another round trip, nor if the file denies that it is a claim
    document = json.loads(export(service, made["id"], "json"))
    document["card"]["certificate"] |= {"claimed": False, "gap": 0.0, "relative_gap": 0.0}
    again = checked(service.http.post("/v1/models/import?name=claimed&format=json", content=json.dumps(document)))
    assert (again["certificate"]["claimed"], again["converged"]) == (True, False)
    assert checked(service.http.post("/v1/models/claimed/predict", json=body))["predictions"] == claimed
    assert service.http.get("/v1/models/claimed/export?format=verifier").json()["code"] == "not_exportable"
    assert service.http.post("/v1/models/claimed/verify").json()["code"] == "model_not_trained_here"


def test_numpy_needs_nothing_of_us(service: Service, trained: str) -> None:
    with np.load(io.BytesIO(export(service, trained, "npz")), allow_pickle=False) as stored:
        assert stored["coef"].dtype == np.float64
        assert {"header", "coef", "intercept"} <= set(stored)
