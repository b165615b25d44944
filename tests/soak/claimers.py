"""Sixteen processes that claim jobs as fast as they can: each job is claimed once, by one of them."""

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from app.db import Database
from app.db.tables import JobRow
from app.errors import DatabaseUnavailable
from app.jobs import lease
from tests.support.builders import job_row, migrated_database

CLAIMERS = 16
LEASE_SECONDS = 600.0


def claims_a_second(kind: str, jobs: int) -> float:
    """Measure how fast sixteen claimers empty a queue of this many jobs, on a database of this kind."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hyperplane-claims-")))
        url = f"sqlite:///{folder / 'claims.sqlite3'}"
        if kind == "postgresql":
            from tests.support.postgres import fresh_database, running_server

            url = stack.enter_context(fresh_database(stack.enter_context(running_server())))
        return empty_queue(url, jobs)


def empty_queue(url: str, jobs: int) -> float:
    """Claims a second. Raises AssertionError if a job was claimed twice or not at all."""
    with migrated_database(url) as database:
        rows = [job_row(priority=number % 3) for number in range(jobs)]
        columns = [name for name in JobRow.__mapper__.columns.keys() if name != "trace"]  # noqa: SIM118
        with database.write() as session:
            values = [{name: getattr(row, name) for name in columns if getattr(row, name) is not None} for row in rows]
            session.execute(insert(JobRow), values)
    processes = multiprocessing.get_context("fork")
    answers = processes.SimpleQueue()
    start = processes.Event()
    claimers = [
        processes.Process(target=_claim_all, args=(url, f"wrk_{number}", start, answers)) for number in range(CLAIMERS)
    ]
    for claimer in claimers:
        claimer.start()
    for _ in claimers:
        assert _checked(answers.get()) == "ready"
    began = time.perf_counter()
    start.set()
    taken = [job_id for _ in claimers for job_id in _checked(answers.get())]
    seconds = time.perf_counter() - began
    for claimer in claimers:
        claimer.join()
    assert sorted(taken) == sorted(row.id for row in rows), "a job was claimed twice, or not at all"
    return jobs / seconds


def _checked(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def _claim_all(url: str, owner: str, start: Any, answers: Any) -> None:
    try:
        database = Database(url)
        with database.read() as session:
            lease.is_waiting(session)
        answers.put("ready")
        start.wait()
        taken = list(_claimed(database, owner))
        database.close()
        answers.put(taken)
    except Exception as error:  # otherwise the thread that waits for the answer would wait for ever
        answers.put(RuntimeError(f"{owner}: {error}"))


def _claimed(database: Database, owner: str) -> Iterator[str]:
    while True:
        try:
            with database.write() as session:
                claim = lease.claim_next(session, owner, LEASE_SECONDS)
        except DatabaseUnavailable:  # it did not get SQLite's write lock in time: like a supervisor, it tries again
            continue
        if claim is None:
            return
        yield claim.job_id
