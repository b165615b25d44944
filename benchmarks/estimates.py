"""The estimated and the measured cost of jobs: seconds, and private bytes of the process that trained.

Every job goes through a real service with one training process, whose private dirty memory is sampled many times a
second. Seconds are processor time, so that other work on the machine does not count. `HYPERPLANE_ESTIMATE_SETS`
names sets, separated by commas; the default is all that are there, and generated ones that are large. The jobs, each
set with each plan, come in a random order that is the same in every run, until
`HYPERPLANE_ESTIMATE_SECONDS` (300) are over: a sample that favours no set and no plan. `inf` measures all of them.
"""

import io
import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.data import SHARED, is_sparse, load, ndc
from benchmarks.page import Page
from tests.support.serving import Service, checked, running_service

LOOK_SECONDS = 0.005
LIMIT_SECONDS = 10.0
SECONDS = 300.0
NEAR_BYTES, NEAR_SHARE = 64 << 20, 0.1
NEAR_FACTOR = 3.0
HOW = """Jobs through a real service with one training process: a random sample of every set with every plan. Seconds
are the processor's, memory is what the training process holds of its own at most."""
PLANS: tuple[dict[str, Any], ...] = (
    {},
    {"preprocess": {}},
    {"C": 100.0, "tol": 1e-2, "preprocess": {}},
    {"C": 0.01, "split": {"test": 0.2}},
    {"cross_validation": 3, "C": 0.1},
    {"loss": "squared_hinge", "solver": "tron"},
    {"loss": "squared_hinge", "solver": "pcd", "split": {"test": 0.3}},
    {"solver": "oca_e", "tol": 1e-2},
    {"solver": "crammer_singer", "C": 0.01, "tol": 1e-2},
    {"task": "ordinal", "C": 1e-6},
)


class _Outcome(NamedTuple):
    seconds: float | None
    took: float
    peak_bytes: int
    measured: int
    ended: str

    @property
    def is_near_in_bytes(self) -> bool:
        return abs(self.peak_bytes - self.measured) <= max(NEAR_BYTES, NEAR_SHARE * self.measured)

    @property
    def is_near_in_seconds(self) -> bool:
        return self.seconds is not None and 1 / NEAR_FACTOR <= self.seconds / self.took <= NEAR_FACTOR


def run() -> None:
    wanted = os.environ.get("HYPERPLANE_ESTIMATE_SETS")
    sets = wanted.split(",") if wanted else [*sorted(path.parent.name for path in SHARED.glob("*/train.npz")), *LARGE]
    pairs = [(name, plan) for name in sets for plan in PLANS]
    random.Random(0).shuffle(pairs)
    outcomes = []
    page = Page("estimates", "Estimated and measured cost of jobs", HOW)
    page.table("data", "job", "seconds estimated", "seconds used", "MB estimated", "MB used", "status", "misses")
    with tempfile.TemporaryDirectory() as folder, running_service(Path(folder), workers=1) as service:
        _load_kernels(service)
        deadline = time.monotonic() + float(os.environ.get("HYPERPLANE_ESTIMATE_SECONDS", SECONDS))

        @cache
        def uploaded(name: str) -> str:
            stored: str = service.upload(_npz(*_read(name)), "application/x-npz")["id"]
            return stored

        done = 0
        while done < len(pairs) and time.monotonic() < deadline:
            name, plan = pairs[done]
            done += 1
            outcome = _measure(service, uploaded(name), plan)
            if outcome is not None:
                outcomes.append(outcome)
                _add_row(page, name, plan, outcome)
    page.end_table()
    timed = [outcome for outcome in outcomes if outcome.seconds is not None]
    near = sum(outcome.is_near_in_seconds for outcome in timed)
    held = sum(outcome.is_near_in_bytes for outcome in outcomes)
    page.say(
        f"{done} of {len(pairs)} jobs were drawn, {len(outcomes)} of them fit their data. "
        f"{near} of {len(timed)} are within {NEAR_FACTOR:.0f} times the seconds, "
        f"{held} of {len(outcomes)} within {NEAR_SHARE:.0%} or "
        f"{NEAR_BYTES >> 20} MiB of the bytes."
    )
    if not wanted:
        page.write()


def _load_kernels(service: Service) -> None:
    """One job of each kind: what a process loads, or compiles, for its first one is not what is measured."""
    X, y = ndc(300, 4)
    for labels in (y, y + (X[:, 0] > 0)):
        data = service.upload(_npz(X, labels), "application/x-npz")
        for plan in PLANS:
            answer = service.http.post("/v1/jobs", json={"dataset_id": data["id"], **plan})
            if answer.is_success:
                service.wait(answer.json()["id"], 300)


def _large_dense() -> tuple[Any, Any]:
    return ndc(500_000, 64)


def _large_narrow() -> tuple[Any, Any]:
    return ndc(4_000_000, 8, dtype=np.float32)


def _large_sparse() -> tuple[Any, Any]:
    generator = np.random.default_rng(0)
    n, d, each = 200_000, 300_000, 60
    columns = np.sort(generator.integers(0, d, (n, each)), axis=1)
    X = sp.csr_array((generator.random(n * each), columns.reshape(-1), np.arange(n + 1) * each), shape=(n, d))
    X.sum_duplicates()
    return X, np.where(X @ generator.standard_normal(d) + 0.1 * generator.standard_normal(n) > 0, 1, -1)


def _large_classes() -> tuple[Any, Any]:
    X, y = ndc(300_000, 16)
    return X, np.digitize(X[:, 0], np.quantile(X[:, 0], np.linspace(0, 1, 21)[1:-1])) * (y > 0)


LARGE = {"dense 500k x 64": _large_dense, "narrow 4M x 8 f4": _large_narrow, "sparse 200k x 300k": _large_sparse}
LARGE |= {"20 classes 300k x 16": _large_classes}


def _read(name: str) -> tuple[Any, Any]:
    return LARGE[name]() if name in LARGE else load(name)


def _npz(X: Any, y: Any) -> bytes:
    target, file = np.asarray(y), io.BytesIO()
    if target.dtype.kind not in "fiu":
        target = np.unique(target, return_inverse=True)[1]
    if is_sparse(X):
        parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
    else:
        parts = {"X": X}
    np.savez(file, y=target, **parts)
    return file.getvalue()


def _measure(service: Service, dataset_id: str, plan: dict[str, Any]) -> _Outcome | None:
    """None: the job does not fit the data."""
    body = {"dataset_id": dataset_id, "stop": {"seconds": LIMIT_SECONDS}, **plan}
    judged = checked(service.http.post("/v1/jobs", params={"validate_only": True}, json=body))
    if not judged["valid"]:
        return None
    (process,) = service.training_processes()
    before = _processor_seconds(process)
    with _watched(process) as peak:
        job = service.wait(service.submit(**body)["id"], 60 + 6 * LIMIT_SECONDS)
    took = _processor_seconds(process) - before
    status = (job["result"] or {}).get("status") or job["error"]["code"]
    if status == "time_limit":  # a limit is by the clock, whatever else the machine does
        took = (datetime.fromisoformat(job["finished_at"]) - datetime.fromisoformat(job["started_at"])).total_seconds()
    return _Outcome(judged["estimate"]["seconds"], took, judged["estimate"]["peak_bytes"], peak[0], status)


@contextmanager
def _watched(process: int) -> Iterator[list[int]]:
    """A list whose only entry grows to the largest private memory that was seen."""
    peak, over = [0], threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            peak[0] = max(peak[0], _private_bytes(process))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _private_bytes(process: int) -> int:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("Private_Dirty:", "Swap:")))


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _add_row(page: Page, name: str, plan: dict[str, Any], outcome: _Outcome) -> None:
    job = ", ".join(f"{key} {value}" for key, value in plan.items()) or "defaults"
    seconds = "-" if outcome.seconds is None else f"{outcome.seconds:.2f}"
    near = {"seconds": outcome.is_near_in_seconds, "bytes": outcome.is_near_in_bytes}
    missed = ", ".join(name for name, is_near in near.items() if not is_near)
    memory = f"{outcome.peak_bytes / 1e6:.0f}", f"{outcome.measured / 1e6:.0f}"
    page.row(name, job, seconds, f"{outcome.took:.2f}", *memory, outcome.ended, missed)
