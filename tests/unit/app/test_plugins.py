"""A format, an export and a solver each need one new file: each is written outside of the project, found and used."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def use_plugin(folder: Path, package: str, module: str, script: str) -> Any:
    """Write one new file, add its folder to a package in a new interpreter, and run a script there that uses it.

    The script finds an empty folder by the name `data`, and prints a JSON document, which is returned.
    """
    plugin, data = folder / "plugin", folder / "data"
    plugin.mkdir()
    data.mkdir()
    (plugin / "from_outside.py").write_text(module)
    prelude = f"""
import json, pathlib
import {package} as package
package.__path__.append({str(plugin)!r})
data = pathlib.Path({str(data)!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", prelude + script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# Children that read files are copies of this process, as the launcher has it: they know what it has found.
HTTP = """
from app.system.forkserver import FOR_READING, start_forkserver
start_forkserver(FOR_READING, copied=True)
from app.main import create_app
from tests.support.builders import InProcess, migrated_database, temporary_settings

settings = temporary_settings(data)
migrated = migrated_database(settings.resolved_database_url)
migrated.__enter__()
http = InProcess(create_app(settings))
"""

POINTS = '''
"""Points: a row a line, numbers with spaces between them, the label first."""

from app.datasets.formats.file_format import FileFormat


def _load():
    import numpy as np
    from app.datasets.formats.collect import Block

    def read_points(path, options, collector, ceiling):
        rows = np.loadtxt(path, ndmin=2)
        collector.add(Block(X=rows[:, 1:], target=rows[:, 0]))
        return collector.finish(rows.shape[1] - 1, [])

    return read_points


POINTS = FileFormat(name="points", media_type="text/x-points", suffixes=(".points",), load=_load)
'''


def test_a_dataset_format_is_one_new_file(tmp_path: Path) -> None:
    script = """
body = b"1 0.5 2\\n-1 3 4\\n1 5 6\\n"
sent = http.post("/v1/datasets", content=body, headers={"Content-Type": "text/x-points"})
dataset = sent.json()
form = http.post("/v1/datasets", files={"file": ("train.points", body + b"-1 7 8\\n", "application/octet-stream")})
print(json.dumps({
    "dataset": dataset,
    "preview": http.get(f"/v1/datasets/{dataset['id']}/preview").json(),
    "content": http.get(f"/v1/datasets/{dataset['id']}/content").headers["content-type"],
    "form": form.json(),
    "option": http.post("/v1/datasets?header=true", content=body, headers={"Content-Type": "text/x-points"}).json(),
    "refusal": http.post("/v1/datasets", content=body, headers={"Content-Type": "text/x-unknown"}).json(),
    "openapi": http.get("/openapi.json").json()["paths"]["/v1/datasets"]["post"]["requestBody"]["content"],
}))
"""
    said = use_plugin(tmp_path, "app.datasets.formats.registered", POINTS, HTTP + script)
    assert (said["dataset"]["status"], said["dataset"]["format"]) == ("ready", "points")
    assert said["dataset"]["classes"] == [{"label": -1, "count": 1}, {"label": 1, "count": 2}]
    assert [row["values"] for row in said["preview"]["data"]] == [[0.5, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert said["content"].startswith("text/x-points")
    assert (said["form"]["format"], said["form"]["n_rows"]) == ("points", 4)
    assert said["option"]["detail"] == "header: The format points does not accept this option; use csv or tsv."
    assert "text/csv" in said["refusal"]["detail"]
    assert "text/x-points" in said["refusal"]["detail"]
    assert {"text/csv", "text/x-points"} <= set(said["openapi"])


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    script = """
from app.datasets.formats import file_formats
try:
    file_formats()
except ValueError as error:
    print(json.dumps(str(error)))
"""
    said = use_plugin(tmp_path, "app.datasets.formats.registered", POINTS.replace('"points"', '"csv"'), script)
    module = "app.datasets.formats.registered.from_outside"
    assert said == f"{module} declares 'csv', which another module declares already"


WEIGHTS = '''
"""Weights: one a line, the intercept last."""

import numpy as np

from app.models.exports.export_format import ExportFormat
from app.models.exports.probe import linear_scores
from app.models.exports.subject import not_in
from app.models.model_parts import Parts, checked_header


def write(subject, difference):
    if subject.file.header.task != "regression":
        raise not_in("weights", "it has classes", "take json")
    return "".join(f"{weight!r}\\n" for weight in [*subject.file.coef.tolist(), subject.file.intercept]).encode()


def read(content):
    numbers = np.array([float(line) for line in content.split()])
    header = checked_header(
        task="regression", strategy=None, classes=[], n_features=len(numbers) - 1, feature_names=None, card={}
    )
    return Parts(header, {"coef": numbers[:-1], "intercept": numbers[-1:]})


def scores(subject, content, probe):
    return linear_scores(read(content).arrays, probe.features)


WEIGHTS = ExportFormat(
    name="weights",
    media_type="text/x-weights",
    suffix="weights",
    write=write,
    scores=scores,
    read=read,
    states_difference=False,
)
'''


def test_an_export_is_one_new_file(tmp_path: Path) -> None:
    script = """
MODELS = {
    "line": {"task": "regression", "coef": [1.5, -0.25], "intercept": 2.0},
    "classes": {"task": "binary", "classes": ["no", "yes"], "coef": [1.0, 1.0]},
}
for name, document in MODELS.items():
    assert http.post(f"/v1/models/import?name={name}", json=document).status_code == 201
sent = http.get("/v1/models/line/export?format=weights")
again = http.post("/v1/models/import?name=again", content=sent.content, headers={"Content-Type": "text/x-weights"})
rows = {"instances": [[1.0, 2.0], [0.1, 1e6]]}
predict = lambda name: http.post(f"/v1/models/{name}/predict", json=rows).json()["predictions"]
document = http.get("/openapi.json").json()
parameters = document["paths"]["/v1/models/{ref}/export"]["get"]["parameters"]
print(json.dumps({
    "content": sent.text,
    "headers": dict(sent.headers),
    "imported": again.json(),
    "predictions": [predict(name) for name in ("line", "again")],
    "refused": http.get("/v1/models/classes/export?format=weights").json(),
    "unknown": http.get("/v1/models/line/export?format=pickle").json(),
    "output": http.get("/v1/models/line/export?format=weights&output=label").json(),
    "names": next(one["schema"]["enum"] for one in parameters if one["name"] == "format"),
    "bodies": sorted(document["paths"]["/v1/models/import"]["post"]["requestBody"]["content"]),
}))
"""
    said = use_plugin(tmp_path, "app.models.exports.writers", WEIGHTS, HTTP + script)
    assert said["content"] == "1.5\n-0.25\n2.0\n"
    assert said["headers"]["content-type"].startswith("text/x-weights")
    assert said["headers"]["content-disposition"] == 'attachment; filename="line-1.weights"'
    assert 0.0 <= float(said["headers"]["x-max-score-difference"]) <= 1e-9
    assert said["imported"]["lineage"]["format"] == "weights"
    assert said["predictions"][0] == said["predictions"][1]
    assert said["refused"]["code"] == "not_exportable"
    assert said["unknown"]["errors"][0]["code"] == "literal_error"
    assert "'weights'" in said["unknown"]["detail"]
    assert said["output"]["detail"] == "output: format=weights has no output label; choose format=sql"
    assert set(said["names"]) >= {"json", "liblinear", "mlflow", "npz", "onnx", "safetensors", "sql", "weights"}
    assert "text/x-weights" in said["bodies"]


SUBGRADIENT = '''
"""Subgradient descent with step 1/t, and the best point so far."""

from dataclasses import dataclass

import numpy as np

from solvers.linalg.types import Floats
from solvers.method import Method, Point, Progress
from solvers.problem.problems import BinaryProblem
from solvers.state import State


@dataclass(slots=True)
class SubgradientState(State):
    w: Floats
    best: Floats
    best_primal: float
    iterations: int


class Subgradient(Method[BinaryProblem, SubgradientState]):
    state_type = SubgradientState
    name = "subgradient"
    tasks = ("binary",)
    losses = ("hinge",)
    biases = ("none",)
    paper = "Shor (1985): Minimization methods for non-differentiable functions"
    notes = "One new file, for a test."
    exact = False
    has_estimate = False

    def init(self, seed, start):
        w = np.zeros(self.problem.data.n_features)
        return SubgradientState(w, w, np.inf, 0)

    def step(self, state, target):
        state.iterations += 1
        problem, w = self.problem, state.w
        scores = np.empty(problem.data.n_rows)
        problem.data.margins(w, scores)
        slack = np.maximum(1.0 - problem.signs * scores, 0.0)
        primal = 0.5 * float(w @ w) + float(problem.costs @ slack)
        if primal < state.best_primal:
            state.best, state.best_primal = w, primal
        pull = np.empty_like(w)
        problem.data.weighted_column_sums(problem.costs * problem.signs * (slack > 0.0), pull)
        state.w = w - (w - pull) / state.iterations
        return Progress(state.iterations, 2 * state.iterations, state.best_primal, None, None)

    def extract(self, state):
        return Point(state.best.copy(), 0.0, None)
'''


def test_a_solver_is_one_new_file(tmp_path: Path) -> None:
    script = """
import numpy as np
import solvers

generator = np.random.default_rng(3)
X = generator.normal(size=(200, 4))
y = np.where(X @ [1.0, -2.0, 0.5, 0.0] > 0, "up", "down")
problem = {"task": "binary", "loss": "hinge", "bias": "none", "C": 0.01}
found = solvers.train(X, y, solver="subgradient", tol=1e-3, max_passes=4000, **problem)
known = solvers.train(X, y, solver="dcd", tol=1e-9, **problem)
print(json.dumps({
    "listed": solvers.available()["subgradient"]["losses"],
    "solver": found.solver,
    "status": str(found.status),
    "gap": found.certificate.relative_gap,
    "primals": [found.certificate.primal, known.certificate.primal],
}))
"""
    said = use_plugin(tmp_path, "solvers.methods", SUBGRADIENT, script)
    assert said["listed"] == ["hinge"]
    assert said["solver"] == "subgradient"
    assert said["status"] == "converged"
    assert said["gap"] <= 1e-3
    found, optimum = said["primals"]
    assert optimum * (1 - 1e-9) <= found <= optimum / (1 - 1e-3)


LOSS = '''
"""The hinge with its kink rounded over a width of 1: s^2 / 2 for slacks from 0 to 1, then s - 1/2."""

import numpy as np

from solvers.problem.losses.loss import MarginLoss


class RoundedHinge(MarginLoss):
    name = "rounded_hinge"
    description = "hinge with a rounded kink"
    divides_by_cost = True

    def value(self, slacks, costs):
        over = np.maximum(slacks, 0.0)
        return costs * np.where(over < 1.0, 0.5 * over * over, over - 0.5)

    def dual_bounds(self, slacks, costs, rounding):
        alpha = costs * np.clip(slacks, 0.0, 1.0)
        return alpha, alpha

    def conjugate(self, alpha, costs):
        return np.divide(0.5 * alpha * alpha, costs, out=np.zeros_like(alpha), where=costs > 0.0)
'''

TRAIN_WITH_IT = """
import numpy as np
import scipy.optimize
import solvers

random = np.random.default_rng(0)
X = random.standard_normal((200, 4))
y = X[:, 0] + random.standard_normal(200) > 0
signs = np.where(y, 1.0, -1.0)


def primal(w):
    over = np.maximum(1.0 - signs * (X @ w), 0.0)
    return 0.5 * w @ w + np.where(over < 1.0, 0.5 * over * over, over - 0.5).sum()


found = {}
for bias in ("none", "regularized"):
    result = solvers.train(X, y, solver="bmrm", loss="rounded_hinge", bias=bias, tol=1e-6, max_passes=2000)
    found[bias] = result.status, result.certificate.primal, result.certificate.dual_bound
several = solvers.train(X, np.digitize(X[:, 0], [-0.5, 0.5]), solver="bmrm", loss="rounded_hinge", tol=1e-3)
best = scipy.optimize.minimize(primal, np.zeros(4), tol=1e-12).fun
choices = solvers.PARAMETERS["loss"].choices
print(json.dumps([found, best, several.status, "rounded_hinge" in choices]))
"""


def test_a_loss_is_one_new_file_which_a_general_method_trains_and_certifies(tmp_path: Path) -> None:
    found, best, of_several, is_offered = use_plugin(tmp_path, "solvers.problem.losses", LOSS, TRAIN_WITH_IT)
    assert is_offered
    assert of_several == found["none"][0] == found["regularized"][0] == "converged"
    _, primal, bound = found["none"]
    assert bound <= best * (1.0 + 1e-9)
    assert best * (1.0 - 1e-9) <= primal <= best * (1.0 + 2e-6)
