"""A supervisor whose processes, clock and doorbell are played by a test."""

from typing import Any

import pytest

from app.config import Settings
from app.db import Database
from app.jobs.repository import Claim
from app.system.readiness import WorkersReady
from app.worker import slot as slots
from app.worker import supervisor as module
from app.worker.supervisor import Supervisor
from tests.support.queue_acts import get
from tests.support.slots import FakeProcesses

BUDGET = 1000
"""Bytes of memory for training."""


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module, "time", self)
        monkeypatch.setattr(slots, "time", self)

    def monotonic(self) -> float:
        return self.now


class Bell:
    """A doorbell that rings when the test says so."""

    def __init__(self) -> None:
        self.rung = False
        self.news = True
        self.is_closed = False
        self.poll_seconds = 0.01
        self.signs: list[Any] = []

    def has_rung(self) -> bool:
        rung, self.rung = self.rung, False
        return rung

    def may_have_news(self) -> bool:
        return self.news

    def close(self) -> None:
        self.is_closed = True


class Ahead:
    """In the place of CompileAhead."""

    def __init__(self) -> None:
        self.lacks_first = False
        self.idle: list[bool] = []
        self.missed = self.ended = 0

    def attend(self, *, is_idle: bool) -> None:
        self.idle.append(is_idle)

    def miss_first(self) -> None:
        self.missed += 1

    def end(self) -> None:
        self.ended += 1


class SupervisorBench:
    """A supervisor on a database, with two slots whose processes are played by the test."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.database = database
        self.sign = WorkersReady()
        self.supervisor = Supervisor(settings, sign=self.sign)
        self.supervisor._doorbell.close()
        self.bell, self.ahead, self.processes = Bell(), Ahead(), FakeProcesses()
        made: Any = self.supervisor
        made._doorbell, made._compile_ahead, made._processes = self.bell, self.ahead, self.processes
        made._slots = [made._new_slot() for _ in range(2)]

    @property
    def slots(self) -> list[slots.Slot]:
        return self.supervisor._slots

    def ready(self) -> None:
        for slot in self.slots:
            slot.ready = True

    def claim(self) -> list[Claim]:
        """Claim for all idle slots; returns the claims of all slots."""
        self.supervisor._claim_look.hurry()
        self.supervisor._claim()
        return self.supervisor._claims()

    def status(self, job_id: str) -> str:
        return get(self.database, job_id).status

    def stops(self) -> list[Any]:
        return [slot.stop_reason for slot in self.slots]
