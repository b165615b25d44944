"""A slot: what its process is sent, and when it counts as deaf. The process's side: which of several reasons counts."""

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.db.job_state import STOP_REASONS, StopReason, outranks, stronger
from app.jobs.repository import Claim
from app.worker import child, slot
from app.worker.failures import TransientFailure
from app.worker.slot import DONE, GIVE_BACK, Slot
from tests.support.builders import NOBODY, temporary_settings
from tests.support.slots import FakeProcesses

CLAIM = Claim(f"job_{NOBODY}", 1)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(slot, "time", made)
    return made


@pytest.fixture
def processes() -> Iterator[FakeProcesses]:
    made = FakeProcesses()
    yield made
    made.close()


@pytest.fixture
def one(processes: FakeProcesses, tmp_path: Path, clock: Clock) -> Slot:
    return Slot(cast(Any, processes), temporary_settings(tmp_path), 3)


def test_a_process_is_started_which_dies_with_the_supervisor(one: Slot, processes: FakeProcesses) -> None:
    (process,), (end,) = processes.made, processes.ends
    assert (process.is_started, process.daemon, process.target) == (True, True, slot._main)
    assert (process.args[0], process.args[2]) == (end, 3)
    assert end.is_closed, "or its death would not be seen"
    assert (one.ready, one.compiling, one.claim, one.stop_reason, one.idle) == (False, False, None, None, False)
    one.ready = True
    assert one.idle
    one.end()
    assert (one.pipe.closed, process.exitcode, process.is_joined) == (True, -9, True)


def test_the_process_serves_its_end_of_the_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr(child, "serve", lambda *arguments: served.append(arguments))
    slot._main(cast(Any, "pipe"), cast(Any, "settings"), 3)
    assert served == [("pipe", "settings", 3)]


def test_a_claim_makes_it_busy_and_forgets_the_stop_of_the_last_one(one: Slot, processes: FakeProcesses) -> None:
    one.ready = True
    one.start(CLAIM)
    one.stop("cancel")
    one.claim = None
    one.start(Claim("job_2", 2))
    assert (one.idle, one.claim, one.stop_reason) == (False, Claim("job_2", 2), None)
    assert processes.ends[0].heard() == [CLAIM, "cancel", Claim("job_2", 2)]


def test_only_a_stronger_reason_is_sent(one: Slot, processes: FakeProcesses, clock: Clock) -> None:
    one.start(CLAIM)
    for reason in ("pause", "pause", "cancel", "finish", "drain", "cancel", "lost", "cancel"):
        one.stop(cast(StopReason, reason))
        clock.now += 1.0
    assert processes.ends[0].heard() == [CLAIM, "pause", "cancel", "lost"]
    assert (one.stop_reason, one.stop_sent_at) == ("lost", 106.0)


@pytest.mark.parametrize("reason", STOP_REASONS)
def test_a_process_that_must_stop_at_once_and_does_not_is_deaf(one: Slot, clock: Clock, reason: StopReason) -> None:
    assert not one.is_deaf(5.0)
    one.start(CLAIM)
    clock.now += 1000.0
    assert not one.is_deaf(5.0), "no stop was requested"
    one.stop(reason)
    clock.now += 5.0
    assert not one.is_deaf(5.0)
    clock.now += 0.1
    assert one.is_deaf(5.0) is (reason in ("drain", "cancel", "lost"))
    one.claim = None
    assert not one.is_deaf(5.0), "it has ended its job"


def test_a_dead_process_cannot_be_told_and_that_is_no_failure(one: Slot) -> None:
    one.pipe.close()
    one.start(CLAIM)
    assert one.claim == CLAIM


def test_of_two_reasons_the_one_that_asks_for_more_counts() -> None:
    order: list[StopReason] = ["pause", "finish", "drain", "cancel", "lost"]
    for i, one in enumerate(order):
        assert stronger(one, None) == stronger(None, one) == one
        assert outranks(one, None)
        for j, other in enumerate(order):
            assert stronger(one, other) == order[max(i, j)]
            assert outranks(one, other) is (i > j)
    assert stronger(None, None) is None


class Execution:
    """What the process of a slot executes: asks for a stop as often as the test says, then ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.ours, self.theirs = multiprocessing.Pipe()
        self.reasons: list[StopReason | None] = []
        self.steps: list[Any] = []
        self.error = error
        monkeypatch.setattr(child, "execute", self._execute)

    def _execute(self, _context: Any, claim: Claim, stop_reason: Any) -> None:
        assert claim == CLAIM
        for step in self.steps:
            step()
            self.reasons.append(stop_reason())
        if self.error is not None:
            raise self.error

    def run(self) -> str:
        return child._run(cast(Any, None), CLAIM, self.theirs)


def test_a_process_hears_the_strongest_reason_and_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    execution = Execution(monkeypatch)
    sent: list[list[StopReason]] = [[], ["pause"], [], ["cancel", "finish"], ["lost"], []]

    def send(reasons: list[StopReason]) -> None:
        for reason in reasons:
            execution.ours.send(reason)

    execution.steps = [lambda reasons=reasons: send(reasons) for reasons in sent]
    assert execution.run() == DONE
    assert execution.reasons == [None, "pause", "pause", "cancel", "lost", "lost"]


def test_without_its_supervisor_a_process_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    execution = Execution(monkeypatch)
    execution.steps = [lambda: None, execution.ours.close, lambda: None]
    assert execution.run() == DONE
    assert execution.reasons == [None, "drain", "drain"]


def test_a_job_that_could_not_be_written_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Execution(monkeypatch, TransientFailure("the database is away")).run() == GIVE_BACK


@pytest.mark.parametrize(
    ("peak", "budget", "allowed"), [(100, 1000, 200), (500, 1000, 1000), (600, 1000, 1000), (0, 1000, 1000)]
)
def test_a_job_may_need_twice_what_was_estimated_and_never_more_than_there_is(
    peak: int, budget: int, allowed: int
) -> None:
    settings = cast(Any, SimpleNamespace(memory_budget_bytes=budget))
    assert child._allowance(Claim("job_1", 1, peak), settings) == allowed + 512 * 1024**2
