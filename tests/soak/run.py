"""One soak: a service, clients, faults at random moments, and at the end the comparison with the ledger."""

import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
from standardwebhooks import WebhookVerificationError

from app.config import Settings
from app.db import Database
from app.errors import DatabaseUnavailable
from tests.soak.clients import Client
from tests.soak.comparing import compare, compare_answers, stuck_jobs, unread_datasets, waiting_deliveries
from tests.soak.faults import Faults, small_disk
from tests.soak.ledger import Ledger
from tests.support.postgres import PrivateServer, fresh_database, private_server
from tests.support.receiver import Message, Receiver, receiving
from tests.support.serving import Service, children_of, command_line, wait_until

CLIENTS = 3
WORKERS = 2
PROCESSES = 2
LEASE_SECONDS = 3.0
SETTINGS = {
    "processes": PROCESSES,
    "lease_seconds": LEASE_SECONDS,
    "heartbeat_seconds": 0.5,
    "drain_seconds": 6.0,
    "checkpoint_seconds": 0.5,
    "free_space_bytes": 0,  # the disk may be a small one
    "webhook_allow_private": True,  # the receiver is on this machine
    "webhook_timeout_seconds": 2.0,
    "webhook_retry_seconds": 0.5,
    "max_webhooks": 1000,
}
RECEIVER_FAILS = 0.1
"""Share of the webhook messages to which the receiver answers 503."""
ANSWERS, ANSWERS_SECONDS = 5, 15.0
"""Answers between two faults, and how long they are waited for."""
WORK_SECONDS = 60.0
PROGRESS_SECONDS = 60.0
"""How often to print the kills so far."""
enough = threading.Event()
"""Set: no further fault; what was promised is compared as at the end of a plan."""
CALM_SECONDS = 180.0
"""How long the service has, once nothing fails any more, to end all that was queued."""


@dataclass(frozen=True)
class Plan:
    """How long the soak runs: for this many seconds, or until this many faults or kills."""

    seed: int
    seconds: float
    most_faults: int | None = None
    most_kills: int | None = None
    faults: tuple[str, ...] | None = None
    """What to draw from; None: all that this machine lets us do."""
    pause_seconds: tuple[float, float] = (0.1, 1.5)
    lets_work: bool = False
    """Whether a job must have been acknowledged between two faults; if not, a fault may meet a service that starts."""


def kills(ledger: Ledger) -> int:
    return sum(count for what, count in ledger.counts.items() if what.startswith("kill "))


def soak(plan: Plan, folder: Path, database_url: str, server: PrivateServer | None) -> Ledger:
    """Run a plan; the ledger's faults are what went wrong that must not."""
    ledger = Ledger()
    data_dir = folder / "data"
    data_dir.mkdir()
    service = Service(data_dir, database_url, workers=WORKERS, log_dir=folder.parent, **SETTINGS)
    service.start()
    settings = Settings(data_dir=data_dir, database_url=database_url)
    database = Database(settings.resolved_database_url)
    over = threading.Event()
    with receiving() as receiver:
        receiver.answer = _answering(ledger, random.Random(plan.seed))
        clients = [
            Client(service.url, ledger, f"{plan.seed}/{number}", number, over, receiver) for number in range(CLIENTS)
        ]
        try:
            chance = random.Random(plan.seed)
            _break_things(plan, ledger, Faults(service, ledger, LEASE_SECONDS, server, chance), chance)
            over.set()
            _calm_down(service, clients, ledger, database, receiver)
        except (AssertionError, httpx.HTTPError) as error:
            ledger.blame(f"the soak ended early: {str(error)[:2000]}; {_state(service)}")
        finally:
            over.set()
            for client in clients:
                client.give_up()
            if service.process is not None and service.process.poll() is None:
                seconds = service.stop()
                if seconds > 10:
                    ledger.blame(f"the service took {seconds:.1f} s to stop")
            service.http.close()
        ledger.faults += compare(ledger, database, settings, receiver)
    database.close()
    if ledger.faults:
        kept = Path(tempfile.gettempdir()) / f"hyperplane-soak-seed-{plan.seed}-{database.url.get_backend_name()}.log"
        shutil.copy(service.log_file, kept)
        ledger.faults.append(f"the service's log is kept: {kept}")
    return ledger


def _state(service: Service) -> str:
    """What the service says of itself, and its processes."""
    try:
        ready = service.http.get("/readyz", timeout=5).text
    except httpx.HTTPError as error:
        ready = repr(error)
    pids = [] if service.process is None else [service.process.pid, *children_of(service.process.pid)]
    states = (f"{pid} {command_line(pid)} in {_waiting_in(pid)}" for pid in pids)
    return f"/readyz: {ready}; processes: {'; '.join(states)}"


def _waiting_in(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return "?"


def _answering(ledger: Ledger, chance: random.Random) -> Callable[[Message], int]:
    """What the receiver of webhooks answers: now and then that it cannot, and only to a signature that is right."""

    def answer(message: Message) -> int:
        subscription = ledger.subscriptions.get(message.path)
        if subscription is None or chance.random() < RECEIVER_FAILS:
            return 503  # the client does not know the secret yet: it comes again
        try:
            message.verified(subscription.secret)
        except WebhookVerificationError as error:
            ledger.blame(f"a message to {message.path} has a bad signature: {error}: {message}")
        return 204

    return answer


def _break_things(plan: Plan, ledger: Ledger, faults: Faults, chance: random.Random) -> None:
    began = time.monotonic()
    deadline, shown_at = began + plan.seconds, began
    happened, spent = 0, Counter[str]()
    possible = faults.possible() if plan.faults is None else dict.fromkeys(plan.faults, 1.0)
    while time.monotonic() < deadline and not enough.is_set():
        if time.monotonic() > shown_at + PROGRESS_SECONDS:
            shown_at = time.monotonic()
            print(f"  {shown_at - began:5.0f} s: {kills(ledger)} kills, {len(ledger.faults)} broken", flush=True)
            print(f"          {', '.join(f'{name} {seconds:.0f} s' for name, seconds in spent.most_common(5))}")
        if happened == plan.most_faults or (plan.most_kills is not None and kills(ledger) >= plan.most_kills):
            return
        waits_from = time.monotonic()
        if plan.lets_work:
            before = ledger.counts["submitted"]
            wait_until(lambda before=before: ledger.counts["submitted"] > before, WORK_SECONDS, "a job to be taken")  # type: ignore[misc]
        elif plan.most_faults is None:
            _wait_for_answers(ledger)
        spent["waiting"] += time.monotonic() - waits_from
        time.sleep(chance.uniform(*plan.pause_seconds))
        (name,) = chance.choices(list(possible), weights=list(possible.values()))
        ledger.count(f"fault {name}")  # before: what clients see of it may come first
        breaks_from = time.monotonic()
        getattr(faults, name)()
        spent[name] += time.monotonic() - breaks_from
        happened += 1


def _wait_for_answers(ledger: Ledger) -> None:
    """A service that is not there cannot break a promise: let it answer a little first, but not for ever."""
    wanted, deadline = ledger.counts["answered 2xx"] + ANSWERS, time.monotonic() + ANSWERS_SECONDS
    while ledger.counts["answered 2xx"] < wanted and time.monotonic() < deadline:
        time.sleep(0.02)


def _calm_down(service: Service, clients: list[Client], ledger: Ledger, database: Database, receiver: Receiver) -> None:
    """Nothing fails any more: everything that was promised must come to its end."""
    deadline = time.monotonic() + CALM_SECONDS
    for client in clients:
        client.join(max(0.0, deadline - time.monotonic()))
    wait_until(lambda: _is_at_work(service), CALM_SECONDS, "a supervisor with its processes")
    settled_at = time.monotonic() + 2 * LEASE_SECONDS
    unfinished = {job.id: job for job in ledger.jobs.values()}
    while unfinished and time.monotonic() < deadline:
        for job in list(unfinished.values()):
            try:
                shown = service.http.get(f"/v1/jobs/{job.id}").json()
                if shown["status"] == "paused":
                    service.http.post(f"/v1/jobs/{job.id}/resume")
                elif shown["done"]:
                    ledger.end(job, shown)
                    del unfinished[job.id]
            except (httpx.TransportError, KeyError, ValueError):
                break
        if time.monotonic() > settled_at and (stuck := stuck_jobs(database, LEASE_SECONDS)):
            ledger.blame(f"stuck over two leases: {stuck}")
            break
        time.sleep(0.2)
    for what, left in (("files to be read", unread_datasets), ("messages to be delivered", waiting_deliveries)):
        try:
            wait_until(lambda left=left: left(database) == 0, CALM_SECONDS, what)  # type: ignore[misc]
        except (AssertionError, DatabaseUnavailable) as error:
            ledger.blame(f"{error}: {left(database)} are left")
    compare_answers(ledger, service.http)


def _is_at_work(service: Service) -> bool:
    try:
        return len(service.training_processes()) == WORKERS
    except StopIteration:
        return False


def soak_sqlite(plan: Plan) -> Ledger:
    with tempfile.TemporaryDirectory(prefix="hyperplane-soak-") as parent:
        return _on_small_disk(plan, Path(parent), None, None)


def soak_postgresql(plan: Plan) -> Ledger:
    with (
        tempfile.TemporaryDirectory(prefix="hyperplane-soak-") as parent,
        private_server() as server,
        fresh_database(server.url) as url,
    ):
        return _on_small_disk(plan, Path(parent), url, server)


def _on_small_disk(plan: Plan, parent: Path, url: str | None, server: PrivateServer | None) -> Ledger:
    disk = parent / "disk"
    disk.mkdir()
    with ExitStack() as stack:
        if plan.faults is None:
            stack.enter_context(small_disk(disk))
        # Beside the data folder, which is taken away now and then.
        return soak(plan, disk, url or f"sqlite:///{disk / 'soak.sqlite3'}", server)
