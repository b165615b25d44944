"""The queue against a plain model of it: any order of claims, deaths, cancels and late writes must agree."""

from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from app.db import Database
from app.errors import Conflict
from app.jobs import control, lease, queue, repository
from app.jobs.lease import LeaseLost
from app.jobs.queue import MAX_WORKER_DEATHS
from app.jobs.repository import Claim
from tests.support.builders import NOBODY, SOAK, empty_tables, migrated_database, queued_jobs

ENDED = ("succeeded", "failed", "cancelled")
ACTS = ["progress", "checkpoint", "succeed", "fail", "cancel", "pause", "release", "died"]
POINT = {"iterations": 1, "passes": 1, "primal": 1.0, "dual_bound": None, "relative_gap": None}


@dataclass
class Expected:
    """What should be stored about one job."""

    priority: int
    status: str = "queued"
    fence: int = 0
    deaths: int = 0
    expired: bool = False
    request: str | None = None
    has_checkpoint: bool = False

    def leave(self, status: str) -> None:
        self.status, self.expired = status, False
        if status == "paused":
            self.request = None

    def give_back(self) -> None:
        self.leave({"cancel": "cancelled", "pause": "paused"}.get(self.request or "", "queued"))

    def die(self) -> None:
        if self.request != "cancel":
            self.deaths += 1
        if self.deaths == MAX_WORKER_DEATHS and self.request != "cancel":
            self.leave("failed")
        else:
            self.give_back()

    def can(self, act: str) -> bool:
        """Whether a client may ask for this now."""
        if act == "cancel" and self.status == "cancelled":
            return True
        if act == "finish" and self.request == "finish":
            return True
        if self.status in ENDED:
            return False
        if act in ("cancel", "resume") or (act == "pause" and self.status == "paused"):
            return True
        if act == "finish" and self.status != "running" and not self.has_checkpoint:
            return False
        weaker = {"pause": (None, "pause"), "finish": (None, "pause", "finish")}
        return self.request in weaker[act]

    def ask(self, act: str) -> None:
        """What it does, where it may."""
        if self.status == "running":
            if act != "resume":
                self.request = act
            elif self.request == "pause":
                self.request = None
        elif self.status not in ENDED:
            if act == "finish":
                self.request = "finish"
            self.leave({"cancel": "cancelled", "pause": "paused"}.get(act, "queued"))


class QueueMachine(RuleBasedStateMachine):
    """Rules are what workers, supervisors and clients do; claims stay in the bundle after they are lost."""

    claims: Bundle[Claim] = Bundle("claims")

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.database = database
        self.jobs: dict[str, Expected] = {}

    @initialize()
    def start_empty(self) -> None:
        empty_tables(self.database.engine)

    @rule(priority=st.integers(-1, 1))
    def submit(self, priority: int) -> None:
        (job_id,) = queued_jobs(self.database, [priority])
        self.jobs[job_id] = Expected(priority)

    @rule(target=claims, expired=st.booleans())
    def claim(self, expired: bool) -> Claim:
        with self.database.write() as session:
            claimed = lease.claim_next(session, "wrk_machine", -1.0 if expired else 60.0)
        waiting = [job_id for job_id, job in self.jobs.items() if job.status == "queued"]
        if not waiting:
            assert claimed is None
            return Claim(f"job_{NOBODY}", 1)
        expected_id = min(waiting, key=lambda job_id: (-self.jobs[job_id].priority, job_id))
        job = self.jobs[expected_id]
        job.status, job.fence, job.expired = "running", job.fence + 1, expired
        assert claimed == Claim(expected_id, job.fence)
        return claimed

    @rule(claim=claims)
    def heartbeat(self, claim: Claim) -> None:
        with self.database.write() as session:
            pulse = lease.heartbeat(session, [claim], 60.0)
        job = self.held(claim)
        assert list(pulse.lost) == ([] if job else [claim])
        if job:
            assert pulse.requests == ({claim: job.request} if job.request else {})
            job.expired = False

    @rule(claim=claims, act=st.sampled_from(ACTS))
    def write(self, claim: Claim, act: str) -> None:
        job = self.held(claim)
        try:
            with self.database.write() as session:
                if act == "progress":
                    queue.report_progress(session, claim, POINT, 0.5, [])
                elif act == "checkpoint":
                    if not repository.update_claimed(session, claim, checkpoint="4" * 64):
                        raise LeaseLost
                elif act == "succeed":
                    queue.succeed(session, claim, f"mdl_{NOBODY}", {})
                elif act == "fail":
                    queue.fail(session, claim, {"code": "x", "message": "y"})
                elif act == "cancel":
                    queue.cancel(session, claim)
                elif act == "pause":
                    queue.pause(session, claim)
                elif act == "release":
                    queue.release(session, claim)
                else:
                    queue.worker_died(session, claim)
        except LeaseLost:
            assert job is None, "a valid claim was refused"
            return
        assert job is not None, "a lost claim wrote"
        if act == "died":
            job.die()
        elif act in ("release", "pause"):
            job.give_back()
        elif act == "checkpoint":
            job.has_checkpoint = True
        elif act != "progress":
            job.leave({"succeed": "succeeded", "fail": "failed", "cancel": "cancelled"}[act])

    @rule()
    def take_back_expired(self) -> None:
        with self.database.write() as session:
            taken = {claim.job_id for claim in queue.requeue_expired(session)}
        silent = {job_id for job_id, job in self.jobs.items() if job.status == "running" and job.expired}
        assert taken == silent
        for job_id in silent:
            self.jobs[job_id].die()

    @rule(data=st.data(), act=st.sampled_from(["cancel", "finish", "pause", "resume"]))
    def client_asks(self, data: st.DataObject, act: str) -> None:
        if not self.jobs:
            return
        job_id = data.draw(st.sampled_from(sorted(self.jobs)))
        job = self.jobs[job_id]
        try:
            with self.database.write() as session:
                shown = getattr(control, act)(session, job_id)
        except Conflict:
            assert not job.can(act)
            return
        assert job.can(act)
        job.ask(act)
        assert (shown.status, shown.request) == (job.status, job.request)

    @invariant()
    def the_table_agrees(self) -> None:
        with self.database.read() as session:
            rows = repository.list_newest(session, 1000, None, repository.Filters())
        stored = {row.id: (row.status, row.fence, row.worker_deaths, row.request) for row in rows}
        assert stored == {job_id: (job.status, job.fence, job.deaths, job.request) for job_id, job in self.jobs.items()}
        for row in rows:
            assert (row.lease_expires_at is not None) is (row.status == "running")
            assert (row.finished_at is not None) is (row.status in ENDED)

    def held(self, claim: Claim) -> Expected | None:
        job = self.jobs.get(claim.job_id)
        return job if job and job.status == "running" and job.fence == claim.fence else None


def test_the_queue_agrees_with_its_model(database_url: str) -> None:
    with migrated_database(database_url) as database:
        run_state_machine_as_test(
            lambda: QueueMachine(database),
            settings=settings(
                max_examples=12 * SOAK,
                stateful_step_count=30,
                deadline=None,
                derandomize=SOAK == 1,
                suppress_health_check=list(HealthCheck),
            ),
        )
