"""`hyperplane local`: what is trained and predicted without a server is what the service trains and predicts."""

import json
from pathlib import Path
from typing import Any

import pytest
from hyperplane import Client
from typer.testing import CliRunner

from app.cli import main
from tests.support.serving import Service

SAMPLE = Path(__file__).resolve().parents[2] / "app" / "examples" / "ionosphere.csv"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lines = SAMPLE.read_text().splitlines()
    (tmp_path / "radar.csv").write_text(SAMPLE.read_text())
    (tmp_path / "rows.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines[:4]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(main, ["local", *arguments])
    assert done.exit_code == code, done.output
    return done


def test_a_local_model_is_that_of_the_service(folder: Path, sqlite_service: Service) -> None:
    fields = {"loss": "squared_hinge", "tol": 1e-8, "split": {"test": 0.2}, "cross_validation": 5}
    options = ["--loss", "squared_hinge", "--tol", "1e-8", "--test", "0.2", "--folds", "5", "--target", "class"]
    shown = run("train", "radar.csv", *options).stdout
    assert "above the optimum" in shown
    assert "accuracy" in shown
    job = json.loads(run("train", "radar.csv", *options, "--model", "again.safetensors", "-o", "json").stdout)
    asked = ["rows.csv", "--outputs", "label,score,set"]
    answers = [
        json.loads(run("predict", file, *asked, "-o", "json").stdout) for file in ("radar.json", "again.safetensors")
    ]
    assert answers[0]["predictions"] == answers[1]["predictions"]
    with Client(sqlite_service.url) as client:
        dataset = client.datasets.create(folder / "radar.csv", target="class")
        theirs = client.jobs.train(dataset, model="compared-with-local", **fields).wait()
        content = (folder / "rows.csv").read_bytes()
        served = client.models.predict_file(
            theirs.model_id, content, content_type="text/csv", outputs="label,score,set"
        )
        imported = client.models.import_("from-local", folder / "radar.json", format="json")
    expected = json.loads(served)["predictions"]
    assert job["result"]["certificate"]["primal"] == pytest.approx(theirs["result"]["certificate"]["primal"], rel=1e-7)
    assert job["result"]["metrics"]["test"]["accuracy"] == theirs["result"]["metrics"]["test"]["accuracy"]
    assert imported.task == "binary"
    for ours, one in zip(answers[0]["predictions"], expected, strict=True):
        assert (ours["label"], ours["set"]) == (one["label"], one["set"])
        assert ours["score"] == pytest.approx(one["score"], abs=1e-3)


def test_refusals_name_the_place_and_set_the_exit_code(folder: Path) -> None:
    (folder / "bad.csv").write_text("a,b\n1,2\n1\n")
    (folder / "empty.json").write_text("{}")
    cases: list[tuple[list[str], int, str]] = [
        (["train", "absent.csv"], 2, "there is no file absent.csv"),
        (["train", "radar.csv", "--model", "radar.pkl"], 2, "one of .json, .safetensors"),
        (["train", "bad.csv"], 1, "line 3"),
        (["train", "radar.csv", "-C", "-1"], 1, "field C: "),
        (["train", "radar.csv", "--set", "nonsense=1"], 1, "field nonsense: is not a field"),
        (["train", "radar.csv", "--solver", "nothing"], 1, "there is no solver"),
        (["train", "radar.csv", "--folds", "40", "--test", "0.9"], 1, "too_many_folds"),
        (["predict", "empty.json", "rows.csv"], 1, "task"),
        (["predict", "empty.json", "rows.csv.gz"], 2, "there is no file"),
    ]
    for arguments, code, words in cases:
        assert words in run(*arguments, code=code).output
    assert not list(folder.glob("radar.*json"))
