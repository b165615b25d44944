"""Slots of a supervisor without processes: a test plays the process at the other end of the pipe."""

import multiprocessing
import os
from multiprocessing.connection import Connection
from typing import Any


class FakeProcess:
    """Lives until it is killed or `dies`."""

    def __init__(self, target: Any, args: tuple[Any, ...], daemon: bool) -> None:
        self.target, self.args, self.daemon = target, args, daemon
        self.pid = 4711
        self.exitcode: int | None = None
        self.is_started = self.is_joined = False
        self.sentinel, self._writing = os.pipe()

    def start(self) -> None:
        self.is_started = True

    def is_alive(self) -> bool:
        return self.exitcode is None

    def dies(self, exitcode: int) -> None:
        self.exitcode = exitcode
        os.write(self._writing, b"x")

    def kill(self) -> None:
        if self.exitcode is None:
            self.dies(-9)

    def join(self) -> None:
        self.is_joined = True

    def close(self) -> None:
        os.close(self.sentinel)
        os.close(self._writing)


class TheirEnd:
    """The process's end of the pipe; closing it in the supervisor's process leaves the test its own."""

    def __init__(self, end: Connection) -> None:
        self.end = end
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def heard(self) -> list[Any]:
        """What the supervisor has sent since the last call."""
        messages = []
        while self.end.poll():
            messages.append(self.end.recv())
        return messages


class FakeProcesses:
    """In the place of multiprocessing's context."""

    def __init__(self) -> None:
        self.made: list[FakeProcess] = []
        self.ends: list[TheirEnd] = []

    def Pipe(self) -> tuple[Connection, TheirEnd]:  # noqa: N802
        ours, theirs = multiprocessing.Pipe()
        self.ends.append(TheirEnd(theirs))
        return ours, self.ends[-1]

    def Process(self, target: Any, args: tuple[Any, ...], daemon: bool) -> FakeProcess:  # noqa: N802
        self.made.append(FakeProcess(target, args, daemon))
        return self.made[-1]

    def close(self) -> None:
        for process in self.made:
            process.close()
        for one in self.ends:
            one.end.close()
