"""How the launcher starts its children again."""

import os
import time
from collections.abc import Callable

import pytest

from app.runtime import launcher
from app.runtime.launcher import Child


class Stub(Child):
    """A child without a process: it dies when a test says so."""

    starts = 0

    def start(self) -> None:
        self.starts += 1
        self.started_at, self.exit_code, self.restart_at = time.monotonic(), None, None

    def poll(self) -> int | None:
        return self.exit_code


def child() -> Stub:
    made = Stub("api", lambda: os._exit(0))
    made.start()
    return made


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the clock."""
    began = time.monotonic()

    def set_clock(seconds: float) -> None:
        monkeypatch.setattr(launcher.time, "monotonic", lambda: began + seconds)

    set_clock(0.0)
    return set_clock


def test_a_child_that_runs_is_left_alone(at: Callable[[float], None]) -> None:
    one = child()
    at(100.0)
    one.revive()
    assert one.starts == 1


def test_a_child_that_lived_long_is_started_again_at_once(at: Callable[[float], None]) -> None:
    one = child()
    at(launcher.CALM_SECONDS + 1)
    one.exit_code = -9
    one.revive()
    assert one.starts == 2


def test_a_child_that_dies_young_waits_longer_each_time_and_holds_up_no_other(at: Callable[[float], None]) -> None:
    one, other = child(), child()
    one.exit_code = -9
    one.revive()
    assert one.starts == 1
    at(launcher.CALM_SECONDS + 1)
    other.exit_code = -9
    other.revive()
    assert other.starts == 2
    one.revive()
    assert one.starts == 2
    one.exit_code = -9
    one.revive()
    at(launcher.CALM_SECONDS + 1 + 0.7)
    one.revive()
    assert one.starts == 2, "0.8 s after a second early death"
    at(launcher.CALM_SECONDS + 1 + 0.9)
    one.revive()
    assert one.starts == 3
