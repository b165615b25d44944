"""`hyperplane serve`: one parent, its children (one or more API processes, the workers), each restarted when it dies.

The parent binds the address and hands the sockets to the API processes, which all accept from them. It keeps them open:
while an API process starts again, connections wait for it, or for another one, and are not refused.

The children hold the other end of a pipe to the parent as their standard input. They load what they
need while the parent migrates, and begin when it writes to them; when the pipe closes, because the
parent is gone, however it went, they stop as if told to.
"""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from app.config import Settings

START_SECONDS = 60.0
CALM_SECONDS = 10.0  # a child that lived this long before it died is restarted at once
LOOK_SECONDS = 0.1
GO = b"g"
FAILED = 2  # beside 0 and 1, which are answers


@dataclass
class Child:
    """One of the processes, under its name in our messages."""

    name: str
    command: list[str]
    environment: dict[str, str]
    pass_fds: tuple[int, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    early_deaths: int = 0

    def start(self) -> None:
        self.started_at = time.monotonic()
        # A session of its own: Ctrl-C is for the parent, which then tells its children in good order.
        self.process = subprocess.Popen(
            self.command,
            env=self.environment,
            stdin=subprocess.PIPE,
            start_new_session=True,
            pass_fds=self.pass_fds,
        )

    def let_begin(self) -> None:
        if self.process and self.process.stdin:
            with suppress(BrokenPipeError):  # it died; who watches it will see
                self.process.stdin.write(GO)
                self.process.stdin.flush()

    def poll(self) -> int | None:
        return self.process.poll() if self.process else None

    def signal(self, number: int) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)

    def wait(self, seconds: float) -> None:
        if self.process is None:
            return
        try:
            self.process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def revive(self) -> None:
        """Start again after an unexpected death, slower each time it dies young."""
        lived = time.monotonic() - self.started_at
        self.early_deaths = 0 if lived > CALM_SECONDS else self.early_deaths + 1
        time.sleep(min(5.0, 0.2 * 2**self.early_deaths) if self.early_deaths else 0.0)
        self.start()
        self.let_begin()


def launch(settings: Settings) -> int:
    """Run the service until a signal ends it; returns the exit code."""
    try:
        sockets = bound_sockets(settings)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        print(f"hyperplane: cannot bind {settings.host}:{settings.port}: {reason}", file=sys.stderr)
        return 1
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    children = _children(settings, sockets)
    for child in children:
        child.start()
    try:
        has_key = _in_child(_prepare_database, settings)
        if not settings.bound_to_loopback and not has_key:
            print(
                f"hyperplane: refusing to bind {settings.host} without an API key: anybody could use the service.\n"
                "Make a key first:  hyperplane keys create --admin",
                file=sys.stderr,
            )
            return 2
        for child in children:
            child.let_begin()
        if not _wait_until_ready(settings, children[0], stopping):
            return 0 if stopping.is_set() else 1
        _print_welcome(settings, has_key)
        _watch(children, stopping)
        return 0
    finally:
        for one in sockets:  # with the children's copies the last ones: who comes now is refused and does not wait
            one.close()
        _stop(children, settings.drain_seconds + 2.0)


def follow_parent() -> None:
    """Wait until the parent says go; from then on, end like SIGTERM would once it is gone."""
    if not os.read(0, 1):
        raise SystemExit(0)

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


def waker(wake_fd: int) -> Callable[[], None]:
    """What wakes the worker at the other end of the pipe."""
    os.set_blocking(wake_fd, False)
    os.set_inheritable(wake_fd, False)

    def wake() -> None:
        with suppress(OSError):  # the pipe is full of rings, or nobody is there: he looks by himself
            os.write(wake_fd, b"!")

    return wake


def server_answers(url: str, path: str = "/readyz") -> bool:
    try:
        with urllib.request.urlopen(url + path, timeout=5) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def base_url(settings: Settings) -> str:
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def _in_child(work: Callable[[Settings], bool], settings: Settings) -> bool:
    """What the work returns. What it loads would otherwise stay with this process for as long as the service runs.

    Raises SystemExit if it fails; it has said why.
    """
    pid = os.fork()  # there is no other thread yet
    if pid == 0:
        code = FAILED
        try:
            code = int(work(settings))
        except Exception:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in (False, True):
        raise SystemExit(1)
    return bool(code)


def _prepare_database(settings: Settings) -> bool:
    """Bring the schema up to date; returns whether an API key exists."""
    from app.db import Database  # here, because the children should start before this is loaded
    from app.db.migrate import upgrade
    from app.keys import repository as keys

    database = Database(settings.resolved_database_url)
    upgrade(database)
    with database.read() as session:
        has_key = keys.any_active(session)
    database.close()
    return has_key


def _children(settings: Settings, sockets: list[socket.socket]) -> list[Child]:
    environment = settings.environment()
    # not `-m app.cli`: every process of a forkserver would import that module anew
    start = [sys.executable, "-c", "from app.cli import main; main()"]
    fds = tuple(one.fileno() for one in sockets)
    serve = [*start, "api", "--has-parent", *(f"--listen-fd={fd}" for fd in fds)]
    if not settings.workers:
        return [Child("api", serve, environment, fds) for _ in range(settings.processes)]
    # Ours stay open, so that a child that is started again has its end of the pipe again.
    receiving, sending = os.pipe()
    serve.append(f"--wake-fd={sending}")
    children = [Child("api", serve, environment, (*fds, sending)) for _ in range(settings.processes)]
    work = [*start, "worker", "--has-parent", f"--wake-fd={receiving}"]
    return [*children, Child("worker", work, environment, (receiving,))]


def bound_sockets(settings: Settings) -> list[socket.socket]:
    """One for each address of the host. They begin to listen when the first API process does."""
    found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    for family, kind, protocol, _, address in dict.fromkeys(found):
        try:
            one = socket.socket(family, kind, protocol)
        except OSError:
            continue  # a family that this machine does not speak
        sockets.append(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            one.bind(address)
        except OSError as error:
            sockets.pop().close()
            if error.errno != errno.EADDRNOTAVAIL or not sockets:
                for bound in sockets:
                    bound.close()
                raise
    return sockets


def _wait_until_ready(settings: Settings, api: Child, stopping: threading.Event) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while not stopping.wait(LOOK_SECONDS):
        if (code := api.poll()) is not None:
            print(f"hyperplane: the API ended at its start with code {code}", file=sys.stderr)
            return False
        if server_answers(base_url(settings)):
            return True
        if time.monotonic() > deadline:
            print(f"hyperplane: not ready after {START_SECONDS:.0f} s, going on", file=sys.stderr)
            return True
    return False


def _print_welcome(settings: Settings, has_key: bool) -> None:
    url = base_url(settings)
    key = ' -H "Authorization: Bearer $HYPERPLANE_API_KEY"' if has_key else ""
    print(
        f"Hyperplane is ready: {url}\n"
        f"API documentation:   {url}/docs\n"
        f"Try it:              curl -s {url}/v1/solvers{key}\n"
        f"Data folder:         {settings.data_dir.resolve()}   (Ctrl-C stops the service)",
        flush=True,
    )


def _watch(children: list[Child], stopping: threading.Event) -> None:
    while not stopping.wait(LOOK_SECONDS):
        for child in children:
            if (code := child.poll()) is not None:
                print(
                    f"hyperplane: the {child.name} process died (code {code}); starting it again",
                    file=sys.stderr,
                )
                child.revive()


def _stop(children: list[Child], patience_seconds: float) -> None:
    deadline = time.monotonic() + patience_seconds
    for child in children:
        child.signal(signal.SIGTERM)
    for child in children:
        child.wait(deadline - time.monotonic())
