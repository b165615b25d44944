"""How soon an idle worker begins with a job, on both databases, and what it costs to wait for one."""

import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from tests.support.postgres import fresh_database, running_server
from tests.support.serving import Service, running_service
from tests.support.tables import csv_text, noisy_rows

JOBS = 40
PAUSE_SECONDS = 0.1
IDLE_SECONDS = 20.0


def run() -> None:
    for name in ("sqlite", "postgresql"):
        with ExitStack() as stack:
            url = None
            if name == "postgresql":
                url = stack.enter_context(fresh_database(stack.enter_context(running_server())))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            service = stack.enter_context(running_service(folder, url, workers=1))
            data = service.upload(csv_text(*noisy_rows(100, 5, seed=0)))["id"]
            service.wait(service.submit(data)["id"])
            delays = sorted(_start_delay(service, data) for _ in range(JOBS))
            median, ninetieth = statistics.median(delays), delays[int(0.9 * JOBS)]
            print(
                f"  {name:10}  submitted to started: median {1e3 * median:5.1f} ms, 90 % within {1e3 * ninetieth:5.1f},"
                f" longest {1e3 * delays[-1]:5.1f}; idle supervisor: {_idle_seconds(service):.3f} s CPU a minute",
                flush=True,
            )


def _start_delay(service: Service, data: str) -> float:
    """By the database's clock, from the row's insertion to the claim."""
    time.sleep(PAUSE_SECONDS)  # so that the worker is idle again, wherever it is in its loop
    job = service.wait(service.submit(data)["id"])
    return (datetime.fromisoformat(job["started_at"]) - datetime.fromisoformat(job["created_at"])).total_seconds()


def _idle_seconds(service: Service) -> float:
    pid = service.child("worker")
    before = _cpu_seconds(pid)
    time.sleep(IDLE_SECONDS)
    return (_cpu_seconds(pid) - before) * 60.0 / IDLE_SECONDS


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
