"""An alias is moved, and the versions that it leaves are purged, while threads of a real client call it."""

import threading
from collections import Counter
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.serving import Service
from tests.support.tables import csv_text

VERSIONS = 5
THREADS = 4
ROW = [1.0, 2.0, 3.0]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest) -> Service:
    found: Service = request.getfixturevalue(f"{request.param}_service")
    return found


def trained(service: Service) -> dict[int, float]:
    """Versions of `m` with what each says of ROW, by arithmetic on its weights."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 3))
    data = service.upload(csv_text(X, np.where(X @ [1.0, -1.0, 0.5] > 0, 1, 0)))
    scores = {}
    for version in range(1, VERSIONS + 1):
        job = service.wait(service.submit(data["id"], model="switched", C=10.0**-version)["id"])
        assert job["status"] == "succeeded", job["error"]
        weights = service.get(f"/v1/models/switched:{version}/weights")
        scores[version] = float(np.dot(weights["coef"], ROW) + weights["intercept"])
    assert len(set(scores.values())) == VERSIONS
    return scores


class Callers:
    """Threads that call predict until they are stopped; every answer is kept."""

    def __init__(self, service: Service) -> None:
        self.answers: list[tuple[int, Any]] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(service.url,)) for _ in range(THREADS)]

    def __enter__(self) -> "Callers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _call(self, url: str) -> None:
        with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
            while not self._stop.is_set():
                response = http.post("/v1/models/switched@prod/predict", json={"instances": [ROW]})
                self.answers.append((response.status_code, response.json()))

    def wait_for(self, version: int) -> None:
        """Until one of them was answered by this version."""
        pause = threading.Event()
        seen = len(self.answers)
        for _ in range(3000):
            if any(body.get("version") == version for _, body in self.answers[seen:]):
                return
            pause.wait(0.01)
        raise AssertionError(f"version {version} never answered: {self.answers[-1]}")


def test_no_request_fails_while_an_alias_moves_and_old_versions_go(service: Service) -> None:
    scores = trained(service)
    path = "/v1/models/switched/aliases/prod"
    put = service.http.put(path, json={"version": 1})
    assert put.status_code == 201, put.text
    with Callers(service) as callers:
        callers.wait_for(1)
        for version in range(2, VERSIONS + 1):
            targets = [{"version": version - 1, "weight": 0.5}, {"version": version, "weight": 0.5}]
            put = service.http.put(path, json={"targets": targets}, headers={"If-Match": put.headers["etag"]})
            assert put.status_code == 200, put.text
            callers.wait_for(version)
            put = service.http.put(path, json={"version": version, "shadow": None})
            assert put.status_code == 200, put.text
            gone = service.http.delete(f"/v1/models/switched:{version - 1}", params={"purge": "true"})
            assert gone.status_code == 204, gone.text
    assert Counter(status for status, _ in callers.answers) == {200: len(callers.answers)}
    for _, body in callers.answers:
        assert body["predictions"][0]["score"] == pytest.approx(scores[body["version"]], rel=1e-12)
    assert {body["version"] for _, body in callers.answers} == set(range(1, VERSIONS + 1))
