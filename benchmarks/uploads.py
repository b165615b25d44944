"""A 5 GB upload broken off twice, with the API's memory; covtype as CSV until `ready`, beside pandas and H2O.

The plot and the table go to docs/benchmarks.
"""

import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import load
from benchmarks.line_plot import write_plot
from tests.support.serving import Service, children_of, free_port, running_service

LARGE_BYTES = 5_000_000_000
BLOCK_ROWS = 200_000
ROW_ENTRIES = 12
SEND_BYTES = 1 << 20
SAMPLE_SECONDS = 0.2
ROUNDS = 3
MB = 1_000_000
ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "benchmarks"
PEERS = ROOT / ".venv" / "peers"

READ_BY_PANDAS = """
import sys, time
import pandas
for _ in range(int(sys.argv[2])):
    began = time.perf_counter()
    pandas.read_csv(sys.argv[1])
    print(time.perf_counter() - began, flush=True)
"""
READ_BY_H2O = """
import sys, time
import h2o
h2o.init(port=int(sys.argv[3]), nthreads=-1, max_mem_size="4g", verbose=False)
h2o.no_progress()
try:
    for number in range(int(sys.argv[2])):
        began = time.perf_counter()
        h2o.upload_file(sys.argv[1], destination_frame=f"frame{number}")
        print(time.perf_counter() - began, flush=True)
finally:
    h2o.cluster().shutdown()
"""


def run() -> None:
    DOCS.mkdir(parents=True, exist_ok=True)
    with (DOCS / "uploads.md").open("w") as page:
        for line in chain(("# Uploads, measured", ""), _large_upload(), ("",), _covtype()):
            print(line, flush=True)
            print(line, file=page)


def _large_upload() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        needed = 4 * LARGE_BYTES
        if shutil.disk_usage(folder).free < needed:
            yield f"The large upload was not measured: it needs {needed / MB:.0f} MB of disk."
            return
        content = _LargeFile(LARGE_BYTES)
        with running_service(Path(folder), workers=0) as service, _Memory(service) as memory:
            yield from _measure_large(service, memory, content)


def _measure_large(service: Service, memory: "_Memory", content: "_LargeFile") -> Iterator[str]:
    headers = {"Content-Type": "text/x-libsvm", "Upload-Length": str(content.size)}
    location = service.http.post("/v1/uploads?index_base=1", headers=headers).headers["location"]
    memory.mark("begun")
    offset, before = 0, memory.now()
    for share in (0.35, 0.7):
        _send(service, location, content, offset, int(content.size * share), break_off=True)
        memory.mark("broken off")
        time.sleep(1.0)
        offset = int(service.http.head(location).headers["upload-offset"])
    answer = _send(service, location, content, offset, content.size, break_off=False)
    memory.mark("complete")
    dataset = answer
    while not dataset["done"]:
        dataset = service.get(f"/v1/datasets/{answer['id']}", wait=30)
    memory.mark("ready")
    api, child = memory.peaks()
    write_plot(
        DOCS / "uploads.svg",
        f"Memory while {content.size / MB:.0f} MB of libsvm text arrive, broken off twice",
        ("seconds", "MB"),
        {"API (resident)": memory.api, "reader (private)": memory.child},
        memory.marks,
    )
    moments = memory.marks
    size = f"{dataset['n_rows']} rows, {dataset['nnz']} entries"
    yield f"{content.size / MB:.0f} MB of libsvm text, {size}: {dataset['status']}."
    yield f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| growth of the API's resident memory | {api - before:.1f} MB |"
    yield f"| private memory of the reader, at most | {child:.0f} MB |"
    sent = "from the first byte to the answer to the last one: broken off twice, hashed, 10 s waited"
    yield f"| {sent} | {moments['complete'] - moments['begun']:.0f} s |"
    yield f"| from that answer to ready | {moments['ready'] - moments['complete']:.0f} s |"
    yield ""
    yield "![memory against time](uploads.svg)"


def _send(
    service: Service, location: str, content: "_LargeFile", first: int, past: int, *, break_off: bool
) -> dict[str, Any]:
    """Send a range of the file; `break_off`: promise more and leave."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=600)
    connection.putrequest("PATCH", location)
    connection.putheader("Upload-Offset", str(first))
    connection.putheader("Content-Length", str(content.size - first))
    connection.endheaders()
    for piece in content.pieces(first, past):
        connection.send(piece)
    if break_off:
        connection.close()
        return {}
    answer = connection.getresponse()
    body: dict[str, Any] = json.loads(answer.read())
    if answer.status != 201:
        raise RuntimeError(body)
    return body


class _LargeFile:
    """libsvm text of any size that is stored nowhere: a block of rows, again and again."""

    def __init__(self, size: int) -> None:
        random = np.random.default_rng(0)
        columns = np.sort(random.integers(0, 10_000, (BLOCK_ROWS, ROW_ENTRIES)), axis=1) + np.arange(ROW_ENTRIES) + 1
        values = random.standard_normal((BLOCK_ROWS, ROW_ENTRIES)).round(6)
        rows = (
            " ".join([label, *(f"{column}:{value}" for column, value in zip(c, v, strict=True))])
            for label, c, v in zip(("1", "-1") * (BLOCK_ROWS // 2), columns.tolist(), values.tolist(), strict=True)
        )
        self._block = ("\n".join(rows) + "\n").encode()
        self.size = size - size % len(self._block)

    def pieces(self, first: int, past: int) -> Iterator[bytes]:
        view = memoryview(self._block)
        while first < past:
            start = first % len(self._block)
            stop = min(start + SEND_BYTES, len(self._block), start + past - first)
            yield bytes(view[start:stop])
            first += stop - start


class _Memory:
    """Samples the API's resident and its reader's private memory, in MB, until the block ends."""

    def __init__(self, service: Service) -> None:
        self._api_pid = service.child("api")
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.api: list[tuple[float, float]] = []
        self.child: list[tuple[float, float]] = []
        self.marks: dict[str, float] = {}

    def __enter__(self) -> "_Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def mark(self, name: str) -> None:
        again = sum(known.startswith(name) for known in self.marks)
        self.marks[f"{name} again" if again else name] = time.monotonic() - self._began

    def now(self) -> float:
        return _field(self._api_pid, "VmRSS")

    def peaks(self) -> tuple[float, float]:
        return max(y for _, y in self.api), max(y for _, y in self.child)

    def _sample(self) -> None:
        helpers = children_of(self._api_pid)
        while not self._stop.wait(SAMPLE_SECONDS):
            moment = time.monotonic() - self._began
            readers = [pid for helper in helpers for pid in children_of(helper)]
            self.api.append((moment, self.now()))
            self.child.append((moment, sum(_field(pid, "RssAnon") for pid in readers)))


def _field(pid: int, name: str) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / MB for line in lines if line.startswith(f"{name}:")), 0.0)


def _covtype() -> Iterator[str]:
    try:
        X, y = load("covtype")
    except FileNotFoundError:
        yield "covtype was not measured: it is not beside the project."
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "covtype.csv"
        whole = np.column_stack([X, y])
        with path.open("w") as file:
            file.write(",".join([*(f"x{number}" for number in range(X.shape[1])), "label"]) + "\n")
            np.savetxt(
                file, whole, fmt="%d" if np.array_equal(whole, whole.astype(np.int64)) else "%.17g", delimiter=","
            )
        seconds: dict[str, list[float]] = {"upload to ready": []}
        with running_service(Path(folder), workers=0) as service:
            for number in range(ROUNDS):
                seconds["upload to ready"].append(_upload_seconds(service, path, f"round-{number}"))
                for name, script in (("pandas", READ_BY_PANDAS), ("h2o", READ_BY_H2O)):
                    seconds.setdefault(name, []).extend(_peer_seconds(name, script, path))
        size = path.stat().st_size / MB
    ours = statistics.median(seconds["upload to ready"])
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"
    yield f"covtype as CSV, {size:.0f} MB, {ROUNDS} rounds in turn, medians, {machine}:"
    yield ""
    yield "| | seconds | beside ours |"
    yield "|---|---|---|"
    for name, taken in seconds.items():
        known = {
            "pandas": "`pandas.read_csv`, second read of a process",
            "h2o": "H2O, `upload_file`, second of a cluster",
        }
        middle = (
            f"{statistics.median(taken):.2f} | {statistics.median(taken) / ours:.2f}" if taken else "not installed | "
        )
        yield f"| {known.get(name, name)} | {middle} |"


def _upload_seconds(service: Service, path: Path, name: str) -> float:
    began = time.perf_counter()
    with path.open("rb") as file:
        headers = {"Content-Type": "text/csv"}
        answer = service.http.post("/v1/datasets", content=file, headers=headers, params={"name": name}, timeout=300)
    dataset = answer.json()
    while not dataset["done"]:
        dataset = service.get(f"/v1/datasets/{dataset['id']}", wait=30)
    if dataset["status"] != "ready":
        raise RuntimeError(dataset)
    return time.perf_counter() - began


def _peer_seconds(package: str, script: str, path: Path) -> list[float]:
    """The second of two reads: the first one loads and compiles the peer."""
    python = peer_python(package)
    if python is None:
        return []
    command = [python, "-c", script, str(path), "2", str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    numbers = [float(line) for line in done.stdout.splitlines() if line[:1].isdigit()]
    return numbers[1:2]


def peer_python(package: str) -> str | None:
    """An environment of its own: a peer must not change what the project runs on."""
    python = PEERS / package / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", PEERS / package], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=False)
    found = subprocess.run([python, "-c", f"import {package}"], capture_output=True, check=False)
    return str(python) if found.returncode == 0 else None
