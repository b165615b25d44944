"""What every test may ask for (databases, shared data sets, commands), and the closing count of skips."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.postgres import fresh_database, running_server
from tests.support.serving import Service, running_service

PROJECT_ROOT = Path(__file__).resolve().parents[1]

SLOW_MODULES = (
    "fault/test_soak.py",
    "fault/test_kills.py",
    "fault/test_killed_uploads.py",
    "fault/test_memory.py",
    "fault/test_idempotent_requests.py",
    "fault/test_sweeps.py",
    "fault/test_stops.py",
    "fault/test_database_failover.py",
    "e2e/test_certified_model.py",
)
"""Their tests take many seconds each, most of them waiting for processes; they start first."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow modules first: at the end of a run no process is left alone with a long test while the others are done."""
    rank = {PROJECT_ROOT / "tests" / name: number for number, name in enumerate(SLOW_MODULES)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running PostgreSQL; one server a test process, started by the first test that asks."""
    with running_server() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A fresh, empty PostgreSQL database; for one that a module shares, enter `fresh_database` there."""
    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Runs the test once on each database, on an empty one."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'test.sqlite3'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def module_database_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Runs the module's tests once on each database, on one that is empty at first."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('database') / 'test.sqlite3'}"
    else:
        with fresh_database(request.getfixturevalue("postgres_server")) as url:
            yield url


@pytest.fixture(scope="session")
def sqlite_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with the usual settings and two workers, one for all tests of a process that leave it whole.

    They give their models names of their own, and do not count what else is there.
    """
    with running_service(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture(scope="session")
def postgresql_service(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The same on PostgreSQL."""
    with (
        fresh_database(postgres_server) as url,
        running_service(tmp_path_factory.mktemp("service"), url) as service,
    ):
        yield service


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data sets beside the project; tests that need it skip where it is absent."""
    folder = PROJECT_ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no data sets in ../shared/data beside the project")
    return folder


@pytest.fixture(scope="session")
def require_command() -> Callable[[str], str]:
    """Call it with a command's name: gives its path, or skips the test where the machine lacks it."""

    def require(name: str) -> str:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"the command {name} is not on this machine")
        return found

    return require


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """End every run with how many tests were skipped and why, so that a silent gap cannot grow."""
    # By node: with several test processes a module that skips itself is reported by each of them.
    reasons = {report.nodeid: _skip_reason(report) for report in terminalreporter.getreports("skipped")}
    counts = Counter(reasons.values())
    terminalreporter.section("skipped")
    terminalreporter.write_line(f"{len(reasons)} skipped" + (":" if reasons else ", nothing was left out"))
    for reason, count in counts.most_common():
        terminalreporter.write_line(f"  {count:4d}  {reason}")


def _skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return str(report.longrepr)
