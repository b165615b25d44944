"""The queue's contract on memory: a job is claimed where there is room for it, and room is given out once."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from app.db import Database
from app.ids import new_id
from app.jobs import lease, queue, repository, service
from app.jobs.repository import Claim, Room
from tests.support.builders import job_row

LEASE_SECONDS = 60.0


def test_a_job_waits_for_room_and_is_not_overtaken(database: Database) -> None:
    with database.write() as session:
        rows = [job_row(peak_bytes=needed) for needed in (60, 200, 50, 10, 0)]
        for row in rows:
            repository.insert(session, row)
    large, huge, middle, small, unknown = (row.id for row in rows)

    def take(free: int) -> Claim | None:
        room = Room(whole=100, free=free)
        with database.write() as session:
            expected = lease.is_waiting(session, room)
            claimed = lease.claim_next(session, "wrk_test", LEASE_SECONDS, room)
        assert (claimed is not None) is expected
        return claimed

    first = take(100)
    assert first is not None
    assert (first.job_id, first.peak_bytes) == (large, 60)
    assert take(40) is None  # the next that fits the machine at all needs 50; what is smaller stays behind it
    taken = [take(free) for free in (50, 10, 0)]
    assert [one and one.job_id for one in taken] == [middle, small, unknown]
    assert take(100) is None  # what is left needs a larger machine
    with database.read() as session:
        assert service.get(session, huge).status == "queued"


def test_supervisors_of_one_machine_share_its_memory(database: Database) -> None:
    one, other, elsewhere = (lease.owner_of(machine, new_id("wrk")) for machine in ("here", "here", "there"))
    with database.write() as session:
        for needed in (60, 30, 30):
            repository.insert(session, job_row(peak_bytes=needed))

    def free(owner: str, held: Sequence[Claim] = ()) -> int:
        with database.read() as session:
            return lease.room(session, owner, 100, held).free

    def take(owner: str, held: Sequence[Claim] = ()) -> Claim | None:
        with database.write() as session:
            return lease.claim_next(session, owner, LEASE_SECONDS, lease.room(session, owner, 100, held, lock=True))

    first = take(one)
    assert first is not None
    assert (free(one, [first]), free(other), free(elsewhere)) == (40, 40, 100)
    second = take(other)
    assert second is not None
    assert (free(one, [first]), free(other, [second]), free(elsewhere)) == (10, 10, 100)
    assert take(one, [first]) is None
    third = take(elsewhere)
    assert third is not None
    with database.write() as session:
        queue.worker_died(session, first)
    assert free(one, [first]) == 10, "its process may still be at work"
    assert (free(one), free(other, [second]), free(elsewhere, [third])) == (70, 70, 70)


def test_supervisors_of_one_machine_that_claim_at_once_do_not_take_the_same_room(database: Database) -> None:
    with database.write() as session:
        for _ in range(8):
            repository.insert(session, job_row(peak_bytes=40))

    def take(number: int) -> Claim | None:
        owner = lease.owner_of("here", f"wrk_{number}")
        with database.write() as session:
            return lease.claim_next(session, owner, LEASE_SECONDS, lease.room(session, owner, 100, [], lock=True))

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(take, range(8)))
    assert len([claim for claim in taken if claim is not None]) == 2
