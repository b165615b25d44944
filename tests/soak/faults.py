"""What goes wrong in a soak: processes die, sleep and are stopped, databases restart, fail over or lose
connections, disks fill up, fail or are not mounted.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.soak.ledger import Ledger
from tests.support.postgres import PrivateServer
from tests.support.serving import Service, children_of, command_line, wait_until

START_SECONDS = 300.0
"""How long a start may take on a machine that does other work too."""
DISK_BYTES = 1 << 30
FULL_SECONDS = 2.0
AWAY_SECONDS = 3.0
FAILING_SECONDS = 1.0
READ_ONLY_SECONDS = 1.5
READER_SECONDS = 1.0
"""How long to wait for a reader to kill: one lives for milliseconds."""
BROKEN_TIMES, BROKEN_SECONDS = 10, 0.05

KILLS = {"kill_training": 9, "kill_api": 4, "kill_worker": 3, "kill_reader": 3, "kill_forkserver": 1, "kill_all": 0.6}
OTHERS = {"sleep": 0.3, "stop": 0.3, "back_up": 0.3, "lose_storage": 0.5}
OF_DATABASE = {"restart_database": 0.5, "make_read_only": 0.5, "break_connections": 0.7}
OF_DISK = {"fill_disk": 0.5, "fail_disk": 0.5}
"""How often each fault is drawn, beside the others."""
KILLED_MEANWHILE = 0.5
"""Share of the faults that last in which a process is killed too."""


class Faults:
    """Each public method is one fault; it returns when the fault is over, not when its effects are."""

    def __init__(
        self,
        service: Service,
        ledger: Ledger,
        lease_seconds: float,
        server: PrivateServer | None,
        chance: random.Random,
    ) -> None:
        self._service = service
        self._ledger = ledger
        self._lease_seconds = lease_seconds
        self._server = server
        self._chance = chance

    def possible(self) -> dict[str, float]:
        """What this machine lets us do, with how often."""
        names: dict[str, float] = {**KILLS, **OTHERS}
        if self._server is not None:
            names |= OF_DATABASE
        if os.path.ismount(self._disk):
            names["fill_disk"] = OF_DISK["fill_disk"]
        if shutil.which("strace"):
            names["fail_disk"] = OF_DISK["fail_disk"]
        return names

    @property
    def _disk(self) -> Path:
        return self._service.data_dir.parent

    def kill_api(self) -> None:
        """One of the processes that answer requests."""
        self._kill("api", self._children("api"))

    def kill_worker(self) -> None:
        """The supervisor; its training processes end with it."""
        self._kill("supervisor", self._children("worker"))

    def kill_training(self) -> None:
        self._kill("training", self._grandchildren("worker"))

    def kill_forkserver(self) -> None:
        """What readers, or training processes, are forked from."""
        self._kill("forkserver", self._forkservers(self._chance.choice(["api", "worker"])))

    def kill_reader(self) -> None:
        """A process that reads an uploaded file, or describes one."""
        deadline = time.monotonic() + READER_SECONDS
        while time.monotonic() < deadline:
            if self._kill("reader", self._grandchildren("api")):
                return
            time.sleep(0.002)

    def kill_all(self) -> None:
        """Kill the parent; its children end by themselves. Then start the service again."""
        assert self._service.process is not None
        children = children_of(self._service.process.pid)
        self._service.process.kill()
        self._service.process.wait()
        self._ledger.count("kill launcher")
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), 60, "its children to end")
        self._service.start(START_SECONDS)

    def stop(self) -> None:
        """An orderly restart."""
        self._service.stop()
        self._service.start(START_SECONDS)

    def sleep(self) -> None:
        """The supervisor and its processes sleep past their lease."""
        asleep = [*self._children("worker"), *self._grandchildren("worker")]
        for pid in asleep:
            _signal(pid, signal.SIGSTOP)
        time.sleep(1.5 * self._lease_seconds)
        for pid in asleep:
            _signal(pid, signal.SIGCONT)

    def restart_database(self) -> None:
        assert self._server is not None
        self._server.restart()

    def make_read_only(self) -> None:
        """The server refuses writes for a while, as in a failover."""
        assert self._server is not None
        self._server.set_read_only(on=True)
        self._last(READ_ONLY_SECONDS)
        self._server.set_read_only(on=False)

    def break_connections(self) -> None:
        """Every connection to the server breaks, some of them in a commit."""
        assert self._server is not None
        for _ in range(BROKEN_TIMES):
            self._server.end_backends()
            time.sleep(BROKEN_SECONDS)

    def back_up(self) -> None:
        """No fault: a backup while everybody works, restored into an SQLite database, must be sound."""
        with tempfile.TemporaryDirectory(prefix="hyperplane-soak-backup-") as folder:
            own = {"HYPERPLANE_DATA_DIR": f"{folder}/data", "HYPERPLANE_DATABASE_URL": ""}
            for arguments, changes in ((("backup", f"{folder}/backup"), {}), (("restore", f"{folder}/backup"), own)):
                command = [sys.executable, "-m", "app.cli", *arguments]
                environment = {**self._service.environment, **changes}
                ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
                if ended.returncode != 0:
                    self._ledger.blame(f"{arguments[0]}: {ended.stdout[-500:]}{ended.stderr[-500:]}")
                    return

    def fill_disk(self) -> None:
        filler = self._disk / "filler"
        with suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(1 << 20))
                file.flush()
        self._last(FULL_SECONDS)
        filler.unlink()

    def lose_storage(self) -> None:
        """The volume is not mounted for a while: an empty folder is in its place, and must stay empty."""
        folder, unmounted = self._service.data_dir, self._disk / "unmounted"
        folder.rename(unmounted)
        folder.mkdir()
        self._last(AWAY_SECONDS)
        if written := sorted(str(path) for path in folder.rglob("*") if path.is_file()):
            self._ledger.blame(f"files were written where no store was: {written[:5]}")
        folder.rename(self._disk / f"empty-{time.monotonic_ns()}")
        unmounted.rename(folder)

    def fail_disk(self) -> None:
        """Every third fsync of the API and of the worker's processes fails for a while."""
        victims = [*self._children("api"), *self._children("worker"), *self._grandchildren("worker")]
        inject = "inject=fsync,fdatasync:error=EIO:when=3+3"
        command = ["strace", "-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", inject]
        tracer = subprocess.Popen([*command, *(f"-p{pid}" for pid in victims)], stderr=subprocess.DEVNULL)
        time.sleep(FAILING_SECONDS)
        tracer.send_signal(signal.SIGINT)
        tracer.wait(30)

    def _last(self, seconds: float) -> None:
        """Wait, and kill something in the middle now and then: two things that fail at once."""
        meanwhile = self._chance.random() < KILLED_MEANWHILE
        time.sleep(seconds / 2)
        if meanwhile:
            getattr(self, self._chance.choice(["kill_api", "kill_worker", "kill_training"]))()
        time.sleep(seconds / 2)

    def _children(self, name: str) -> list[int]:
        """Processes of this name; none while one is just being started again."""
        assert self._service.process is not None
        return [pid for pid in children_of(self._service.process.pid) if name in command_line(pid)]

    def _forkservers(self, name: str) -> list[int]:
        return [
            pid for parent in self._children(name) for pid in children_of(parent) if "forkserver" in command_line(pid)
        ]

    def _grandchildren(self, name: str) -> list[int]:
        return [pid for fork in self._forkservers(name) for pid in children_of(fork)]

    def _kill(self, what: str, pids: list[int]) -> bool:
        if not pids:
            return False
        _signal(self._chance.choice(pids), signal.SIGKILL)
        self._ledger.count(f"kill {what}")
        return True


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A file system of its own at the folder, if this machine lets us; whether it does."""
    options = f"size={DISK_BYTES}"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "soak", folder], check=False, capture_output=True)
    if mounted.returncode != 0:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
