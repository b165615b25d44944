"""Predict over loopback beside a bare FastAPI route, a bare matrix product and an MLflow scoring server."""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.support.serving import Service, free_port, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

ONE_ROW_FEATURES = 123
BATCH_ROWS, BATCH_FEATURES = 1000, 50
WIDE_FEATURES, NARROW_FEATURES, ENTRIES = 1_000_000, 1_000, 100
SECONDS = 12.0  # of each route: of a thousandth of a second's requests, the latest hundredth is then a hundred
TURNS, PAUSED_TURNS = 240, 20
"""Parts into which a route's time is divided. The routes take turns, so that other load on the machine affects all."""
SETTLE_SECONDS = 0.5  # seconds to wait after trainings were paused or resumed
DOCS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
TICKS = os.sysconf("SC_CLK_TCK")
HEADER = "Inference-Header-Content-Length"

BARE_APP = """
import numpy as np
import uvicorn
from fastapi import FastAPI, Request, Response

app = FastAPI()
weights = np.linspace(-1.0, 1.0, FEATURES)

@app.get("/bare")
async def bare() -> dict[str, str]:
    return {"status": "ok"}

@app.post("/body")
async def body(request: Request) -> dict[str, int]:
    return {"bytes": len(await request.body())}

@app.post("/product")
async def product(request: Request) -> Response:
    rows = np.frombuffer(await request.body(), dtype="<f8").reshape(-1, FEATURES)
    return Response((rows @ weights).tobytes(), media_type="application/octet-stream")

uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning", access_log=False)
"""


class Route(NamedTuple):
    """Something to call, the process that answers, and what to do before each round."""

    name: str
    pid: int
    call: Callable[[], None]
    before: Callable[[], None] = lambda: None


class Measured(NamedTuple):
    name: str
    p50: float
    p99: float
    cpu: float
    """Seconds of the server's processor a request."""
    rate: float
    """Requests a second, one after another on one connection."""


def run() -> None:
    DOCS.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_service(Path(folder), workers=2) as service,
        _bare_server() as (bare_port, bare_pid),
        (DOCS / "serving.md").open("w") as page,
    ):
        api = service.child("api")
        for line in chain(
            ("# Predict, measured", "", f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start.", ""),
            _one_row(service, api, bare_port, bare_pid),
            _batch(service, api, bare_port, bare_pid),
            _mlflow(service, api, Path(folder)),
            _sparse(service, api),
            _while_training(service, api),
        ):
            print(line, flush=True)
            print(line, file=page)


def _one_row(service: Service, api: int, bare_port: int, bare_pid: int) -> Iterator[str]:
    X, y = noisy_rows(500, ONE_ROW_FEATURES, seed=0)
    model = _train(service, csv_text(X, y), model="row")
    row = np.round(X[0], 6)
    body = json.dumps({"instances": [row.tolist()]}).encode()
    raw, headers = _binary(row[None, :])
    routes = [
        Route("bare FastAPI route", bare_pid, _caller(bare_port, "GET", "/bare")),
        Route("bare route that takes the body", bare_pid, _caller(bare_port, "POST", "/body", body)),
        Route("predict by id", api, _caller(service.port, "POST", f"/v1/models/{model}/predict", body)),
        Route("predict by name", api, _caller(service.port, "POST", "/v1/models/row/predict", body)),
        Route("/v2 infer, raw tensors", api, _caller(service.port, "POST", "/v2/models/row/infer", raw, headers)),
    ]
    yield f"## One row of {ONE_ROW_FEATURES} numbers in JSON (aim: at most 2 times the bare route)"
    yield from _table(_measure(routes))


def _batch(service: Service, api: int, bare_port: int, bare_pid: int) -> Iterator[str]:
    X, y = noisy_rows(BATCH_ROWS, BATCH_FEATURES, seed=1)
    _train(service, csv_text(X, y), model="batch")
    raw, headers = _binary(X)
    bare = _caller(
        bare_port, "POST", "/product", X.astype("<f8").tobytes(), {"Content-Type": "application/octet-stream"}
    )
    as_json = json.dumps({"instances": X.tolist(), "return": ["score"]}).encode()
    npy = BytesIO()
    np.save(npy, X)
    npy_headers = {"Content-Type": "application/x-npy", "Accept": "application/x-npy"}
    path = "/v1/models/batch/predict"
    routes = [
        Route("the bytes and one numpy product", bare_pid, bare),
        Route("/v2 infer, raw tensors", api, _caller(service.port, "POST", "/v2/models/batch/infer", raw, headers)),
        Route("predict, npy to npy", api, _caller(service.port, "POST", path, npy.getvalue(), npy_headers)),
        Route("predict, JSON", api, _caller(service.port, "POST", path, as_json)),
    ]
    yield f"## {BATCH_ROWS} rows of {BATCH_FEATURES} numbers (aim: raw tensors at most 1.5 times the bare product)"
    yield from _table(_measure(routes))


def _mlflow(service: Service, api: int, folder: Path) -> Iterator[str]:
    yield "## The same weights in an MLflow scoring server (aim: at least 5 times its requests a second)"
    exported = service.http.get("/v1/models/row/export", params={"format": "mlflow"})
    if exported.status_code != 200:
        yield f"Not measured: the export answered {exported.status_code}."
        return
    target = folder / "mlflow-model"
    with zipfile.ZipFile(BytesIO(exported.content)) as archive:
        archive.extractall(target)
    names = service.get("/v1/models/row/weights")["feature_names"]
    X, _ = noisy_rows(1, ONE_ROW_FEATURES, seed=0)
    body = json.dumps({"dataframe_split": {"columns": names, "data": X.tolist()}}).encode()
    with _mlflow_server(target) as (port, pid):
        routes = [
            Route("MLflow scoring server", pid, _caller(port, "POST", "/invocations", body)),
            Route("invocations", api, _caller(service.port, "POST", "/v1/models/row/invocations", body)),
        ]
        measured = _measure(routes)
    yield from _table(measured)
    yield f"{measured[1].rate / measured[0].rate:.1f} times its requests a second."
    yield ""


def _sparse(service: Service, api: int) -> Iterator[str]:
    routes = []
    for name, width in (("narrow", NARROW_FEATURES), ("wide", WIDE_FEATURES)):
        random = np.random.default_rng(2)
        lines = []
        for number in range(200):
            chosen = np.sort(random.choice(width, ENTRIES, replace=False)) + 1
            lines.append(f"{number % 2} " + " ".join(f"{j}:{random.random():.4f}" for j in chosen.tolist()))
        text = "\n".join(lines).encode()
        query = {"index_base": 1, "n_features": width}
        _train(service, text, media_type="text/x-libsvm", query=query, model=name)
        chosen = np.sort(random.choice(width, ENTRIES, replace=False))
        instance = {"indices": chosen.tolist(), "values": random.random(ENTRIES).round(4).tolist()}
        body = json.dumps({"instances": [instance]}).encode()
        call = _caller(service.port, "POST", f"/v1/models/{name}/predict", body)
        routes.append(Route(f"{ENTRIES} of {width:,} features", api, call))
    yield "## A sparse row (aim: by its non-zeros, not by the width)"
    yield from _table(_measure(routes))


def _while_training(service: Service, api: int) -> Iterator[str]:
    """Rounds with and without the trainings by turns, so that whatever else the machine does hits both alike."""
    X, _ = noisy_rows(500, ONE_ROW_FEATURES, seed=0)
    body = json.dumps({"instances": [np.round(X[0], 6).tolist()]}).encode()
    call = _caller(service.port, "POST", "/v1/models/row/predict", body)
    data = service.upload(csv_text(*noisy_rows(20_000, 40, seed=3, flipped=0.3)))["id"]
    jobs = [
        service.submit(data, solver="dcd", C=1000.0, tol=1e-14, seed=seed, stop={"seconds": 600})["id"]
        for seed in (0, 1)
    ]

    def become(status: str, verb: str) -> None:
        for job in jobs:
            if service.job(job)["status"] != status:
                service.http.post(f"/v1/jobs/{job}/{verb}")
        wait_until(lambda: all(service.job(job)["status"] == status for job in jobs), 60, f"both jobs to be {status}")
        time.sleep(SETTLE_SECONDS)

    wait_until(lambda: all(service.job(job)["status"] == "running" for job in jobs), 60, "both jobs to run")
    idle = Route("idle: the jobs are paused", api, call, lambda: become("paused", "pause"))
    busy = Route("while two jobs train", api, call, lambda: become("running", "resume"))
    measured = _measure([idle, busy], PAUSED_TURNS)
    still = [service.job(job)["status"] for job in jobs]
    for job in jobs:
        service.http.post(f"/v1/jobs/{job}/cancel")
    yield f"## While {len(jobs)} jobs train (aim: p99 at most 3 times that of an idle machine)"
    yield from _table(measured)
    yield f"p99: {measured[1].p99 / measured[0].p99:.2f} times. The jobs were {' and '.join(still)} at the end."


def _measure(routes: list[Route], turns: int = TURNS) -> list[Measured]:
    """A turn of each route after the other, again and again. The first turns only warm up."""
    times: dict[str, list[float]] = {route.name: [] for route in routes}
    cpu = dict.fromkeys(times, 0.0)
    for turn in range(-max(1, turns // 20), turns):
        for route in routes:
            route.before()
            taken: list[float] = []
            used, ends = _cpu_seconds(route.pid), time.perf_counter() + SECONDS / turns
            while (began := time.perf_counter()) < ends:
                route.call()
                taken.append(time.perf_counter() - began)
            if turn >= 0:
                times[route.name] += taken
                cpu[route.name] += _cpu_seconds(route.pid) - used
    measured = []
    for name, taken in times.items():
        late = statistics.quantiles(taken, n=100)[98]
        measured.append(Measured(name, statistics.median(taken), late, cpu[name] / len(taken), len(taken) / sum(taken)))
    return measured


def _table(measured: list[Measured]) -> Iterator[str]:
    yield ""
    yield "| | p50 ms | p99 ms | CPU ms | requests a second | p50 ratio | p99 ratio | CPU ratio |"
    yield "|---|---|---|---|---|---|---|---|"
    base = measured[0]
    for one in measured:
        figures = f"{one.p50 * 1e3:.3f} | {one.p99 * 1e3:.3f} | {one.cpu * 1e3:.3f} | {one.rate:.0f}"
        ratios = (one.p50 / base.p50, one.p99 / base.p99, one.cpu / max(base.cpu, 1e-9))
        yield f"| {one.name} | {figures} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |"
    yield ""


def _binary(X: Any) -> tuple[bytes, dict[str, str]]:
    """A request of the Open Inference Protocol with raw tensors both ways."""
    raw = X.astype("<f8").tobytes()
    tensor = {"name": "X", "shape": list(X.shape), "datatype": "FP64", "parameters": {"binary_data_size": len(raw)}}
    wanted = [{"name": "score", "parameters": {"binary_data": True}}]
    text = json.dumps({"inputs": [tensor], "outputs": wanted}).encode()
    return text + raw, {"Content-Type": "application/octet-stream", HEADER: str(len(text))}


def _train(
    service: Service, content: bytes, media_type: str = "text/csv", query: dict[str, Any] | None = None, **job: Any
) -> str:
    data = service.upload(content, media_type, **(query or {}))
    done = service.wait(service.submit(data["id"], **job)["id"], 120)
    model: str = done["model_id"]
    return model


def _caller(
    port: int, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> Callable[[], None]:
    """Sends the same bytes each time, at once, on one connection: the client should cost as little as it can."""
    described = headers or ({"Content-Type": "application/json"} if body else {})
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in described.items()]
    request = "\r\n".join([*lines, "", ""]).encode() + body
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call() -> None:
        connection.sendall(request)
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += _some(connection)
        head = received[:end].lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        missing = end + 4 + length - len(received)
        while missing > 0:
            missing -= len(_some(connection))
        if b" 200 " not in head[:15]:
            raise RuntimeError(received.decode(errors="replace"))

    return call


def _some(connection: socket.socket) -> bytes:
    content = connection.recv(1 << 16)
    if not content:
        raise ConnectionError("the server closed the connection")
    return content


@contextmanager
def _bare_server() -> Iterator[tuple[int, int]]:
    port = free_port()
    program = BARE_APP.replace("PORT", str(port)).replace("FEATURES", str(BATCH_FEATURES))
    with _started([sys.executable, "-c", program], port, "/bare") as pid:
        yield port, pid


@contextmanager
def _mlflow_server(model: Path) -> Iterator[tuple[int, int]]:
    """What `mlflow models serve` runs, without its own environment for the model."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
    command += ["--no-access-log", "mlflow.pyfunc.scoring_server.app:app"]
    environment = {**os.environ, "__pyfunc_model_path__": str(model)}
    with _started(command, port, "/ping", environment) as pid:
        yield port, pid


@contextmanager
def _started(command: list[str], port: int, path: str, environment: dict[str, str] | None = None) -> Iterator[int]:
    # A session of its own, as `serve` gives to its processes: the scheduler shares time among sessions, and a server
    # in that of its client would not be measured under the same conditions.
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        wait_until(lambda: _answers(port, path), 60, f"the server of {path}")
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _answers(port: int, path: str) -> bool:
    try:
        _caller(port, "GET", path)()
    except (OSError, RuntimeError):
        return False
    return True


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
