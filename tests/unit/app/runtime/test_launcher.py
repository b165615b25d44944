"""How the launcher starts its children again."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.runtime import launcher
from app.runtime.launcher import Child
from app.system.stop_signals import StopSignals
from tests.support.builders import temporary_settings


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


class Mortal(Stub):
    """A child that dies with these exit codes, one after each start, and then lives."""

    codes: list[int]

    def start(self) -> None:
        super().start()
        self.exit_code = self.codes.pop(0) if self.codes else None


class Sleeps(StopSignals):
    """No signal ever arrives, and a sleep only sets the clock."""

    def __init__(self, at: Callable[[float], None]) -> None:
        self.asked, self._seconds, self._at = False, 0.0, at

    def wait(self, seconds: float) -> bool:
        self._seconds += seconds
        self._at(self._seconds)
        return self.asked


@pytest.mark.parametrize(
    ("codes", "starts", "becomes_ready"),
    [
        ([-9], 2, True),
        ([-9, -11, -9], 4, True),
        ([-9] * 4, 4, False),
        ([3], 1, False),
        ([-9, 0], 2, False),
    ],
)
def test_an_api_process_killed_during_the_start_is_started_again_but_not_for_ever(
    at: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    codes: list[int],
    starts: int,
    becomes_ready: bool,
) -> None:
    api = Mortal("api", lambda: os._exit(0))
    api.codes = list(codes)
    api.start()
    monkeypatch.setattr(launcher, "server_answers", lambda url: api.poll() is None)
    assert launcher._wait_until_ready(temporary_settings(tmp_path), api, Sleeps(at)) is becomes_ready
    assert api.starts == starts
