"""The command `alembic` in a checkout, and the migrations that a wheel carries."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import alembic
import psycopg
import pytest
from sqlalchemy import inspect
from sqlalchemy.engine import make_url

from app.db import Database
from app.db.migrate import is_current, upgrade
from tests.support.wheels import unpacked_wheel

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
SITE_PACKAGES = Path(alembic.__file__).parents[1]

NEW_TABLE = """

class NoteRow(Base):
    __tablename__ = "notes"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), index=True)
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def run_in(folder: Path, command: list[str | Path], **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command that finds neither this checkout nor our settings in its environment."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("HYPERPLANE_") and name not in ("PYTHONPATH", "PYTHONSAFEPATH")
    }
    return subprocess.run(
        command, cwd=folder, env=environment | variables, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the project, as far as `alembic` needs it."""
    folder = tmp_path / "checkout"
    without_bytecode = shutil.ignore_patterns("__pycache__")
    for name in ("alembic", "app"):
        shutil.copytree(ROOT / name, folder / name, ignore=without_bytecode)
    for name in ("alembic.ini", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def run_alembic(checkout: Path, database_url: str) -> Run:
    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return run_in(checkout, [BIN / "alembic", *words], HYPERPLANE_DATABASE_URL=database_url)

    return run


def versions_of(checkout: Path) -> list[str]:
    return sorted(path.name for path in (checkout / "alembic" / "versions").glob("*.py"))


def test_the_folder_does_not_shadow_the_library(checkout: Path) -> None:
    assert SITE_PACKAGES != ROOT, "pytest has the project's root on its path"
    code = "import sys, alembic; from alembic import command; print(sys.path[0], alembic.__file__, sep='\\n')"
    first, library = run_in(checkout, [sys.executable, "-c", code]).stdout.split("\n")[:2]
    assert first == ""
    assert Path(library) == SITE_PACKAGES / "alembic" / "__init__.py"


def test_a_fresh_database_at_head_needs_no_revision(checkout: Path, run_alembic: Run) -> None:
    before = versions_of(checkout)
    assert run_alembic("upgrade", "head").returncode == 0
    assert run_alembic("current").stdout.strip() == f"{before[-1][:4]} (head)"
    checked = run_alembic("check")
    assert checked.returncode == 0, checked.stdout
    generated = run_alembic("revision", "--autogenerate", "-m", "Nothing")
    assert generated.returncode == 0, generated.stderr
    assert "no revision was written" in generated.stdout
    assert versions_of(checkout) == before


def test_a_new_table_becomes_a_clean_numbered_revision(checkout: Path, run_alembic: Run, database_url: str) -> None:
    before = versions_of(checkout)
    database = Database(database_url)
    upgrade(database)
    with (checkout / "app" / "db" / "tables.py").open("a") as file:
        file.write(NEW_TABLE)
    generated = run_alembic("revision", "--autogenerate", "-m", "Notes on jobs.")
    assert generated.returncode == 0, generated.stderr
    (name,) = set(versions_of(checkout)) - set(before)
    assert name == f"{len(before) + 1:04d}_notes_on_jobs.py"
    source = (checkout / "alembic" / "versions" / name).read_text()
    assert source.startswith('"""Notes on jobs."""\n\nimport sqlalchemy as sa\nfrom alembic import op\n')
    assert "app." not in source, "a migration must not change when the code does"
    for words in (["check"], ["format", "--check"]):
        linted = run_in(checkout, [BIN / "ruff", *words, f"alembic/versions/{name}"])
        assert linted.returncode == 0, linted.stdout
    assert run_alembic("upgrade", "head").returncode == 0
    assert run_alembic("check").returncode == 0
    assert "notes" in inspect(database.engine).get_table_names()
    assert run_alembic("downgrade", "-1").returncode == 0
    assert "notes" not in inspect(database.engine).get_table_names()
    assert is_current(database)
    database.close()


def test_a_revision_by_hand_is_numbered_too(checkout: Path) -> None:
    before = versions_of(checkout)
    data = str(checkout / "data")
    written = run_in(checkout, [BIN / "alembic", "revision", "-m", "By hand"], HYPERPLANE_DATA_DIR=data)
    assert written.returncode == 0, written.stderr
    assert versions_of(checkout) == [*before, f"{len(before) + 1:04d}_by_hand.py"]


def test_the_database_is_the_one_of_the_settings(checkout: Path) -> None:
    data = checkout / "new" / "data"
    done = run_in(checkout, [BIN / "alembic", "upgrade", "head"], HYPERPLANE_DATA_DIR=str(data))
    assert done.returncode == 0, done.stderr
    database = Database(f"sqlite:///{data / 'hyperplane.db'}")
    assert is_current(database)
    database.close()


def test_sql_is_printed_for_postgresql_and_refused_for_sqlite(run_alembic: Run, database_url: str) -> None:
    printed = run_alembic("upgrade", "head", "--sql")
    database = Database(database_url)
    if database.engine.dialect.name == "sqlite":
        assert printed.returncode != 0
        assert "--sql does not work on SQLite" in printed.stdout + printed.stderr
        assert "Traceback" not in printed.stderr
    else:
        address = make_url(database_url).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(printed.stdout.encode())
        assert is_current(database)
        assert run_alembic("check").returncode == 0
    database.close()


def test_a_wheel_migrates_without_the_checkout(tmp_path: Path, database_url: str) -> None:
    names, installed = unpacked_wheel(tmp_path)
    carried = [name for name in names if re.search(r"(^|/)(alembic|migrations)/", name)]
    scripts = [path for path in (ROOT / "alembic").rglob("*") if path.suffix in (".py", ".mako")]
    assert sorted(carried) == sorted(f"app/db/migrations/{path.relative_to(ROOT / 'alembic')}" for path in scripts)
    # -S: without the .pth file by which an editable installation finds the checkout
    done = run_in(
        installed,
        [sys.executable, "-S", "-m", "app.cli", "migrate"],
        PYTHONPATH=os.pathsep.join(map(str, (installed, ROOT / "clients" / "python", SITE_PACKAGES))),
        HYPERPLANE_DATABASE_URL=database_url,
    )
    assert done.returncode == 0, done.stderr
    database = Database(database_url)
    assert is_current(database)
    database.close()
