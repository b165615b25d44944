"""What a supervisor does in its loop: keeps leases, passes on requests, waits for its database, drains."""

import os
import signal
import time as real_time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from app.config import Settings
from app.db.engine import current_time
from app.db.tables import JobRow
from app.errors import DatabaseUnavailable
from app.jobs import control, lease, queue
from app.jobs.repository import Claim
from app.worker import supervisor as module
from app.worker.slot import GIVE_BACK, READY
from app.worker.supervisor import Every, Supervisor
from tests.support.builders import migrated_database, queued_jobs, temporary_settings
from tests.support.queue_acts import get
from tests.support.supervisor_bench import BUDGET, Clock
from tests.support.supervisor_bench import SupervisorBench as Bench


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return temporary_settings(tmp_path, memory_budget_bytes=BUDGET, workers=2)


@pytest.fixture
def bench(settings: Settings, clock: Clock) -> Iterator[Bench]:
    with migrated_database(settings.resolved_database_url) as database:
        made = Bench(settings, database)
        yield made
        made.supervisor._database.close()
        made.processes.close()


def test_every_so_often(clock: Clock) -> None:
    every = Every(10.0)
    assert (every.due(), every.due()) == (True, False)
    clock.now += 9.9
    assert not every.due()
    clock.now += 0.1
    assert (every.due(), every.due()) == (True, False)
    every.hurry()
    assert every.due()


def test_a_database_that_is_away_is_left_alone_for_a_second(bench: Bench, clock: Clock) -> None:
    acts: list[int] = []

    def away() -> None:
        acts.append(1)
        raise DatabaseUnavailable("away")

    bench.supervisor._heartbeat.due()
    bench.supervisor._with_database(away)
    assert bench.supervisor._heartbeat.due(), "leases are renewed as soon as it is back"
    assert bench.supervisor._judge_from == clock.now + 30.0
    bench.supervisor._with_database(away)
    clock.now += 0.9
    bench.supervisor._with_database(away)
    assert len(acts) == 1
    clock.now += 0.1
    bench.supervisor._with_database(away)
    assert len(acts) == 2


def test_silence_is_judged_one_lease_after_the_database_came_back(bench: Bench, clock: Clock) -> None:
    (job_id,) = queued_jobs(bench.database, [0])
    with bench.database.write() as session:
        assert lease.claim_next(session, "elsewhere/wrk_other", 60.0) is not None
        session.execute(update(JobRow).values(lease_expires_at=current_time(session)))
    bench.supervisor._judge_from = clock.now + 30.0
    clock.now += 29.9
    bench.supervisor._keep_leases()
    assert bench.status(job_id) == "running"
    clock.now += 0.1
    bench.supervisor._keep_leases()
    assert bench.status(job_id) == "queued"


def test_what_could_not_be_written_is_written_later_and_in_order(
    bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = queued_jobs(bench.database, [0, 0])
    bench.ready()
    claims = bench.claim()
    done: list[str] = []

    def note(is_away: bool, _session: Any, claim: Claim) -> None:
        if is_away and bench.supervisor._judge_from == 0.0:
            raise DatabaseUnavailable("away")
        done.append(claim.job_id)

    lost = Claim(jobs[1], 99)
    bench.supervisor._unsettled = [
        (lost, queue.release),
        (claims[1], partial(note, True)),
        (claims[0], partial(note, False)),
    ]
    bench.supervisor._with_database(bench.supervisor._settle)
    assert (done, len(bench.supervisor._unsettled)) == ([], 2)
    clock.now += 1.0
    bench.supervisor._with_database(bench.supervisor._settle)
    assert (done, bench.supervisor._unsettled) == ([jobs[1], jobs[0]], [])


# --- the loop ---------------------------------------------------------------------------------------------------------


class Stop:
    """Stop signals that the test sends."""

    def __init__(self) -> None:
        self.asked = False
        self.drains = 0
        self.reading, self.writing = os.pipe()

    def fileno(self) -> int:
        return self.reading

    def drain(self) -> None:
        self.drains += 1


def test_a_stop_begins_the_drain_once(bench: Bench, clock: Clock) -> None:
    stop: Any = Stop()
    bench.supervisor._wait(stop)
    assert bench.supervisor._drain_until is None
    assert not bench.supervisor._drained()
    stop.asked = True
    bench.supervisor._wait(stop)
    assert bench.supervisor._drain_until == clock.now + 8.0
    clock.now += 1.0
    bench.supervisor._wait(stop)
    assert bench.supervisor._drain_until == clock.now + 7.0
    assert stop.drains == 3


def test_a_drain_ends_with_the_last_job_or_when_its_time_is_over(bench: Bench, clock: Clock) -> None:
    queued_jobs(bench.database, [0])
    bench.ready()
    bench.claim()
    bench.supervisor._drain_until = clock.now + 8.0
    assert not bench.supervisor._drained()
    clock.now += 7.9
    assert not bench.supervisor._drained()
    clock.now += 0.1
    assert bench.supervisor._drained()
    clock.now -= 1.0
    claim, bench.slots[0].claim = bench.slots[0].claim, None
    assert bench.supervisor._drained()
    assert claim is not None
    bench.supervisor._unsettled = [(claim, queue.release)]
    assert not bench.supervisor._drained()


def test_a_bell_that_rings_makes_every_look_due(bench: Bench) -> None:
    looks = (bench.supervisor._claim_look, bench.supervisor._blind_look, bench.supervisor._request_look)
    for look in looks:
        look.due()
    stop: Any = Stop()
    bench.supervisor._wait(stop)
    assert [look.due() for look in looks] == [False] * 3
    bench.bell.rung = True
    bench.supervisor._wait(stop)
    assert [look.due() for look in looks] == [True] * 3


@pytest.mark.parametrize(
    ("poll", "busy", "unsettled", "slept"),
    [(0.1, False, False, 0.1), (60.0, False, False, 5.0), (60.0, True, False, 0.3), (60.0, False, True, 0.3)],
)
def test_it_sleeps_until_the_next_look(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, poll: float, busy: bool, unsettled: bool, slept: float
) -> None:
    bench.bell.poll_seconds, bench.bell.signs = poll, ["a bell"]
    asked: list[Any] = []
    monkeypatch.setattr(module, "wait", lambda signs, timeout: asked.append((signs, timeout)))
    claim = Claim("job_1", 1)
    bench.slots[0].claim = claim if busy else None
    bench.supervisor._unsettled = [(claim, queue.release)] if unsettled else []
    stop: Any = Stop()
    bench.supervisor._wait(stop)
    ((signs, timeout),) = asked
    assert timeout == slept
    pipes = [slot.pipe for slot in bench.slots]
    assert signs == [stop, *pipes, *(slot.process.sentinel for slot in bench.slots), "a bell"]


def test_a_process_that_does_not_hear_is_killed(bench: Bench, clock: Clock) -> None:
    queued_jobs(bench.database, [0, 0])
    bench.ready()
    bench.claim()
    bench.slots[0].stop("cancel")
    clock.now += 5.0
    bench.supervisor._kill_the_deaf()
    assert [process.exitcode for process in bench.processes.made] == [None, None]
    clock.now += 0.1
    bench.supervisor._kill_the_deaf()
    assert [process.exitcode for process in bench.processes.made] == [-9, None]


def test_a_sweep_deletes_what_nobody_owns_after_its_grace(bench: Bench) -> None:
    blobs = bench.supervisor._blobs
    old, young = blobs.put(b"old"), blobs.put(b"young")
    hour_ago = real_time.time() - 3601.0
    os.utime(blobs.path(old), (hour_ago, hour_ago))
    bench.supervisor._delete_unowned()
    assert (blobs.holds(old), blobs.holds(young)) == (False, True)


class Loop:
    """A run of the whole loop: the test acts between the rounds."""

    def __init__(self, bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bench, self.stop = bench, Stop()
        self.rounds: list[Callable[[], None]] = []
        self.handlers: list[Any] = []
        self.forkserver: list[Any] = []
        monkeypatch.setattr(module, "start_forkserver", self.forkserver.append)
        monkeypatch.setattr(module, "StopSignals", lambda: self.stop)
        monkeypatch.setattr(module.signal, "signal", lambda number, handler: self.handlers.append((number, handler)))
        sleep = bench.supervisor._wait

        def wait(stop: Any) -> None:
            clock.now += 0.5
            if self.rounds:
                self.rounds.pop(0)()
            else:
                self.stop.asked = True
            sleep(stop)

        monkeypatch.setattr(bench.supervisor, "_wait", wait)
        bench.supervisor._slots = []

    def run(self, *rounds: Callable[[], None]) -> None:
        self.rounds = list(rounds)
        self.bench.supervisor.run()


def test_the_loop_serves_until_it_is_stopped_and_leaves_no_process(
    bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(bench, clock, monkeypatch)
    jobs = queued_jobs(bench.database, [0])
    bench.sign.ready = True
    seen: list[Any] = []

    def first() -> None:
        assert bench.sign.ready is False, "not before a process says so"
        bench.processes.ends[2].end.send(READY)

    def second() -> None:
        seen.append((bench.status(jobs[0]), bench.sign.ready))
        with bench.database.write() as session:
            session.execute(update(JobRow).values(lease_expires_at=current_time(session)))
            control.finish(session, jobs[0])

    def third() -> None:
        clock.now += 5.0
        bench.processes.ends[3].end.send(READY)

    def fourth() -> None:
        seen.append(bench.slots[0].stop_reason)
        row = get(bench.database, jobs[0])
        with bench.database.read() as session:
            assert row.lease_expires_at is not None
            seen.append(row.lease_expires_at > current_time(session))
        loop.stop.asked = True

    def fifth() -> None:
        seen.append(bench.slots[0].stop_reason)
        bench.processes.ends[2].end.send(GIVE_BACK)

    loop.run(first, second, third, fourth, fifth)
    assert seen == [("running", True), "finish", True, "drain"]
    assert bench.status(jobs[0]) == "queued"
    assert loop.forkserver == [module.FOR_TRAINING]
    assert [number for number, _ in loop.handlers] == [signal.SIGTERM, signal.SIGINT]
    assert len(bench.processes.made) == 4
    assert [process.exitcode for process in bench.processes.made[2:]] == [-9, -9]
    assert (bench.ahead.ended, bench.bell.is_closed) == (1, True)
    assert bench.ahead.idle == [False, False, True, False, False]


def test_the_loop_sweeps_and_kills_the_deaf_and_claims_nothing_while_it_drains(
    bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(bench, clock, monkeypatch)
    blobs = bench.supervisor._blobs
    swept: list[str] = []

    def leave_a_file() -> None:
        swept.append(blobs.put(b"%d" % len(swept)))
        os.utime(blobs.path(swept[-1]), (0, 0))

    def first() -> None:
        leave_a_file()
        bench.processes.ends[2].end.send(READY)

    def second() -> None:
        assert not blobs.holds(swept[0])
        leave_a_file()
        clock.now += 599.0
        queued_jobs(bench.database, [0])
        bench.bell.rung = True

    def third() -> None:
        assert blobs.holds(swept[1]), "once in ten minutes"
        assert bench.slots[0].claim is not None
        clock.now += 1.0

    def fourth() -> None:
        assert not blobs.holds(swept[1])
        leave_a_file()
        clock.now += 600.0
        loop.stop.asked = True
        bench.processes.ends[3].end.send(READY)
        queued_jobs(bench.database, [0])

    def fifth() -> None:
        assert blobs.holds(swept[2])
        assert bench.slots[1].claim is None
        clock.now += 5.1

    def sixth() -> None:
        assert bench.processes.made[2].exitcode == -9

    loop.run(first, second, third, fourth, fifth, sixth)
    assert len(bench.slots) == 1


def test_the_loop_does_each_thing_as_often_as_it_is_due(
    bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(bench, clock, monkeypatch)
    done: list[str] = []
    for name in ("_keep_leases", "_look_for_requests", "_delete_unowned", "_claim", "_settle", "_kill_the_deaf"):
        monkeypatch.setattr(bench.supervisor, name, lambda name=name: done.append(name))
    monkeypatch.setattr(bench.supervisor._database, "close", lambda: done.append("closed"))
    loop.run(*[lambda: None] * 11)  # and a last one, of the stop: six seconds in all
    assert [done.count(name) for name in ("_keep_leases", "_look_for_requests", "_delete_unowned")] == [2, 12, 1]
    assert [done.count(name) for name in ("_claim", "_settle", "_kill_the_deaf", "closed")] == [11, 12, 12, 1]
    assert done[-1] == "closed"
    monkeypatch.undo()
    assert [process.args[1:] for process in bench.processes.made] == [
        (bench.supervisor._settings, bench.supervisor._threads)
    ] * 4


def test_a_stop_before_anything_is_claimed_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    module._end_at_once(15, None)
    assert codes == [0]


def test_the_name_of_a_supervisor_tells_its_machine(bench: Bench, settings: Settings) -> None:
    machine, _, own = bench.supervisor._id.partition("/")
    assert machine == module.resources.memory_name()
    assert own.startswith("wrk_")
    other = Supervisor(settings)
    assert other._id != bench.supervisor._id
    other._doorbell.close()
    other._database.close()
