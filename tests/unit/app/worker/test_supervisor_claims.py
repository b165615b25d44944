"""What a supervisor does with its slots: claims for idle ones, hears their processes, outlives their deaths."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from app.config import Settings
from app.db.engine import current_time
from app.db.tables import JobRow
from app.jobs import control, lease, queue
from app.worker import supervisor as module
from app.worker.slot import COMPILED, COMPILING, DONE, GIVE_BACK, LACKING, READY
from tests.support.builders import job_row, migrated_database, queued_jobs, temporary_settings
from tests.support.queue_acts import event_types, get
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


# --- claiming ---------------------------------------------------------------------------------------------------------


def test_idle_slots_get_jobs_and_their_processes_are_told(bench: Bench) -> None:
    jobs = queued_jobs(bench.database, [0, 0, 0])
    assert bench.claim() == [], "no process is ready"
    bench.ready()
    claims = bench.claim()
    assert [claim.job_id for claim in claims] == jobs[:2]
    assert [end.heard() for end in bench.processes.ends] == [[claims[0]], [claims[1]]]
    assert bench.claim() == claims, "both are busy"
    row = get(bench.database, jobs[0])
    assert row.lease_owner == bench.supervisor._id
    assert row.lease_expires_at is not None
    with bench.database.read() as session:
        assert 25.0 < (row.lease_expires_at - current_time(session)).total_seconds() <= 30.0


def test_one_idle_slot_is_enough(bench: Bench) -> None:
    queued_jobs(bench.database, [0, 0])
    bench.slots[1].ready = True
    assert len(bench.claim()) == 1
    assert bench.slots[1].claim is not None


def test_a_look_without_news_is_taken_only_now_and_then(bench: Bench, clock: Clock) -> None:
    bench.ready()
    bench.supervisor._claim()
    jobs = queued_jobs(bench.database, [0])
    bench.supervisor._claim()
    assert bench.status(jobs[0]) == "queued", "it was looked just now"
    clock.now += bench.supervisor._settings.poll_seconds
    bench.bell.news = False
    bench.supervisor._blind_look.due()
    bench.supervisor._claim()
    assert bench.status(jobs[0]) == "queued", "nothing was written, says the file system"
    clock.now += 4.9
    bench.supervisor._claim()
    assert bench.status(jobs[0]) == "queued"
    clock.now += 0.1
    bench.supervisor._claim_look.hurry()
    bench.supervisor._claim()
    assert bench.status(jobs[0]) == "running", "a look without a sign, every five seconds"


def test_jobs_share_the_memory_of_the_machine(bench: Bench) -> None:
    bench.ready()
    with bench.database.write() as session:
        session.add_all([job_row(peak_bytes=600), job_row(peak_bytes=600), job_row(peak_bytes=2000)])
    claims = bench.claim()
    assert [claim.peak_bytes for claim in claims] == [600]
    bench.slots[0].claim = None
    with bench.database.write() as session:
        queue.release(session, claims[0])
    assert [claim.peak_bytes for claim in bench.claim()] == [600]


def test_jobs_wait_for_a_store_that_is_away(bench: Bench, settings: Settings, clock: Clock) -> None:
    bench.ready()
    jobs = queued_jobs(bench.database, [0])
    bench.supervisor._blobs.check()
    identity = settings.data_dir / "store.id"
    content = identity.read_bytes()
    identity.unlink()
    assert bench.claim() == []
    assert bench.status(jobs[0]) == "queued"
    assert bench.claim() == []
    identity.write_bytes(content)
    clock.now += 0.9
    assert bench.claim() == [], "the storage is looked at once a second"
    bench.bell.news = False
    clock.now += 0.1
    assert len(bench.claim()) == 1, "no sign is needed to start what waited"
    assert bench.supervisor._storage_is_here()
    assert bench.supervisor._storage_is_here()


# --- what processes say -----------------------------------------------------------------------------------------------


def say(bench: Bench, number: int, *messages: str) -> None:
    for message in messages:
        bench.processes.ends[number].end.send(message)
    bench.supervisor._collect()


def test_a_process_that_is_ready_gets_the_next_job_at_once(bench: Bench) -> None:
    bench.supervisor._claim_look.due()
    bench.supervisor._blind_look.due()
    say(bench, 0, READY)
    assert [slot.idle for slot in bench.slots] == [True, False]
    assert bench.supervisor._claim_look.due()
    assert bench.supervisor._blind_look.due()
    assert bench.ahead.missed == 0


def test_a_process_that_is_done_is_idle_again(bench: Bench) -> None:
    queued_jobs(bench.database, [0])
    bench.ready()
    bench.claim()
    say(bench, 0, DONE)
    assert (bench.slots[0].idle, bench.supervisor._unsettled) == (True, [])
    assert bench.supervisor._claim_look.due()


def test_a_job_that_is_given_back_is_queued_again_without_a_death(bench: Bench) -> None:
    (job_id,) = queued_jobs(bench.database, [0])
    bench.ready()
    bench.claim()
    say(bench, 0, GIVE_BACK)
    assert bench.slots[0].idle
    assert bench.status(job_id) == "running"
    bench.supervisor._settle()
    row = get(bench.database, job_id)
    assert (row.status, row.worker_deaths, bench.supervisor._unsettled) == ("queued", 0, [])


def test_missing_kernels_are_compiled_first(bench: Bench) -> None:
    say(bench, 1, LACKING, READY)
    assert bench.ahead.missed == 1
    assert bench.slots[1].ready


def test_the_first_compilation_of_a_job_is_an_event(bench: Bench) -> None:
    (job_id,) = queued_jobs(bench.database, [0])
    bench.ready()
    bench.claim()
    bench.supervisor._claim_look.due()
    say(bench, 0, COMPILING)
    assert bench.slots[0].compiling
    assert not bench.supervisor._claim_look.due(), "no slot became free"
    say(bench, 0, COMPILED, COMPILING, COMPILED)
    assert not bench.slots[0].compiling
    bench.supervisor._settle()
    assert event_types(bench.database, job_id) == ["job.queued", "job.running", "job.compiling"]
    say(bench, 1, COMPILING)
    assert (bench.slots[1].compiling, bench.supervisor._unsettled) == (True, []), "it runs no job"


@pytest.mark.parametrize(
    ("ready", "compiling", "lacks", "expected"),
    [
        ((True, False), (False, False), False, True),
        ((False, False), (False, False), False, False),
        ((True, True), (False, True), False, False),
        ((True, True), (False, False), True, False),
    ],
)
def test_training_is_ready_when_a_job_would_start_at_once(
    bench: Bench, ready: tuple[bool, ...], compiling: tuple[bool, ...], lacks: bool, expected: bool
) -> None:
    for slot, is_ready, is_compiling in zip(bench.slots, ready, compiling, strict=True):
        slot.ready, slot.compiling = is_ready, is_compiling
    bench.ahead.lacks_first = lacks
    bench.supervisor._show_readiness()
    assert bench.sign.ready is expected


# --- deaths -----------------------------------------------------------------------------------------------------------


def test_a_process_that_dies_is_replaced_and_counted_against_its_job(bench: Bench) -> None:
    (job_id,) = queued_jobs(bench.database, [0])
    bench.ready()
    bench.claim()
    dead, other = bench.slots
    bench.processes.made[0].dies(1)
    bench.supervisor._collect()
    assert len(bench.slots) == 2
    assert dead not in bench.slots
    assert other in bench.slots
    assert dead.pipe.closed
    assert not bench.slots[1].ready
    bench.supervisor._settle()
    row = get(bench.database, job_id)
    assert (row.status, row.worker_deaths) == ("queued", 1)


def test_an_idle_process_that_dies_harms_no_job(bench: Bench) -> None:
    bench.processes.made[1].dies(-11)
    bench.supervisor._collect()
    assert (len(bench.slots), bench.supervisor._unsettled) == (2, [])


def test_what_a_dying_process_said_is_heard(bench: Bench) -> None:
    (job_id,) = queued_jobs(bench.database, [0])
    bench.ready()
    bench.claim()
    bench.processes.ends[0].end.send(DONE)
    bench.processes.made[0].dies(0)
    bench.supervisor._collect()
    assert bench.supervisor._unsettled == []
    assert bench.status(job_id) == "running"  # its process has written what became of it


def test_a_pipe_that_broke_is_no_failure(bench: Bench) -> None:
    bench.processes.ends[0].end.close()
    bench.supervisor._collect()
    assert len(bench.slots) == 2


@pytest.mark.parametrize(
    ("exit_code", "stop", "kills", "reason", "peak"),
    [
        (-9, None, 1, "out_of_memory", BUDGET),
        (-9, None, 0, "worker_died", 0),
        (-11, None, 1, "worker_died", 0),
        (-9, "pause", 1, "worker_died", 0),
    ],
)
def test_a_death_for_memory_is_told_apart(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    exit_code: int,
    stop: Any,
    kills: int,
    reason: str,
    peak: int,
) -> None:
    (job_id,) = queued_jobs(bench.database, [0])
    bench.ready()
    bench.claim()
    bench.slots[0].stop_reason = stop
    before = bench.supervisor._kills_for_memory
    monkeypatch.setattr(module.resources, "out_of_memory_kills", lambda: before + kills)
    bench.processes.made[0].dies(exit_code)
    bench.supervisor._collect()
    bench.supervisor._settle()
    row = get(bench.database, job_id)
    assert (row.status, row.worker_deaths, row.peak_bytes) == ("queued", 1, peak)
    with bench.database.read() as session:
        last = module_events(session, job_id)[-1]
    assert (last.type, last.data["reason"]) == ("job.queued", reason)
    if reason == "out_of_memory":
        assert not bench.supervisor._memory_ran_out(), "one kill explains one death"


def module_events(session: Any, job_id: str) -> Any:
    from app.db.queries import list_events

    return list_events(session, job_id, 100, None)


def test_a_process_that_dies_while_it_drains_harms_no_job(bench: Bench, clock: Clock) -> None:
    (job_id,) = queued_jobs(bench.database, [0])
    bench.ready()
    bench.claim()
    bench.supervisor._drain_until = clock.now + 8.0
    bench.slots[0].stop("drain")
    bench.processes.made[0].dies(-9)
    bench.supervisor._collect()
    assert len(bench.slots) == 1, "no new process is needed"
    assert not bench.supervisor._drained()
    bench.supervisor._settle()
    row = get(bench.database, job_id)
    assert (row.status, row.worker_deaths) == ("queued", 0)
    assert bench.supervisor._drained()


# --- leases and requests ----------------------------------------------------------------------------------------------


def test_a_heartbeat_renews_leases_and_stops_what_is_lost(bench: Bench) -> None:
    jobs = queued_jobs(bench.database, [0, 0])
    bench.ready()
    claims = bench.claim()
    with bench.database.write() as session:
        soon = current_time(session)
        session.execute(update(JobRow).values(lease_expires_at=soon))
        session.execute(update(JobRow).where(JobRow.id == jobs[1]).values(fence=JobRow.fence + 1))
    bench.supervisor._keep_leases()
    assert bench.stops() == [None, "lost"]
    assert bench.processes.ends[1].heard() == [claims[1], "lost"]
    row = get(bench.database, jobs[0])
    assert (row.status, row.worker_deaths) == ("running", 0)
    assert row.lease_expires_at is not None
    assert (row.lease_expires_at - soon).total_seconds() >= 30.0


@pytest.mark.parametrize("look", ["_keep_leases", "_look_for_requests"])
def test_what_clients_ask_reaches_the_process_of_the_job(bench: Bench, look: str) -> None:
    jobs = queued_jobs(bench.database, [0, 0])
    bench.ready()
    bench.claim()
    with bench.database.write() as session:
        control.pause(session, jobs[1])
    getattr(bench.supervisor, look)()
    assert bench.stops() == [None, "pause"]
    with bench.database.write() as session:
        control.cancel(session, jobs[0])
    getattr(bench.supervisor, look)()
    assert bench.stops() == ["cancel", "pause"]


def test_while_nothing_is_silent_an_idle_supervisor_writes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued_jobs(bench.database, [0])
    monkeypatch.setattr(bench.supervisor._database, "write", None)
    bench.supervisor._keep_leases()


def test_without_jobs_no_request_is_looked_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "requests", None)
    bench.supervisor._look_for_requests()
