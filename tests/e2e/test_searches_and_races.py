"""`jobs.tune` and `jobs.race` in both clients, and the command `tune` in both programs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hyperplane import Client

from tests.support.both_clients import BOTH, caller
from tests.support.serving import Service

COSTS = [0.01, 0.1, 1.0]
SOLVERS = ["dcd", "newton"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 80 rows with a noisy label."""
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 3))
    label = X @ [1.0, -1.0, 0.5] + 0.5 * random.normal(size=80) > 0
    lines = [f"{a:.6f},{b:.6f},{c:.6f},{'yes' if one else 'no'}" for (a, b, c), one in zip(X, label, strict=True)]
    file = tmp_path_factory.mktemp("rows") / "noisy.csv"
    file.write_text("\n".join(["a,b,c,label", *lines]) + "\n")
    return file


@pytest.mark.parametrize("kind", BOTH)
def test_a_search_and_a_race(sqlite_service: Service, rows: Path, kind: str) -> None:
    with caller(kind, sqlite_service.url) as one:
        jobs = one.client.jobs
        dataset = one.call(one.client.datasets.create(rows, target="label"))
        search = one.call(jobs.tune(dataset, model=f"tuned-{kind}", C=COSTS, cross_validation=3, metric="error"))
        tuned = one.call(one.call(jobs.get(search.id)).wait(timeout=60))
        assert (tuned.type, tuned.status) == ("tune", "succeeded")
        assert tuned.result["best"]["C"] in COSTS
        model = one.call(one.client.models.get(tuned.model_id))
        assert (model.name, model.params["C"]) == (f"tuned-{kind}", tuned.result["best"]["C"])
        assert one.call(jobs.path(tuned, accept="text/csv")).splitlines()[0].startswith(b"C,mean,")
        started = one.call(jobs.race(dataset, solvers=SOLVERS, model=f"raced-{kind}", loss="squared_hinge", tol=1e-4))
        raced = one.call(started.wait(timeout=60))
        assert (raced.type, raced.status) == ("race", "succeeded")
        assert raced.certificate.relative_gap <= 1e-4
        assert sorted(entry["solver"] for entry in raced.result["race"]) == SOLVERS
        assert raced.result.solver in SOLVERS
        assert one.call(one.client.models.get(raced.model_id)).solver == raced.result.solver


@pytest.mark.parametrize("module", ["app.cli", "hyperplane.cli"])
def test_the_command_tune(sqlite_service: Service, rows: Path, module: str) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("HYPERPLANE_")}
    name = f"command-{module.replace('.', '-')}"
    command = [sys.executable, "-m", module, "tune", str(rows), "--target", "label", "--model", name, "--folds", "3"]
    command += ["--metric", "f1", "--set", f"C={json.dumps(COSTS)}", "-o", "json"]
    environment = {**own, "HYPERPLANE_URL": sqlite_service.url, "XDG_CONFIG_HOME": str(rows.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)
    assert (job["type"], job["spec"]["metric"], job["spec"]["cross_validation"]["folds"]) == ("tune", "f1", 3)
    assert job["result"]["best"]["C"] in COSTS
    with Client(sqlite_service.url) as client:
        assert client.models.get(name).id == job["model_id"]
