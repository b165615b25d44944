"""A kill or a failure at each sync, rename, write and removal of an upload, an import, a training and a purge.

What is left is the old state or the new, `verify` finds nothing wrong, and the act succeeds when it is tried again.

Every trial begins with a fresh copy of the same folder and database. A child of this process is stopped before its act,
strace takes hold of it and kills it at the chosen call: the first, the second, and so on until it survives.
PostgreSQL syncs for itself; there the child is also killed at each message that it sends to the server.
"""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import make_url, select

from app.admin.integrity import verify_storage
from app.config import Settings
from app.datasets import service as datasets
from app.datasets.formats import ReadOptions
from app.datasets.reading.parse import parse
from app.datasets.service import Received
from app.db import Database
from app.db.tables import DatasetRow, JobRow, ModelRow
from app.errors import DatabaseUnavailable
from app.jobs import lease
from app.jobs import service as jobs
from app.jobs.admission import Admission
from app.jobs.types.train_request import TrainRequest
from app.models import imports
from app.models import service as models
from app.storage import BlobStore, ownership
from app.worker import executor
from app.worker.executor import execute
from app.worker.failures import TransientFailure
from app.worker.worker_context import WorkerContext
from tests.support.builders import SOAK, migrated_database, temporary_settings
from tests.support.postgres import fresh_database
from tests.support.tables import csv_text, noisy_rows

CALLS = {"sync": "fsync,fdatasync", "rename": "/^rename", "remove": "/^unlink", "message": "sendto"}
CALLS |= {"write": "/^p?write"} if SOAK > 1 else {}
FAILURES = {"sync": ("fsync,fdatasync", "EIO"), "name": ("/^(rename|link)", "EIO"), "write": ("/^p?write", "ENOSPC")}
FILE_KILLS = {("upload", "sync"): 10, ("upload", "rename"): 3, ("finish", "sync"): 4, ("finish", "rename"): 2}
FILE_KILLS |= {("delete", "remove"): 3, ("import", "sync"): 2, ("import", "rename"): 1, ("purge", "remove"): 1}
LEAST_KILLS = {
    "sqlite": {**FILE_KILLS, ("finish", "sync"): 10, ("delete", "sync"): 4},
    "postgresql": {**FILE_KILLS, ("upload", "message"): 5, ("finish", "message"): 20, ("delete", "message"): 5},
}
REFUSED = 3
STEP = 1 if SOAK > 1 else 5
"""Messages are many: `make test` takes each fifth of them."""
NAMES = ("upload", "finish", "delete", "import", "purge")
SWEEPS = [
    (kind, name, calls)
    for kind in ("sqlite", "postgresql")
    for name in NAMES
    for calls in CALLS
    if (kind, calls) != ("sqlite", "message")
    and (SOAK > 1 or calls == "message" or kind == "sqlite" or name not in ("import", "purge"))
]
FAILED_SWEEPS = [
    (kind, name, calls)
    for kind in (("sqlite", "postgresql") if SOAK > 1 else ("sqlite",))  # the calls on files are the same
    for name in NAMES
    for calls in FAILURES
]
MODEL = json.dumps({"task": "binary", "classes": ["no", "yes"], "coef": [1.5, -0.5], "intercept": 0.1}).encode()
CONTENT = csv_text(*noisy_rows(60, 3, seed=1))


def upload(database: Database, settings: Settings) -> None:
    blobs = BlobStore(settings.data_dir)
    with blobs.stage() as staged:
        staged.write(CONTENT)
        sha256 = staged.commit()
    options = ReadOptions()
    parsed = parse(settings.data_dir, blobs.path(sha256), "csv", options, 1 << 30)
    received = Received(sha256, len(CONTENT), "csv", options, "swept", {})
    datasets.store_ready(database, blobs, received, lambda *_: None, parsed)


def finish(database: Database, settings: Settings) -> None:
    with database.write() as session:
        claim = lease.claim_next(session, "wrk_test", 600.0)
    assert claim is not None
    context = WorkerContext(database, BlobStore(settings.data_dir), threads=1, storage_patience_seconds=60.0)
    execute(context, claim, lambda: None)


def delete(database: Database, settings: Settings) -> None:
    with database.read() as session:
        (dataset_id,) = session.scalars(select(DatasetRow.id))
    datasets.delete(database, BlobStore(settings.data_dir), dataset_id)


def import_model(database: Database, settings: Settings) -> None:
    blobs = BlobStore(settings.data_dir)
    imported = imports.read_model(blobs, "m", "json", MODEL)
    with database.write() as session:
        imported.register(session, blobs)


def purge(database: Database, settings: Settings) -> None:
    with database.write() as session:
        _, freed = models.purge(session, "m:1")
    ownership.reclaim(database, BlobStore(settings.data_dir), freed)


def is_imported(database: Database) -> bool:
    with database.read() as session:
        return session.scalar(select(ModelRow.id)) is not None


def is_purged(database: Database) -> bool:
    with database.read() as session:
        return session.scalars(select(ModelRow)).one().purged_at is not None


def is_uploaded(database: Database) -> bool:
    with database.read() as session:
        return session.scalar(select(DatasetRow.id)) is not None


def is_finished(database: Database) -> bool:
    with database.read() as session:
        job, models = session.scalars(select(JobRow)).one(), session.scalars(select(ModelRow)).all()
    assert [model.id for model in models] == ([] if job.model_id is None else [job.model_id])
    assert job.status in ("queued", "running", "succeeded")
    return job.status == "succeeded"


def is_deleted(database: Database) -> bool:
    return not is_uploaded(database)


@dataclass(frozen=True)
class Act:
    do: Callable[[Database, Settings], None]
    is_done: Callable[[Database], bool]
    prepare: tuple[Callable[[Database, Settings], None], ...]


def submit(database: Database, settings: Settings) -> None:
    with database.write() as session:
        dataset_id = session.scalars(select(DatasetRow.id)).one()
        jobs.submit(session, TrainRequest(dataset_id=dataset_id), Admission(BlobStore(settings.data_dir), settings))


ACTS = {
    "upload": Act(upload, is_uploaded, ()),
    "finish": Act(finish, is_finished, (upload, submit)),
    "delete": Act(delete, is_deleted, (upload,)),
    "import": Act(import_model, is_imported, ()),
    "purge": Act(purge, is_purged, (import_model,)),
}


@pytest.fixture(scope="module")
def strace() -> str:
    command = shutil.which("strace")
    if command is None or subprocess.run([command, "-o", "/dev/null", "true"], check=False).returncode != 0:
        pytest.skip("strace may not trace on this machine")
    return command


@dataclass(frozen=True)
class Template:
    """A folder and a database in which everything is ready for an act."""

    folder: Path
    server_url: str | None
    """Of PostgreSQL; None: the database is a file of the folder."""
    database_url: str = ""

    @contextmanager
    def copy(self, folder: Path) -> Iterator[Settings]:
        shutil.copytree(self.folder, folder)
        if self.server_url is None:
            yield temporary_settings(folder)
            return
        with fresh_database(self.server_url, template=make_url(self.database_url).database) as url:
            yield temporary_settings(folder, database_url=url)


MakeTemplate = Callable[[str, str], Template]


@pytest.fixture(scope="module")
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeTemplate]:
    """Of a kind of database and an act. The act has run once, so that nothing compiles later."""
    made: dict[tuple[str, str], Template] = {}
    with ExitStack() as stack:

        def make(kind: str, name: str) -> Template:
            if (kind, name) in made:
                return made[kind, name]
            folder, server = tmp_path_factory.mktemp(name), None
            url = f"sqlite:///{folder / 'data' / 'hyperplane.db'}"
            if kind == "postgresql":
                server = request.getfixturevalue("postgres_server")
                url = stack.enter_context(fresh_database(server))
            settings = temporary_settings(folder / "data", database_url=url)
            settings.data_dir.mkdir()
            with migrated_database(url) as database:
                for step in ACTS[name].prepare:
                    step(database, settings)
            made[kind, name] = Template(folder / "data", server, url)
            with made[kind, name].copy(folder / "first") as copied:
                run_once(ACTS[name], copied)
            return made[kind, name]

        yield make


def run_once(act: Act, settings: Settings) -> None:
    database = Database(settings.resolved_database_url)
    act.do(database, settings)
    assert act.is_done(database)
    database.close()


def killed_at(strace: str, act: Act, settings: Settings, calls: str, number: int) -> bool:
    """Do the act in a child that is killed at its n-th of these calls; whether it was, or came to its end before."""
    exit_code, _ = with_fault_at(strace, act, settings, calls, f"signal=KILL:when={number}")
    assert exit_code in (0, -signal.SIGKILL)
    return exit_code != 0


def with_fault_at(strace: str, act: Act, settings: Settings, calls: str, fault: str) -> tuple[int | None, bool]:
    """Do the act in a child with a fault at one of these calls: its exit code, and whether it came to the call."""
    log = settings.data_dir / "strace.log"
    child = multiprocessing.get_context("fork").Process(target=_stopped_then, args=(act, settings))
    child.start()
    assert child.pid is not None
    _wait_for_state(child.pid, "T")
    inject = f"inject={calls}:{fault}"
    command = [strace, "-f", "-o", str(log), "-e", f"trace={calls}", "-e", inject, "-p", str(child.pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    assert b"attached" in tracer.stderr.readline()
    os.kill(child.pid, signal.SIGCONT)
    child.join(60)
    tracer.wait(30)
    tracer.stderr.close()
    was_injected = "(INJECTED)" in log.read_text()
    log.unlink()
    return child.exitcode, was_injected


def _stopped_then(act: Act, settings: Settings) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    executor.FIRST_PAUSE_SECONDS = 0.01
    try:
        act.do(Database(settings.resolved_database_url), settings)
    except (OSError, DatabaseUnavailable, TransientFailure):  # how a client or the supervisor hears of it
        os._exit(REFUSED)
    os._exit(0)


def _wait_for_state(pid: int, state: str) -> None:
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != state:
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize(("kind", "name", "calls"), SWEEPS)
def test_a_kill_at_each_call_leaves_the_old_state_or_the_new(
    strace: str, template: MakeTemplate, kind: str, name: str, calls: str, tmp_path: Path
) -> None:
    act, done = ACTS[name], [False]
    for number in range(1, 400, STEP if calls == "message" else 1):
        with template(kind, name).copy(tmp_path / str(number)) as settings:
            was_killed = killed_at(strace, act, settings, CALLS[calls], number)
            database, blobs = Database(settings.resolved_database_url), BlobStore(settings.data_dir)
            done.append(act.is_done(database))
            assert verify_storage(settings).faults == []
            ownership.sweep(database, blobs, grace_seconds=0.0)
            assert verify_storage(settings).unowned == []
            assert list(blobs.staging.iterdir()) == []
            database.close()
        if not was_killed:
            break
    print(f"swept {kind} {name} {calls}: {len(done) - 2} kills")
    assert not was_killed, "the act never came to its end"
    assert done == sorted(done), "what was done once was undone by a later kill"
    assert done[-1]
    assert number > LEAST_KILLS[kind].get((name, calls), 0), "the calls were not seen"


@pytest.mark.parametrize(("kind", "name", "calls"), FAILED_SWEEPS)
def test_a_failure_at_each_call_leaves_the_old_state_or_the_new(
    strace: str, template: MakeTemplate, kind: str, name: str, calls: str, tmp_path: Path
) -> None:
    """Each call fails once; what was acknowledged is there, and what was refused can be done again."""
    act, (pattern, error) = ACTS[name], FAILURES[calls]
    trials = refusals = 0
    for number in range(1, 400, STEP if calls == "write" else 1):
        with template(kind, name).copy(tmp_path / str(number)) as settings:
            exit_code, was_injected = with_fault_at(strace, act, settings, pattern, f"error={error}:when={number}")
            assert exit_code in (0, REFUSED)
            database = Database(settings.resolved_database_url)
            assert act.is_done(database) or exit_code == REFUSED, "acknowledged and not done"
            assert verify_storage(settings).faults == []
            if name != "finish" and not act.is_done(database):
                act.do(database, settings)
                assert act.is_done(database)
            ownership.sweep(database, BlobStore(settings.data_dir), grace_seconds=0.0)
            report = verify_storage(settings)
            assert (report.faults, report.unowned) == ([], [])
            database.close()
        if not was_injected:
            print(f"swept {kind} {name} {calls}: {trials} failures, {refusals} refused")
            return
        trials, refusals = trials + 1, refusals + (exit_code == REFUSED)
    raise AssertionError("the act never came to its end")
