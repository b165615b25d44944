"""covtype as a CSV uploaded, scaled, trained to a certified 1e-3 and predicted over HTTP, beside scikit-learn and H2O.

Each phase in seconds and the memory of all processes of the service together, in turn with the peers. The page goes to
docs/benchmarks.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.data import load
from benchmarks.uploads import DOCS, MB, peer_python
from tests.support.serving import Service, checked, children_of, free_port, running_service
from tests.support.tables import csv_text, noisy_rows

ROUNDS = 3
SAMPLE_SECONDS = 0.02
WAIT_SECONDS = 60
JOB = {"tol": 1e-3, "preprocess": {"scale": "standard"}}
AIM = "under 3 s in all, under 600 MB"
PHASES = ("upload and read", "scale", "train", "scale and train", "predict")

# Peers answer with a line of JSON: seconds by phase, their memory in bytes and the share of rows that they get right.
SCIKIT_LEARN = """
import json, resource, sys, time
import numpy, pandas
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

moments = [time.perf_counter()]
table = pandas.read_csv(sys.argv[1])
y, X = table.pop("label").to_numpy(), table.to_numpy()
moments.append(time.perf_counter())
scaler = StandardScaler().fit(X)
scaled = scaler.transform(X)
moments.append(time.perf_counter())
model = LinearSVC().fit(scaled, y)
moments.append(time.perf_counter())
predicted = model.predict(scaled)
moments.append(time.perf_counter())
seconds = dict(zip(("upload and read", "scale", "train", "predict"), numpy.diff(moments).tolist()))
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": seconds, "bytes": peak, "accuracy": float((predicted == y).mean())}))
"""
H2O = """
import json, sys, time
import h2o
from h2o.estimators import H2OGeneralizedLinearEstimator

h2o.init(port=int(sys.argv[2]), nthreads=-1, max_mem_size="4g", verbose=False)
h2o.no_progress()
try:
    warm = h2o.H2OFrame({"x": list(range(100)), "label": [0, 1] * 50})
    warm["label"] = warm["label"].asfactor()
    H2OGeneralizedLinearEstimator(family="binomial").train(y="label", training_frame=warm)
    moments = [time.perf_counter()]
    frame = h2o.upload_file(sys.argv[1])
    frame["label"] = frame["label"].asfactor()
    moments.append(time.perf_counter())
    model = H2OGeneralizedLinearEstimator(family="binomial", standardize=True)
    model.train(y="label", training_frame=frame)
    moments.append(time.perf_counter())
    answer = model.predict(frame)
    answer.nrow
    moments.append(time.perf_counter())
    right = (answer["predict"] == frame["label"]).mean()
    right = right[0] if isinstance(right, list) else right
    status = open(f"/proc/{h2o.cluster().nodes[0]['pid']}/status").read()  # of its Java machine
    used = 1024 * int(status.partition("VmHWM:")[2].split()[0])
    taken = [after - before for before, after in zip(moments, moments[1:])]
    seconds = dict(zip(("upload and read", "scale and train", "predict"), taken))
    print(json.dumps({"seconds": seconds, "bytes": used, "accuracy": right}))
finally:
    h2o.cluster().shutdown()
"""


def run() -> None:
    DOCS.mkdir(parents=True, exist_ok=True)
    with (DOCS / "end_to_end.md").open("w") as page:
        for line in _lines():
            print(line, flush=True)
            print(line, file=page)


def _lines() -> Iterator[str]:
    yield "# End to end, measured"
    yield ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "covtype.csv"
        try:
            write_covtype(path)
        except FileNotFoundError:
            yield "Nothing was measured: covtype is not beside the project."
            return
        size, busy = path.stat().st_size / MB, os.getloadavg()[0]
        ours: list[dict[str, float]] = []
        peers: dict[str, list[dict[str, Any]]] = {"scikit-learn": [], "H2O": []}
        with running_service(Path(folder), workers=os.cpu_count() or 1) as service:
            warm_up(service)
            for _ in range(ROUNDS):
                ours.append(of_service(service, path)[0])
                peers["scikit-learn"] += _peer(sys.executable, SCIKIT_LEARN, path)
                peers["H2O"] += _peer(peer_python("h2o"), H2O, path)
            with Memory(service) as memory:  # in a round of its own: to look costs time
                _, job = of_service(service, path, memory)
    yield f"covtype (class 2 against the rest) as CSV, {size:.0f} MB, {ROUNDS} rounds in turn, medians;"
    yield f"{os.cpu_count()} cores, load {busy:.1f} at the start. The service is warm: its kernels are loaded."
    yield f"Aim: {AIM}."
    yield ""
    yield from _table(ours, peers, max(memory.peaks.values()))
    yield ""
    result = job["result"]
    gap, right = result["certificate"]["relative_gap"], result["metrics"]["train"]["accuracy"]
    yield f"Trained by {result['solver']} to a certified relative gap of {gap:.1e}, right in {right:.2%} of the rows"
    others = (f"{name} in {answers[-1]['accuracy']:.2%}" for name, answers in peers.items() if answers)
    yield f"({', '.join(others)})."
    yield ""
    yield "| all processes of the service, proportional share of memory at most | MB |"
    yield "|---|---|"
    for phase, megabytes in memory.peaks.items():
        yield f"| {phase} | {megabytes:.0f} |"


def write_covtype(path: Path) -> None:
    """54 columns of the raw integers and the label: 1 for class 2, else 0."""
    X, y = load("covtype")
    columns = [pa.array(X[:, j].astype(np.int32)) for j in range(X.shape[1])]
    names = [*(f"x{number}" for number in range(X.shape[1])), "label"]
    table = pa.Table.from_arrays([*columns, pa.array((y == 2).astype(np.int32))], names=names)
    pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(quoting_style="none"))


def warm_up(service: Service) -> None:
    """A small job a worker, and its predictions, by every route that is measured."""
    X, y = noisy_rows(2000, 54, seed=0)
    dataset = service.upload(csv_text(100 * X, y), name="warm")
    for _ in range(2 * (os.cpu_count() or 1)):
        model = _job(service, dataset_id=dataset["id"], model="warm", **JOB)["model_id"]
        _job(service, type="predict", model=model, dataset_id=dataset["id"])


def of_service(service: Service, path: Path, memory: "Memory | None" = None) -> tuple[dict[str, float], dict[str, Any]]:
    """Seconds by phase, and the training job. The data is deleted at the end, so that the next round sends it again."""
    clock = _Clock(memory)
    with path.open("rb") as file:
        headers = {"Content-Type": "text/csv", "Prefer": f"wait={WAIT_SECONDS}"}
        dataset = checked(service.http.post("/v1/datasets", content=file, headers=headers, params={"name": "covtype"}))
    if not dataset["done"]:
        raise RuntimeError(dataset)
    clock.mark("upload and read")
    job = _job(service, dataset_id=dataset["id"], model="covtype", **JOB)
    if not job["result"]["converged"]:
        raise RuntimeError(job)
    clock.mark("scale and train")
    predicted = _job(service, type="predict", model=job["model_id"], dataset_id=dataset["id"])
    output = service.http.get(f"/v1/jobs/{predicted['id']}/output")
    if (lines := output.content.count(b"\n")) != dataset["n_rows"] + 1:
        raise RuntimeError(f"{lines} lines of predictions")
    clock.mark("predict")
    checked(service.http.delete(f"/v1/datasets/{dataset['id']}"))
    return clock.seconds, job


def _job(service: Service, **fields: Any) -> dict[str, Any]:
    """Post a job and wait for it, as a user would: one request, and more only if that was not enough."""
    job = checked(service.http.post("/v1/jobs", json=fields, headers={"Prefer": f"wait={WAIT_SECONDS}"}))
    return job if job["done"] else service.wait(job["id"], 600)


class _Clock:
    def __init__(self, memory: "Memory | None") -> None:
        self._memory = memory
        self._last = time.perf_counter()
        self.seconds: dict[str, float] = {}

    def mark(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase], self._last = now - self._last, now
        if self._memory is not None:
            self._memory.mark(phase)


class Memory:
    """Samples the proportional share (PSS) of the memory of all processes of a service, in MB, until the block ends."""

    def __init__(self, service: Service) -> None:
        assert service.process is not None
        self._root = service.process.pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._sums: list[float] = []
        self.peaks: dict[str, float] = {}

    def mark(self, phase: str) -> None:
        sums, self._sums = self._sums, []
        self.peaks[phase] = max(sums, default=0.0)

    def __enter__(self) -> "Memory":
        self.peaks["idle"] = self._total()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self._sums.append(self._total())

    def _total(self) -> float:
        found, waiting = [], [self._root]
        while waiting:
            found.append(waiting.pop())
            waiting += children_of(found[-1])
        return sum(map(_share, found))


def _share(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0.0
    return next((int(line.split()[1]) * 1024 / MB for line in lines if line.startswith("Pss:")), 0.0)


def _peer(python: str | None, script: str, path: Path) -> list[dict[str, Any]]:
    if python is None:
        return []
    command = [python, "-c", script, str(path), str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"seconds"')]
    if not answers:
        print(done.stderr[-2000:], file=sys.stderr)
    return answers


def _table(ours: list[dict[str, float]], peers: dict[str, list[dict[str, Any]]], peak: float) -> Iterator[str]:
    columns = {"Hyperplane": _medians(ours)}
    columns |= {name: _medians([one["seconds"] for one in answers]) for name, answers in peers.items()}
    memory = {"Hyperplane": peak} | {
        name: max(one["bytes"] or 0 for one in answers) / MB for name, answers in peers.items() if answers
    }
    yield f"| seconds | {' | '.join(columns)} |"
    yield "|---|" + "---|" * len(columns)
    for phase in (*PHASES, "in all"):
        cells = (_cell(column.get(phase)) if column else "not installed" for column in columns.values())
        yield f"| {phase} | {' | '.join(cells)} |"
    yield f"| peak memory, MB | {' | '.join(f'{memory[name]:.0f}' if memory.get(name) else '' for name in columns)} |"


def _medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    if not rounds:
        return {}
    middle = {phase: statistics.median(one[phase] for one in rounds) for phase in rounds[0]}
    return {**middle, "in all": statistics.median(sum(one.values()) for one in rounds)}


def _cell(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f}"
