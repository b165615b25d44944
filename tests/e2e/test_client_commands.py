"""The client's commands against a running service, by both programs: what they print and their exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.serving import Service, free_port

SAMPLE = Path(__file__).resolve().parents[2] / "app" / "examples" / "ionosphere.csv"
MODULES = {"hyperplane": "app.cli", "hyperplane-client": "hyperplane.cli"}


class Terminal:
    """Runs commands in a folder with an environment of its own."""

    def __init__(self, folder: Path, **variables: str) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("HYPERPLANE_")}
        self.folder = folder
        self.environment = {**own, "XDG_CONFIG_HOME": str(folder / "config"), **variables}

    def run(self, *arguments: str, program: str = "hyperplane") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", MODULES[program], *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture
def terminal(sqlite_service: Service, tmp_path: Path) -> Terminal:
    header, *lines = SAMPLE.read_text().splitlines()
    features = [line.rpartition(",")[0] for line in (header, *lines[:3])]
    (tmp_path / "radar.csv").write_text(SAMPLE.read_text())
    (tmp_path / "rows.csv").write_text("\n".join(features) + "\n")
    return Terminal(tmp_path, HYPERPLANE_URL=sqlite_service.url)


@pytest.mark.parametrize("program", MODULES)
def test_a_session_of_commands(terminal: Terminal, program: str) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        done = terminal.run(*arguments, program=program)
        assert done.returncode == code, done.stderr + done.stdout
        assert "Traceback" not in done.stderr
        return done.stdout

    model = f"commands-{program}"
    trained = run("train", "radar.csv", "--target", "class", "--model", model, "--test", "0.2", "--set", "tol=1e-4")
    assert "succeeded" in trained
    assert "above the optimum" in trained
    uploaded = json.loads(run("upload", "radar.csv", "--target", "class", "-o", "json"))
    queued = json.loads(run("train", uploaded["id"], "--model", model, "--no-wait", "-o", "json"))
    assert json.loads(run("jobs", "watch", queued["id"], "-o", "json"))["status"] == "succeeded"
    assert run("jobs", "get", queued["id"]).startswith("id ")
    assert queued["id"] in [json.loads(line)["id"] for line in run("jobs", "ls", "-o", "json").splitlines()]
    assert model in run("models", "ls", "--name", model)
    assert json.loads(run("models", "get", model, "-o", "json"))["version"] == 2
    assert "above the optimum" in run("models", "get", f"{model}:1")
    assert len(run("models", "ls", "--limit", "500", "-o", "json").splitlines()) >= 2, "more than a page can have"
    shown = f"{sys.executable} -m {MODULES[program]} jobs ls -o json | head -c 1; exit ${{PIPESTATUS[0]}}"
    piped = subprocess.run(
        ["bash", "-c", shown],
        cwd=terminal.folder,
        env=terminal.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (piped.returncode in (0, 141), piped.stdout, piped.stderr) == (True, "{", "")
    assert run("models", "alias", model, "prod", "1").split()[-1] == "1"
    assert run("predict", f"{model}@prod", "rows.csv").splitlines()[0] == "label,score"
    assert len(json.loads(run("predict", model, "rows.csv", "-o", "json"))["predictions"]) == 3
    assert json.loads(run("models", "export", model, "-f", "json"))
    run("report", model, "--to", "report.html")
    page = (terminal.folder / "report.html").read_text()
    assert "of the best possible" in page
    assert "Strongest weights" in page
    assert page.count('<svg class="chart"') == 4, "two curves, the bounds and the gap"
    assert "http://" not in page
    assert terminal.run("--version", program=program).stdout.startswith(f"{program} 0.")


def test_the_exit_code_is_the_outcome(terminal: Terminal, sqlite_service: Service) -> None:
    def failed(*arguments: str, program: str = "hyperplane-client") -> tuple[int, str]:
        done = terminal.run(*arguments, program=program)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    for program in MODULES:
        code, said = failed("models", "get", "nothing", program=program)
        assert (code, "There is no such model" in said, "request req_" in said) == (1, True, True)
        assert failed("nonsense", program=program)[0] == 2
    code, said = failed("train", "radar.csv", "-C", "-1")
    assert (code, "C: " in said) == (1, True)
    dataset = sqlite_service.upload(SAMPLE.read_bytes(), name="stopped")
    job = sqlite_service.submit(dataset["id"], solver="dcd", C=1e6, tol=1e-14, stop={"seconds": 300})
    code, said = failed("jobs", "watch", job["id"], "--timeout", "0.1")
    assert (code, "is still" in said, "Is the service running?" in said) == (4, True, False)
    assert failed("jobs", "cancel", job["id"])[0] == 0
    assert failed("jobs", "watch", job["id"])[0] == 1
    assert failed("upload", "absent.csv")[0] == 2
    assert failed("jobs", "ls", "--url", "http://127.0.0.1:1")[0] == 3


def test_login_is_kept_for_later_commands(sqlite_service: Service, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    assert terminal.run("login", "--url", sqlite_service.url, program="hyperplane-client").returncode == 0
    kept = tmp_path / "config" / "hyperplane" / "login.json"
    assert (json.loads(kept.read_text()), kept.stat().st_mode & 0o777) == ({"url": sqlite_service.url}, 0o600)
    assert terminal.run("jobs", "ls").returncode == 0


def test_train_starts_a_service_if_none_answers_and_keeps_the_model(tmp_path: Path) -> None:
    data = tmp_path / "data"
    variables = {"HYPERPLANE_DATA_DIR": str(data), "HYPERPLANE_PORT": str(free_port()), "HYPERPLANE_WORKERS": "1"}
    terminal = Terminal(tmp_path, **variables)
    trained = terminal.run("train", str(SAMPLE), "--target", "class", "--set", "loss=squared_hinge", "-o", "json")
    assert trained.returncode == 0, trained.stderr
    assert f"Starting one on {data}" in trained.stderr
    assert json.loads(trained.stdout)["status"] == "succeeded"
    listed = terminal.run("models", "ls", "-o", "json")
    assert json.loads(listed.stdout)["name"] == "ionosphere"


def test_the_shell_completes(terminal: Terminal) -> None:
    cases = {
        ("jobs", ""): ["ls", "get", "watch", "cancel"],
        ("models", "ex"): ["export"],
        ("train", "rows.csv", "--mo"): ["--model"],
        ("train", "ro"): ["rows.csv"],
    }
    script = terminal.run("completion", "bash", program="hyperplane-client").stdout
    for words, expected in cases.items():
        line = " ".join(f"'{word}'" for word in ("hyperplane-client", *words))
        asked = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _hyperplane_client; echo ${{COMPREPLY[@]}}"
        done = subprocess.run(["bash", "-c", asked], cwd=terminal.folder, capture_output=True, text=True, check=True)
        assert done.stdout.split() == expected
    for shell in ("zsh", "fish"):
        assert "hyperplane-client" in terminal.run("completion", shell, program="hyperplane-client").stdout
    assert terminal.run("completion", "tcsh", program="hyperplane-client").returncode == 2
    assert "completion" in terminal.run("--help", program="hyperplane-client").stdout
