"""`hyperplane serve`: a parent process that starts the API processes and the worker, and restarts them when they die.

The parent imports all libraries once and forks its children, so that they share the memory. The parent binds the
sockets and keeps them open. While an API process restarts, new connections wait or go to another API process; none is
refused.

The standard input of each child is a pipe from the parent. When the parent ends, for whatever reason, the pipe closes,
and the child stops as on SIGTERM.
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
"""Seconds to wait for `/readyz` after the start. Then the launcher prints a message and keeps its children running.
Larger: a failing start is reported later. Set by hand."""
CALM_SECONDS = 10.0
"""Age in seconds below which the death of a child counts as early. Early deaths delay the restart, by at most 5 s.
Larger: more deaths delay the restart. Set by hand."""
MOST_KILLS_AT_START = 3
"""Number of times that the first API process can be killed by a signal before it is ready. The launcher gives up after
the next kill. Larger: a process that always crashes during its start is reported later. Set by hand."""
LOOK_SECONDS = 0.1
"""Seconds between two checks of the children. Larger: a dead child is restarted later. Set by hand."""
ANSWER_SECONDS = 2.0
"""Timeout in seconds of a request to `/readyz`. Larger: a stop signal meanwhile is handled later. Set by hand."""
NOTICE_SECONDS = 5.0
"""Seconds until a message says that workers are compiling kernels. Larger: a later message. Set by hand."""
END_LOOK_SECONDS = 0.02
"""Seconds between two checks of a child that is stopping. Larger: a stop takes longer. Set by hand."""
LOWER_PRIORITY = 5
"""Niceness of the worker processes. Larger: training yields the CPU to the API more often. Set by hand."""
FAILED = 2
"""Exit code of a helper process that failed. The exit codes 0 and 1 are its results False and True."""


@dataclass
class Child:
    """A child process, and the name under which messages mention it."""

    name: str
    work: Callable[[], object]
    kept_fds: tuple[int, ...] = ()
    started_at: float = 0.0
    early_deaths: int = 0
    restart_at: float | None = None
    """Time of the restart after the process died; None while it runs."""
    exit_code: int | None = None
    _pid: int | None = None
    _pipe: int | None = None
    """The parent's end of the child's standard input. Nothing is written to it. It closes when the parent ends."""

    def start(self) -> None:
        self.started_at, self.exit_code, self.restart_at = time.monotonic(), None, None
        theirs, ours = os.pipe()
        self._pid = copy_process(f"hyperplane {self.name}", self._run, self.kept_fds, stdin=theirs)
        os.close(theirs)
        if self._pipe is not None:
            os.close(self._pipe)
        self._pipe = ours

    def _run(self) -> None:
        os.setsid()  # Ctrl-C then signals only the parent, which stops its children in order
        self.work()

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        if self._pid is not None and self.exit_code is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self.exit_code = os.waitstatus_to_exitcode(status) if pid else None
        return self.exit_code

    def signal(self, number: int) -> None:
        if self._pid is not None and self.poll() is None:
            os.kill(self._pid, number)

    def wait(self, seconds: float) -> None:
        """Wait until the process has ended. Kill it after `seconds`."""
        deadline, is_killed = time.monotonic() + seconds, False
        while self._pid is not None and self.poll() is None:
            if time.monotonic() >= deadline and not is_killed:
                print(f"hyperplane: the {self.name} process did not stop in time; killing it", file=sys.stderr)
                self.signal(signal.SIGKILL)
                is_killed = True
            time.sleep(END_LOOK_SECONDS)

    def revive(self) -> None:
        """Restart the process if it has died, after a growing delay if it died early. Does not block."""
        if (code := self.poll()) is None:
            return
        if self.restart_at is None:
            print(f"hyperplane: the {self.name} process died (exit code {code}); restarting it", file=sys.stderr)
            lived = time.monotonic() - self.started_at
            self.early_deaths = 0 if lived > CALM_SECONDS else self.early_deaths + 1
            self.restart_at = time.monotonic() + (min(5.0, 0.2 * 2**self.early_deaths) if self.early_deaths else 0.0)
        if time.monotonic() >= self.restart_at:
            self.start()


def launch(settings: Settings) -> int:
    """Run the service until a stop signal. Returns the exit code."""
    try:
        sockets = bound_sockets(settings)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        print(
            f"hyperplane: cannot bind {settings.host}:{settings.port}: {reason}. "
            "Choose another address with --host or --port.",
            file=sys.stderr,
        )
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
                f"hyperplane: refusing to bind {settings.host} without an API key: everyone could use the service.\n"
                "Create a key first:  hyperplane keys create --admin",
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
        for one in sockets:  # from now on, new connections are refused and do not wait
            one.close()
        _stop(children, settings.drain_seconds + 2.0)


def run_api(settings: Settings, listening: list[int], wake_fd: int | None, sign: WorkersReady | None) -> None:
    """Run an API process on bound sockets. `sign` is the readiness flag of the worker; None without a worker."""
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
    """Run the worker process: its supervisor claims jobs and runs them in child processes."""
    resources.lower_priority(LOWER_PRIORITY)
    start_forkserver(FOR_TRAINING, copied=True)  # started before the import below, so that both import in parallel
    if has_parent:
        _follow_parent()

    from app.worker.supervisor import Supervisor

    Supervisor(settings, wake_fd, sign).run()


def _follow_parent() -> None:
    """Start a thread that sends this process SIGTERM when the parent has ended."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


def _load() -> None:
    """Import everything that the children need, except compiled kernels. Must not start a thread, because a fork
    follows."""
    from numba.core.registry import cpu_target

    import app.datasets.reading.sandbox
    import app.main
    import app.runtime.server
    import app.worker.child
    import app.worker.supervisor  # noqa: F401

    cpu_target.typing_context.refresh()  # numba's type registries, which each forkserver would load again
    cpu_target.target_context.refresh()
    settle()


def waker(wake_fd: int) -> Callable[[], None]:
    """Return a function that wakes the worker at the read end of the pipe."""
    os.set_blocking(wake_fd, False)
    os.set_inheritable(wake_fd, False)

    def wake() -> None:
        with suppress(OSError):  # the pipe is full or has no reader; the worker polls the queue anyway
            os.write(wake_fd, b"!")

    return wake


def server_answers(url: str, path: str = "/readyz") -> bool:
    """Return whether a server at this URL responds with 200."""
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
    """Run `work` in a child process and `meanwhile` in this one. Returns the result of `work`, or False after a stop
    signal.

    Raises SystemExit if `work` fails, which has then printed the reason.
    """
    pid = os.fork()  # safe, because there is no other thread yet
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
        if stop.wait(END_LOOK_SECONDS):  # a migration is one transaction, so stopping it changes nothing
            os.kill(pid, signal.SIGTERM)
            time.sleep(END_LOOK_SECONDS)
    if stop.asked:
        return False
    code = os.waitstatus_to_exitcode(ended[1])
    if code not in (False, True):
        raise SystemExit(1)
    return bool(code)


def _prepare_database(settings: Settings) -> bool:
    """Migrate the schema and check the data folder. Returns whether an API key exists."""
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
    except OSError as error:  # the storage can come back; until then /readyz responds with 503, and jobs wait
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
    # The parent keeps both ends open, so that a restarted child gets its end again.
    receiving, sending = os.pipe()
    serve = partial(run_api, settings, list(fds), sending, sign)
    children = [Child("api", serve, (*fds, sending)) for _ in range(settings.processes)]
    work = partial(run_worker, settings, receiving, sign, has_parent=True)
    return [*children, Child("worker", work, (receiving,))]


def bound_sockets(settings: Settings) -> list[socket.socket]:
    """Bind a socket for each address of the host. The first API process makes the sockets listen."""
    found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    unusable: OSError | None = None
    for family, kind, protocol, _, address in dict.fromkeys(found):
        try:
            one = socket.socket(family, kind, protocol)
        except OSError as error:  # this machine does not support the address family
            unusable = error
            continue
        sockets.append(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            one.bind(address)
        except OSError as error:
            sockets.pop().close()
            unusable = error
            if error.errno != errno.EADDRNOTAVAIL:
                for bound in sockets:
                    bound.close()
                raise
    if not sockets and unusable is not None:
        raise unusable
    return sockets


def _wait_until_ready(settings: Settings, api: Child, stop: StopSignals) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while not stop.wait(LOOK_SECONDS):
        code = api.poll()
        if code is not None and (code >= 0 or (api.restart_at is None and api.early_deaths >= MOST_KILLS_AT_START)):
            print(f"hyperplane: the API process ended during its start (exit code {code})", file=sys.stderr)
            return False
        api.revive()  # killed by a signal, perhaps just after it became ready: an error of its own has an exit code
        if server_answers(base_url(settings)):
            return True
        if time.monotonic() > deadline:
            print(
                f"hyperplane: not ready after {START_SECONDS:.0f} s; {base_url(settings)}/readyz shows why",
                file=sys.stderr,
            )
            return True
    return False


def _print_welcome(settings: Settings, has_key: bool) -> None:
    """Print the address of the service, and a command that trains a model."""
    url = base_url(settings)
    key = "HYPERPLANE_API_KEY=… " if has_key else ""
    command = os.path.relpath(sys.argv[0]) if os.sep in sys.argv[0] else "hyperplane"
    print(
        f"Hyperplane is ready: {url}\n"
        f"API documentation:   {url}/docs\n"
        f"Data folder:         {settings.data_dir.resolve()}\n"
        "\n"
        "Train a model in another shell and see its certificate:\n"
        f"    {key}{command} demo --url {url}\n"
        "\n"
        "Ctrl-C stops the service.",
        flush=True,
    )


def _watch(children: list[Child], stop: StopSignals, sign: WorkersReady | None) -> None:
    notice_at = time.monotonic() + NOTICE_SECONDS
    while not stop.wait(LOOK_SECONDS):
        if sign is not None and time.monotonic() >= notice_at:
            if not sign.ready:
                message = "compiling training kernels (only once); a job waits only for the kernels that it needs"
                print(f"hyperplane: {message}", file=sys.stderr)
            sign = None
        for child in children:
            child.revive()


def _stop(children: list[Child], patience_seconds: float) -> None:
    deadline = time.monotonic() + patience_seconds
    for child in children:
        child.signal(signal.SIGTERM)
    for child in children:
        child.wait(deadline - time.monotonic())
