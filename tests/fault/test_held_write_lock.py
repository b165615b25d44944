"""A write lock of SQLite that another process holds: writes wait for it, and nothing else waits for them."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import pytest

from tests.support.serving import Service, running_service
from tests.support.tables import csv_text, noisy_rows

WRITES = 100  # more than all threads of an API process


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("service"), workers=1) as service:
        yield service


def test_reads_predictions_and_health_do_not_wait_for_writes(service: Service) -> None:
    data = service.upload(csv_text(*noisy_rows(100, 3, seed=0)))["id"]
    model = service.wait(service.submit(data, model="m")["id"])["model_id"]
    job = service.submit(data, solver="dcd", C=1000.0, tol=1e-14)["id"]
    database = sqlite3.connect(service.data_dir / "hyperplane.db", isolation_level=None, timeout=30)
    writer = httpx.Client(
        base_url=service.url, timeout=60, trust_env=False, headers={"Content-Type": "application/json"}
    )
    with closing(database), writer, ThreadPoolExecutor(WRITES) as clients:
        database.execute("BEGIN IMMEDIATE")
        try:
            cancelling = [clients.submit(writer.post, f"/v1/jobs/{job}/cancel") for _ in range(WRITES)]
            rows = {"instances": [[0.1, 0.2, 0.3]]}
            for _ in range(10):
                assert service.http.post("/v1/models/m/predict", json=rows).status_code == 200
                assert service.http.post(f"/v1/models/{model}/predict", json=rows).status_code == 200
                assert service.http.get("/v1/jobs").status_code == 200
                assert service.http.get("/readyz").status_code == 200
            assert not any(one.done() for one in cancelling)
        finally:
            database.execute("ROLLBACK")
        assert {one.result().status_code for one in cancelling} <= {200, 409}
