"""Commands that look change nothing, a database that is away ends them with one line, and the file is private."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

AWAY = "postgresql+psycopg://someone:hidden@127.0.0.1:1/nowhere"


def run(tmp_path: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("HYPERPLANE_")}
    own |= {"HYPERPLANE_DATA_DIR": str(tmp_path / "data"), **settings}
    command = [sys.executable, "-m", "app.cli", *arguments]
    return subprocess.run(command, env=own, capture_output=True, text=True, timeout=120, check=False)


def test_a_new_database_is_for_its_owner_only(tmp_path: Path) -> None:
    made = run(tmp_path, "keys", "create", "--admin")
    assert made.returncode == 0, made.stderr
    for file in (tmp_path / "data").glob("hyperplane.db*"):
        assert file.stat().st_mode & 0o777 == 0o600, file
    listed = run(tmp_path, "keys", "list")
    assert (listed.returncode, made.stdout.partition(".")[0] in listed.stdout) == (0, True)


@pytest.mark.parametrize("arguments", [("list",), ("revoke", "key_1")])
def test_looking_at_keys_does_not_migrate(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    asked = run(tmp_path, "keys", *arguments)
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "run `hyperplane migrate` first" in asked.stderr
    assert "Traceback" not in asked.stderr
    assert not (tmp_path / "data" / "hyperplane.db").exists()


@pytest.mark.parametrize("command", ["serve --port 0", "migrate", "keys list", "verify"])
def test_a_database_that_is_away_is_one_line(tmp_path: Path, command: str) -> None:
    ended = run(tmp_path, *command.split(), HYPERPLANE_DATABASE_URL=AWAY)
    (line,) = [one for one in ended.stderr.splitlines() if one.startswith("hyperplane:")]
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "cannot use the database" in line
    assert "refused" in line
    assert "HYPERPLANE_DATABASE_URL" in line
    assert "hidden" not in ended.stderr
