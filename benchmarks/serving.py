"""Predict one row over loopback beside a bare FastAPI route, in one run, one connection each, interleaved."""

import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.serving import free_port, running_service, wait_until
from tests.tables import csv_text, noisy_rows

FEATURES = 123
ROUNDS = 20
REQUESTS_A_ROUND = 200

BARE_APP = """
import uvicorn
from fastapi import FastAPI

app = FastAPI()

@app.get("/bare")
async def bare() -> dict[str, str]:
    return {"status": "ok"}

uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning", access_log=False)
"""


def run() -> None:
    port = free_port()
    bare = subprocess.Popen([sys.executable, "-c", BARE_APP.replace("PORT", str(port))])
    try:
        with tempfile.TemporaryDirectory() as folder, running_service(Path(folder), workers=1) as service:
            X, y = noisy_rows(500, FEATURES, seed=0)
            data = service.upload(csv_text(X, y))
            model = service.wait(service.submit(data["id"], model="bench")["id"])["model_id"]
            body = json.dumps({"instances": [np.round(X[0], 6).tolist()]}).encode()
            wait_until(lambda: _answers(port), 30, "the bare server")
            routes = {
                "bare FastAPI route": _caller(port, "GET", "/bare", None),
                "predict by id": _caller(service.port, "POST", f"/v1/models/{model}/predict", body),
                "predict by name": _caller(service.port, "POST", "/v1/models/bench/predict", body),
            }
            _report(_measure(routes))
    finally:
        bare.terminate()
        bare.wait()


def _measure(routes: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    for call in routes.values():
        for _ in range(REQUESTS_A_ROUND):
            call()
    times: dict[str, list[float]] = {name: [] for name in routes}
    for _ in range(ROUNDS):
        for name, call in routes.items():
            for _ in range(REQUESTS_A_ROUND):
                began = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - began)
    return times


def _report(times: dict[str, list[float]]) -> None:
    print(f"{'':20} {'p50 ms':>8} {'p99 ms':>8} {'p50 ratio':>10}")
    base = statistics.median(times["bare FastAPI route"])
    for name, taken in times.items():
        middle, late = statistics.median(taken), statistics.quantiles(taken, n=100)[98]
        print(f"{name:20} {middle * 1e3:8.3f} {late * 1e3:8.3f} {middle / base:10.2f}")


def _caller(port: int, method: str, path: str, body: bytes | None) -> Callable[[], None]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Content-Type": "application/json"} if body else {}

    def call() -> None:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(content.decode())

    return call


def _answers(port: int) -> bool:
    try:
        _caller(port, "GET", "/bare", None)()
    except OSError:
        return False
    return True
