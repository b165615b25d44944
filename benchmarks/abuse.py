"""Predict and `/livez` while one client misuses the service: latency, memory and disk, each beside an idle service."""

import contextlib
import gzip
import json
import multiprocessing
import os
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.serving import _caller as caller
from tests.support.serving import Service, running_service
from tests.support.tables import csv_text, noisy_rows

SECONDS = 8.0  # of each measurement
FEATURES = 50
WIDE_COLUMNS = 300_000
FILES_LIMIT = 256  # `ulimit -n` of the service that idle sockets are opened to
HEAD_START_SECONDS = 0.5  # of the abuse before the first probe
PAUSE_SECONDS = 0.002  # between two probes: about 300 a second


class Probed(NamedTuple):
    """Latencies in seconds; None: no answer came."""

    predict: list[float]
    livez: list[float]
    failures: int
    memory_bytes: int
    disk_bytes: int


class Bench(NamedTuple):
    """The service, its key and what the abuses act on."""

    service: Service
    key: str
    job: str
    wide: str
    tiny: str

    @property
    def port(self) -> int:
        return self.service.port

    def head(self, line: str, **headers: str) -> bytes:
        described = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {self.key}", **headers}
        return "\r\n".join(
            [line, *(f"{name.replace('_', '-')}: {value}" for name, value in described.items()), "", ""]
        ).encode()


Abuse = Callable[[Bench, threading.Event], None]


def run() -> None:
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; {SECONDS:.0f} s each")
    print("| abuse | predict p50 ms | predict p99 ms | times idle | livez p99 ms | failed | API MB | disk MB |")
    print("|---|---|---|---|---|---|---|---|")
    for limit, abuses in ((None, ABUSES), (FILES_LIMIT, FEW_FILES)):
        with tempfile.TemporaryDirectory() as folder, _bench(Path(folder), limit) as bench:
            idle = _measure(bench, _idle)
            _show("idle" if limit is None else f"idle, ulimit -n {limit}", idle, idle)
            for name, abuse in abuses.items():
                _show(name, _measure(bench, abuse), idle)


def _show(name: str, found: Probed, idle: Probed) -> None:
    late, usual = _late(found.predict), _late(idle.predict)
    figures = (
        f"{_median(found.predict) * 1e3:.1f} | {late * 1e3:.1f} | {late / usual:.1f} | {_late(found.livez) * 1e3:.1f}"
    )
    sizes = f"{found.memory_bytes / 1e6:.0f} | {found.disk_bytes / 1e6:.0f}"
    print(f"| {name} | {figures} | {found.failures} | {sizes} |", flush=True)


def _median(times: list[float]) -> float:
    return statistics.median(times) if times else float("nan")


def _late(times: list[float]) -> float:
    """The 99th percentile; of few, the largest."""
    return sorted(times)[int(0.99 * len(times))] if times else float("nan")


@contextmanager
def _bench(folder: Path, files_limit: int | None) -> Iterator[Bench]:
    with running_service(folder, workers=1, files_limit=files_limit) as service:
        data = service.upload(csv_text(*noisy_rows(500, FEATURES, seed=0)))["id"]
        service.wait(service.submit(data, model="row")["id"], 120)
        names = ",".join([*(f"c{j}" for j in range(WIDE_COLUMNS)), "y"])
        rows = "\n".join(
            ",".join([*np.random.default_rng(k).integers(0, 9, WIDE_COLUMNS).astype(str), str(k)]) for k in (0, 1)
        )
        wide = service.upload(f"{names}\n{rows}\n".encode(), header="true")["id"] if files_limit is None else ""
        tiny = service.upload(b"1 3500000:1\n-1 1:1\n", "text/x-libsvm")["id"]
        held = service.submit(data, solver="dcd", C=1000.0, tol=1e-14, stop={"seconds": 3600})["id"]
        service.http.post(f"/v1/jobs/{held}/pause")
        command = [sys.executable, "-m", "app.cli", "keys", "create", "--admin"]
        made = subprocess.run(command, env=service.environment, check=True, capture_output=True, text=True)
        key = next(word for word in made.stdout.split() if word.startswith("key_"))
        time.sleep(3)  # until the service asks for it
        yield Bench(service, key, held, wide, tiny)


def _measure(bench: Bench, abuse: Abuse) -> Probed:
    api = bench.service.child("api")
    disk = _disk_bytes(bench.service.data_dir)
    stop = threading.Event()
    abusing = threading.Thread(target=_quietly, args=(abuse, bench, stop), daemon=True)
    abusing.start()
    time.sleep(HEAD_START_SECONDS)
    processes = multiprocessing.get_context("fork")
    ours, theirs = processes.Pipe(duplex=False)
    prober = processes.Process(target=_probe, args=(theirs, bench.port, bench.key), daemon=True)
    prober.start()
    memory = 0
    most_disk = disk
    deadline = time.monotonic() + SECONDS + 60
    while not ours.poll(0.1) and time.monotonic() < deadline:
        memory = max(memory, _memory_bytes(api))
        most_disk = max(most_disk, _disk_bytes(bench.service.data_dir))
    predict, livez, failures = ours.recv()
    stop.set()
    abusing.join(90)
    prober.join()
    return Probed(predict, livez, failures, memory, most_disk - disk)


def _probe(reply: Any, port: int, key: str) -> None:
    """In a process of its own, so that the abusing client's work does not count."""
    body = json.dumps({"instances": [[0.5] * FEATURES]}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    made: dict[str, Callable[[], None]] = {}
    makers: dict[str, Callable[[], Callable[[], None]]] = {
        "predict": lambda: caller(port, "POST", "/v1/models/row/predict", body, headers),
        "livez": lambda: caller(port, "GET", "/livez"),
    }
    times: dict[str, list[float]] = {name: [] for name in makers}
    failures, ends = 0, time.monotonic() + SECONDS
    socket.setdefaulttimeout(30)
    while time.monotonic() < ends:
        made.pop("livez", None)  # on a connection of its own each time, as orchestrators ask
        for name, make in makers.items():
            began = time.perf_counter()
            try:
                if name not in made:
                    made[name] = make()
                made[name]()
            except (OSError, RuntimeError, ValueError):
                failures += 1
                made.pop(name, None)
            times[name].append(time.perf_counter() - began)
        time.sleep(PAUSE_SECONDS)
    reply.send((times["predict"], times["livez"], failures))


def _quietly(abuse: Abuse, bench: Bench, stop: threading.Event) -> None:
    with contextlib.suppress(OSError):
        abuse(bench, stop)


def _connected(bench: Bench, count: int) -> list[socket.socket]:
    made = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            made.append(socket.create_connection(("127.0.0.1", bench.port), timeout=30))
    return made


def _send(connection: socket.socket, content: bytes) -> bool:
    try:
        connection.sendall(content)
    except OSError:
        return False
    return True


def _in_threads(count: int, stop: threading.Event, act: Callable[[], None]) -> None:
    """Repeat `act` in this many threads until the measurement ends."""

    def repeat() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError):
                act()

    threads = [threading.Thread(target=repeat, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 60)


def _asked(bench: Bench, request: bytes, seconds: float = 60.0) -> bytes:
    """One request on a connection of its own; the answer's first bytes, after all of it was read."""
    with socket.create_connection(("127.0.0.1", bench.port), timeout=seconds) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(request)
        first = b""
        while piece := connection.recv(1 << 20):
            first = first or piece[:200]
        return first


def _ask(bench: Bench, request: bytes) -> None:
    _asked(bench, request)


def _idle(_: Bench, stop: threading.Event) -> None:
    stop.wait(SECONDS)


def _endless_headers(bench: Bench, stop: threading.Event) -> None:
    open_ones = _connected(bench, 4)
    for one in open_ones:
        _send(one, b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: ")
    for _ in range(90):
        for one in open_ones:
            _send(one, b"x" * 1_000_000)
    stop.wait(SECONDS)


def _bad_tokens(bench: Bench, stop: threading.Event) -> None:
    for number in range(300):
        lines = ["GET /v1/jobs HTTP/1.1", "Host: 127.0.0.1", "Connection: close"]
        lines.append(f"Authorization: Bearer key_{number}." + "x" * 1_000_000)
        with contextlib.suppress(OSError):
            _asked(bench, "\r\n".join([*lines, "", ""]).encode())
    stop.wait(SECONDS)


def _slow_heads(bench: Bench, stop: threading.Event) -> None:
    open_ones = _connected(bench, 1000)
    while not stop.wait(0.5):
        open_ones = [one for one in open_ones if _send(one, b"G")]


def _idle_sockets(bench: Bench, stop: threading.Event) -> None:
    open_ones = _connected(bench, 300)
    stop.wait(SECONDS)
    for one in open_ones:
        one.close()


def _long_polls(bench: Bench, stop: threading.Event) -> None:
    open_ones = _connected(bench, 1000)
    for one in open_ones:
        _send(one, bench.head(f"GET /v1/jobs/{bench.job}?wait=60 HTTP/1.1"))
    stop.wait(SECONDS + 60)
    for one in open_ones:
        one.close()


def _held_write_lock(bench: Bench, stop: threading.Event) -> None:
    database = sqlite3.connect(bench.service.data_dir / "hyperplane.db", isolation_level=None, timeout=30)
    database.execute("BEGIN IMMEDIATE")
    request = bench.head(
        f"POST /v1/jobs/{bench.job}/pause HTTP/1.1", Content_Length="0", Content_Type="application/json"
    )
    open_ones = _connected(bench, 100)
    for one in open_ones:
        _send(one, request)
    stop.wait(SECONDS + 4)
    database.execute("ROLLBACK")
    database.close()


def _wide_dataset(bench: Bench, stop: threading.Event) -> None:
    request = bench.head(f"GET /v1/datasets/{bench.wide} HTTP/1.1", Connection="close")
    _in_threads(2, stop, partial(_ask, bench, request))


def _listed_wide_datasets(bench: Bench, stop: threading.Event) -> None:
    request = bench.head("GET /v1/datasets HTTP/1.1", Connection="close")
    _in_threads(2, stop, partial(_ask, bench, request))


def _trickling_bodies(bench: Bench, stop: threading.Event) -> None:
    head = bench.head("POST /v1/jobs HTTP/1.1", Content_Type="application/json", Content_Length="60000000")
    open_ones = [one for one in _connected(bench, 20) if _send(one, head)]
    for _ in range(58):
        open_ones = [one for one in open_ones if _send(one, b" " * 1_000_000)]
    while not stop.wait(0.5):
        open_ones = [one for one in open_ones if _send(one, b" " * 600)]


def _uploads(bench: Bench, stop: threading.Event) -> None:
    content = csv_text(*noisy_rows(20_000, 100, seed=5))
    count = iter(range(10**9))

    def upload() -> None:
        body = content + f"{next(count)}".encode() + b",1" * 100 + b"\n"
        head = bench.head(
            "POST /v1/datasets HTTP/1.1", Content_Type="text/csv", Content_Length=str(len(body)), Connection="close"
        )
        _asked(bench, head + body)

    _in_threads(8, stop, upload)


def _tiny_statistics(bench: Bench, stop: threading.Event) -> None:
    _asked(bench, bench.head(f"GET /v1/datasets/{bench.tiny}/statistics HTTP/1.1", Connection="close"))
    stop.wait(SECONDS)


def _compressed_zeros(bench: Bench, stop: threading.Event) -> None:
    member = gzip.compress((b"0," * 5_000 + b"1\n") * 1_000, compresslevel=9)
    packed = member * 200  # 2 GB of text, 8 GB of numbers
    described = {"Content_Type": "text/csv", "Content_Encoding": "gzip", "Content_Length": str(len(packed))}
    head = bench.head("POST /v1/datasets?header=false HTTP/1.1", Connection="close", **described)
    _asked(bench, head + packed, SECONDS + 60)
    stop.wait(SECONDS)


ABUSES: dict[str, Abuse] = {
    "headers of 90 MB": _endless_headers,
    "300 bad tokens of 1 MB": _bad_tokens,
    "1,000 slow heads": _slow_heads,
    "1,000 long polls": _long_polls,
    "write lock held, 100 writes": _held_write_lock,
    "GET of 300,000 columns": _wide_dataset,
    "list with a wide dataset": _listed_wide_datasets,
    "20 trickling bodies of 60 MB": _trickling_bodies,
    "8 uploads at once": _uploads,
    "statistics of a 20-byte file": _tiny_statistics,
    "gzip of zeros": _compressed_zeros,
}
FEW_FILES: dict[str, Abuse] = {"300 idle sockets": _idle_sockets}


def _memory_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
    return 0


def _disk_bytes(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += file.stat().st_blocks * 512
    return total
