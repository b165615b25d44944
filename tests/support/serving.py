"""A real `hyperplane serve` for tests: its own data folder, its own port, real processes to kill."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

START_SECONDS = 120.0  # a first start on a bare machine compiles every kernel


class Service:
    """One running service and a client of it."""

    def __init__(
        self,
        data_dir: Path,
        database_url: str | None = None,
        workers: int = 2,
        log_dir: Path | None = None,
        files_limit: int | None = None,
        **settings: Any,
    ) -> None:
        limited = ["prlimit", f"--nofile={files_limit}:{files_limit}"] if files_limit else []
        self._command = [*limited, sys.executable, "-m", "app.cli", "serve"]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data_dir = data_dir
        self.log_file = (log_dir or data_dir) / "service.log"
        own = {"data_dir": data_dir, "port": self.port, "workers": workers, **settings}
        if database_url:
            own["database_url"] = database_url
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("HYPERPLANE_")}
        self.environment |= {f"HYPERPLANE_{name.upper()}": str(value) for name, value in own.items()}
        self.http = httpx.Client(base_url=self.url, timeout=60, trust_env=False)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, seconds: float = START_SECONDS) -> None:
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(self._command, env=self.environment, stdout=log, stderr=log)
        wait_until(self.is_ready, seconds, f"the service to be ready; its log: {self.log()[-2000:]}")

    def stop(self) -> float:
        """SIGTERM; returns the seconds that it took to end."""
        assert self.process is not None
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        return time.monotonic() - began

    def is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    def child(self, command: str) -> int:
        """The process id of the `api` or the `worker` process."""
        assert self.process is not None
        return next(pid for pid in children_of(self.process.pid) if command in command_line(pid))

    def training_processes(self) -> list[int]:
        """The processes that run solvers: children of the worker's forkserver."""
        return [pid for fork in children_of(self.child("worker")) for pid in children_of(fork)]

    def upload(self, content: bytes, media_type: str = "text/csv", **query: Any) -> dict[str, Any]:
        headers = {"Content-Type": media_type}
        return checked(self.http.post("/v1/datasets", content=content, headers=headers, params=query))

    def submit(self, dataset_id: str, **fields: Any) -> dict[str, Any]:
        return checked(self.http.post("/v1/jobs", json={"dataset_id": dataset_id, **fields}))

    def job(self, job_id: str) -> dict[str, Any]:
        return checked(self.http.get(f"/v1/jobs/{job_id}"))

    def wait(self, job_id: str, seconds: float = 60.0) -> dict[str, Any]:
        """The job once it is done."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            job = checked(self.http.get(f"/v1/jobs/{job_id}", params={"wait": 5}))
            if job["done"]:
                return job
        raise AssertionError(f"{job_id} is not done after {seconds} s: {job}; log: {self.log()[-2000:]}")

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        return checked(self.http.get(path, params=query))


@contextmanager
def running_service(
    data_dir: Path, database_url: str | None = None, workers: int = 2, **settings: Any
) -> Iterator[Service]:
    service = Service(data_dir, database_url, workers, **settings)
    service.start()
    try:
        yield service
    finally:
        service.http.close()  # first: a stop gives connections that are open a second to say something
        if service.process is not None and service.process.poll() is None:
            service.stop()


def checked(response: httpx.Response) -> dict[str, Any]:
    assert response.is_success, f"{response.status_code}: {response.text}"
    body: dict[str, Any] = response.json()
    return body


def wait_until(condition: Any, seconds: float, what: str) -> Any:
    """What the condition returns when it first is true."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.05)
    return found


def children_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
