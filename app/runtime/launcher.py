"""`hyperplane serve`: one parent, its children (one or more API processes, the workers), each restarted when it dies.

The parent loads what they need, once, and they are copies of it: together they hold it once. It binds the address, and
all API processes accept from its sockets. It keeps them open: while an API process starts again, connections wait for
it, or for another one, and are not refused.

The children hold the other end of a pipe to the parent as their standard input. When it closes, because the parent is
gone, however it went, they stop as if told to.
"""

import errno
import os
import signal
import socket
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from app.config import Settings
from app.system import resources
from app.system.forkserver import FOR_READING, FOR_TRAINING, copy_process, settle, start_forkserver
from app.system.readiness import WorkersReady
from app.system.stop_signals import StopSignals, forget_handlers

START_SECONDS = 60.0
CALM_SECONDS = 10.0  # a child that lived this long before it died is restarted at once
LOOK_SECONDS = 0.1
ANSWER_SECONDS = 2.0
"""How long the launcher waits for one answer of `/readyz`. Longer: a stop that arrives meanwhile waits as long."""
NOTICE_SECONDS = 5.0  # workers that take longer to start are compiling
END_LOOK_SECONDS = 0.02
LOWER_PRIORITY = 5  # training yields to the API when both want the processor
FAILED = 2  # beside 0 and 1, which are answers


@dataclass
class Child:
    """One of the processes, under its name in our messages."""

    name: str
    work: Callable[[], object]
    kept_fds: tuple[int, ...] = ()
    started_at: float = 0.0
    early_deaths: int = 0
    exit_code: int | None = None
    _pid: int | None = None
    _pipe: int | None = None
    """Our end of its standard input: never written to, and closed with our end."""

    def start(self) -> None:
        self.started_at, self.exit_code = time.monotonic(), None
        theirs, ours = os.pipe()
        self._pid = copy_process(f"hyperplane {self.name}", self._run, self.kept_fds, stdin=theirs)
        os.close(theirs)
        if self._pipe is not None:
            os.close(self._pipe)
        self._pipe = ours

    def _run(self) -> None:
        os.setsid()  # Ctrl-C is for the parent, which then tells its children in good order
        self.work()

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self._pid is not None and self.exit_code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self.exit_code = os.waitstatus_to_exitcode(status) if pid else None
        return self.exit_code

    def signal(self, number: int) -> None:
        if self._pid is not None and self.poll() is None:
            os.kill(self._pid, number)

    def wait(self, seconds: float) -> None:
        """Until it has ended; after so long it is killed."""
        deadline, is_killed = time.monotonic() + seconds, False
        while self._pid is not None and self.poll() is None:
            if time.monotonic() >= deadline and not is_killed:
                print(f"hyperplane: the {self.name} process did not stop in time; killing it", file=sys.stderr)
                self.signal(signal.SIGKILL)
                is_killed = True
            time.sleep(END_LOOK_SECONDS)

    def revive(self, stop: StopSignals) -> None:
        """Start again after an unexpected death, slower each time it dies young; not if a stop is asked meanwhile."""
        lived = time.monotonic() - self.started_at
        self.early_deaths = 0 if lived > CALM_SECONDS else self.early_deaths + 1
        if not stop.wait(min(5.0, 0.2 * 2**self.early_deaths) if self.early_deaths else 0.0):
            self.start()


def launch(settings: Settings) -> int:
    """Run the service until a signal ends it; returns the exit code."""
    try:
        sockets = bound_sockets(settings)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        print(f"hyperplane: cannot bind {settings.host}:{settings.port}: {reason}", file=sys.stderr)
        return 1
    stop = StopSignals()
    sign = WorkersReady()
    children = _children(settings, sockets, sign)
    try:
        has_key = _in_child(_prepare_database, settings, stop, meanwhile=_load)
        if stop.asked:
            return 0
        if not settings.bound_to_loopback and not has_key:
            print(
                f"hyperplane: refusing to bind {settings.host} without an API key: anybody could use the service.\n"
                "Make a key first:  hyperplane keys create --admin",
                file=sys.stderr,
            )
            return 2
        for child in children:
            if stop.asked:
                return 0
            child.start()
        if not _wait_until_ready(settings, children[0], stop):
            return 0 if stop.asked else 1
        _print_welcome(settings, has_key)
        _watch(children, stop, sign if settings.workers else None)
        return 0
    finally:
        for one in sockets:  # with the children's copies the last ones: who comes now is refused and does not wait
            one.close()
        _stop(children, settings.drain_seconds + 2.0)


def run_api(settings: Settings, listening: list[int], wake_fd: int | None, sign: WorkersReady | None) -> None:
    """One HTTP process on sockets that are bound; `sign` is that of the workers beside it."""
    start_forkserver(FOR_READING, copied=True)
    _follow_parent()

    from app.main import create_app
    from app.runtime.server import Server
    from app.web.context import context_of

    app = create_app(settings)
    context = context_of(app)
    context.workers = sign
    if wake_fd is not None:
        context.database.on_announced = waker(wake_fd)
    if not Server(app, settings).serve_until_stopped([socket.socket(fileno=fd) for fd in listening]):
        raise SystemExit(3)


def run_worker(
    settings: Settings, wake_fd: int | None = None, sign: WorkersReady | None = None, *, has_parent: bool = False
) -> None:
    resources.lower_priority(LOWER_PRIORITY)
    start_forkserver(FOR_TRAINING, copied=True)  # before the import below: if it loads something, both do, side by side
    if has_parent:
        _follow_parent()

    from app.worker.supervisor import Supervisor

    Supervisor(settings, wake_fd, sign).run()


def _follow_parent() -> None:
    """From now on, end like SIGTERM would once the parent is gone."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


def _load() -> None:
    """All that the children need, but for what they compile. Nothing of it may start a thread of Python's."""
    from numba.core.registry import cpu_target

    import app.datasets.reading.sandbox
    import app.main
    import app.runtime.server
    import app.worker.child
    import app.worker.supervisor  # noqa: F401

    cpu_target.typing_context.refresh()  # what numba knows of types and functions: else each forkserver would load it
    cpu_target.target_context.refresh()
    settle()


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
        with urllib.request.urlopen(url + path, timeout=ANSWER_SECONDS) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def base_url(settings: Settings) -> str:
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def _in_child(
    work: Callable[[Settings], bool], settings: Settings, stop: StopSignals, meanwhile: Callable[[], None]
) -> bool:
    """What the work returns, which is done by a child while we do something else; False if a stop is asked meanwhile.

    Raises SystemExit if it fails; it has said why.
    """
    pid = os.fork()  # there is no other thread yet
    if pid == 0:
        code = FAILED
        try:
            forget_handlers()
            code = int(work(settings))
        except SystemExit as refusal:
            print(refusal, file=sys.stderr)
        except Exception:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    meanwhile()
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if stop.wait(END_LOOK_SECONDS):  # a migration is one transaction: an end in the middle changes nothing
            os.kill(pid, signal.SIGTERM)
            time.sleep(END_LOOK_SECONDS)
    if stop.asked:
        return False
    code = os.waitstatus_to_exitcode(ended[1])
    if code not in (False, True):
        raise SystemExit(1)
    return bool(code)


def _prepare_database(settings: Settings) -> bool:
    """Bring the schema up to date and look at the store; returns whether an API key exists."""
    from app.db import Database
    from app.db.migrate import UnknownRevision, upgrade
    from app.db.outages import unreachable
    from app.errors import DatabaseUnavailable
    from app.keys import repository as keys
    from app.storage.identity import StoreIdentity

    database = Database(settings.resolved_database_url)
    try:
        upgrade(database)
    except UnknownRevision as error:
        raise SystemExit(f"hyperplane: {error}") from error
    except DatabaseUnavailable as error:
        raise SystemExit(unreachable(settings.resolved_database_url, error)) from error
    try:
        StoreIdentity(database, settings.data_dir).check()
    except OSError as error:  # it may come back: until then /readyz says so, and jobs wait
        print(f"hyperplane: not ready: {error.strerror}", file=sys.stderr)
    with database.read() as session:
        has_key = keys.any_active(session)
    database.close()
    return has_key


def _children(settings: Settings, sockets: list[socket.socket], sign: WorkersReady) -> list[Child]:
    fds = tuple(one.fileno() for one in sockets)
    if not settings.workers:
        serve = partial(run_api, settings, list(fds), None, None)
        return [Child("api", serve, fds) for _ in range(settings.processes)]
    # Ours stay open, so that a child that is started again has its end of the pipe again.
    receiving, sending = os.pipe()
    serve = partial(run_api, settings, list(fds), sending, sign)
    children = [Child("api", serve, (*fds, sending)) for _ in range(settings.processes)]
    work = partial(run_worker, settings, receiving, sign, has_parent=True)
    return [*children, Child("worker", work, (receiving,))]


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


def _wait_until_ready(settings: Settings, api: Child, stop: StopSignals) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while not stop.wait(LOOK_SECONDS):
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


def _watch(children: list[Child], stop: StopSignals, sign: WorkersReady | None) -> None:
    notice_at = time.monotonic() + NOTICE_SECONDS
    while not stop.wait(LOOK_SECONDS):
        if sign is not None and time.monotonic() >= notice_at:
            if not sign.ready:
                print("hyperplane: training kernels are being compiled, once; a job waits for its own", file=sys.stderr)
            sign = None
        for child in children:
            if (code := child.poll()) is not None:
                print(
                    f"hyperplane: the {child.name} process died (code {code}); starting it again",
                    file=sys.stderr,
                )
                child.revive(stop)


def _stop(children: list[Child], patience_seconds: float) -> None:
    deadline = time.monotonic() + patience_seconds
    for child in children:
        child.signal(signal.SIGTERM)
    for child in children:
        child.wait(deadline - time.monotonic())
