"""What goes wrong in a soak: processes die, sleep and are stopped, databases restart, fail over or lose
connections, disks fill up or fail.
"""

import os
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
from tests.support.serving import Service, children_of, wait_until

DISK_BYTES = 512 << 20
FULL_SECONDS = 2.0
FAILING_SECONDS = 1.0
READ_ONLY_SECONDS = 1.5
BROKEN_TIMES, BROKEN_SECONDS = 10, 0.05


class Faults:
    """Each public method is one fault; it returns when the fault is over, not when its effects are."""

    def __init__(self, service: Service, ledger: Ledger, lease_seconds: float, server: PrivateServer | None) -> None:
        self._service = service
        self._ledger = ledger
        self._lease_seconds = lease_seconds
        self._server = server

    def possible(self) -> list[str]:
        names = ["kill_api", "kill_worker", "kill_training", "kill_all", "sleep", "stop", "back_up"]
        if self._server is not None:
            names += ["restart_database", "make_read_only", "break_connections"]
        if os.path.ismount(self._disk):
            names.append("fill_disk")
        if shutil.which("strace"):
            names.append("fail_disk")
        return names

    @property
    def _disk(self) -> Path:
        return self._service.data_dir.parent

    def kill_api(self) -> None:
        self._kill(self._child("api"))

    def kill_worker(self) -> None:
        self._kill(self._child("worker"))

    def kill_training(self) -> None:
        self._kill((self._training() or [None])[0])

    def kill_all(self) -> None:
        """The parent dies, and its children with it, each in its own time; then somebody starts the service again."""
        assert self._service.process is not None
        children = children_of(self._service.process.pid)
        self._service.process.kill()
        self._service.process.wait()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), 60, "its children to end")
        self._service.start()

    def stop(self) -> None:
        """An orderly restart."""
        self._service.stop()
        self._service.start()

    def sleep(self) -> None:
        """The supervisor and its processes sleep past their lease."""
        asleep = [pid for pid in (self._child("worker"), *self._training()) if pid is not None]
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
        time.sleep(READ_ONLY_SECONDS)
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
        time.sleep(FULL_SECONDS)
        filler.unlink()

    def fail_disk(self) -> None:
        """Every third fsync of the API and of the worker's processes fails for a while."""
        victims = [pid for pid in (self._child("api"), self._child("worker"), *self._training()) if pid is not None]
        inject = "inject=fsync,fdatasync:error=EIO:when=3+3"
        command = ["strace", "-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", inject]
        tracer = subprocess.Popen([*command, *(f"-p{pid}" for pid in victims)], stderr=subprocess.DEVNULL)
        time.sleep(FAILING_SECONDS)
        tracer.send_signal(signal.SIGINT)
        tracer.wait(30)

    def _child(self, name: str) -> int | None:
        try:
            return self._service.child(name)
        except StopIteration:
            return None  # it is just being started again

    def _training(self) -> list[int]:
        with suppress(StopIteration):
            return self._service.training_processes()
        return []

    def _kill(self, pid: int | None) -> None:
        if pid is not None:
            _signal(pid, signal.SIGKILL)


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
