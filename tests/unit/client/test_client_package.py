"""The package: one definition of both clients, few imports, one version, and how notebooks show answers."""

import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import hyperplane
import pytest
from hyperplane._shared.dataset_types import Dataset
from hyperplane._shared.html import convergence_svg
from hyperplane._shared.types import Model, Trace
from hyperplane._sync.jobs import Job

import app
from clients.python.write_sync import FOLDER, sync_source

ROOT = Path(__file__).resolve().parents[3]
SOURCES = sorted((FOLDER / "_async").glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_synchronous_client_is_written_from_the_asynchronous_one(source: Path) -> None:
    assert (FOLDER / "_sync" / source.name).read_text() == sync_source(source.read_text()), "run `make sync-client`"


def test_no_other_module_is_in_the_written_folder() -> None:
    assert {path.name for path in (FOLDER / "_sync").glob("*.py")} == {path.name for path in SOURCES}
    assert len(SOURCES) > 8


def test_all_versions_are_the_same() -> None:
    service = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    client = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]
    assert {service["version"], client["version"], app.__version__} == {hyperplane.__version__}
    assert f"hyperplane-client=={client['version']}" in service["dependencies"]


def test_importing_it_loads_nothing_of_the_service_and_no_numbers() -> None:
    listed = "import sys, hyperplane; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-c", listed], capture_output=True, text=True, check=True, cwd="/")
    assert set(found.stdout.split()).isdisjoint({"app", "solvers", "numba", "numpy", "pandas", "pyarrow"})


def test_the_convergence_plot_is_valid_and_bounded() -> None:
    points = [{"seconds": i / 10, "relative_gap": 10.0**-i} for i in range(1, 6)]
    trace = Trace({"tol": 1e-4, "data": [{"seconds": 0, "relative_gap": None}, *points]})
    root = ElementTree.fromstring(convergence_svg(trace))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    (line,) = root.iter("{http://www.w3.org/2000/svg}polyline")
    drawn = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
    assert len(drawn) == 5
    assert all(0 <= x <= width and 0 <= y <= height for x, y in drawn)
    assert drawn == sorted(drawn), "the gap closes, downwards and to the right"
    assert convergence_svg(Trace({"tol": None, "data": points[:1]})) == ""


def test_notebooks_show_answers_and_run_nothing_of_them() -> None:
    evil = "<script>alert(1)</script>"
    dataset = Dataset(
        {"id": "ds_1", "name": evil, "status": "ready", "n_rows": 3, "n_features": 2, "task_hint": None, "n_columns": 1}
        | {"classes": [{"label": evil, "count": 1}], "columns": [{"name": evil}], "warnings": [{"detail": evil}]}
    )
    model = Model(
        {"id": "mdl_1", "name": "m", "version": 2, "task": "binary", "solver": "newton", "n_features": 3}
        | {"certificate": {"primal": 1.0, "relative_gap": 1e-5}, "metrics": {"test": {"accuracy": 0.5}}, "warnings": []}
    )
    state = {"id": "job_1", "type": "train", "status": "running", "progress": 0.5, "error": None, "result": None}
    job = Job(state, jobs=hyperplane.Client("http://127.0.0.1:1").jobs)
    job._trace = Trace({"tol": 1e-3, "data": [{"seconds": i, "relative_gap": 0.1**i} for i in (1, 2)]})
    for shown, text in ((dataset, "ready"), (model, "accuracy 0.5"), (job, "running, 50%")):
        page = shown._repr_html_()
        ElementTree.fromstring(page)
        assert text in page
        assert not re.search(r"<script|on\w+=", page)
    assert "<svg" in job._repr_html_()


def test_the_bar_ends_with_a_line_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hyperplane.bar(hyperplane.UploadProgress(10, 20))
    assert capsys.readouterr().err == ""
    hyperplane.bar(hyperplane.UploadProgress(20_000_000, 20_000_000))
    assert "100%  20.0 of 20.0 MB" in capsys.readouterr().err
