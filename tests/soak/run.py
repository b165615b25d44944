"""One soak: a service, clients, faults at random moments, and at the end the comparison with the ledger."""

import random
import shutil
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx

from app.config import Settings
from app.db import Database
from tests.soak.clients import Client
from tests.soak.faults import Faults, small_disk
from tests.soak.ledger import Ledger, compare, stuck_jobs
from tests.support.postgres import PrivateServer, fresh_database, private_server
from tests.support.serving import Service, wait_until

CLIENTS = 3
WORKERS = 2
LEASE_SECONDS = 3.0
SETTINGS = {
    "lease_seconds": LEASE_SECONDS,
    "heartbeat_seconds": 0.5,
    "drain_seconds": 6.0,
    "free_space_bytes": 0,  # the disk may be a small one
}
WORK_SECONDS = 60.0
CALM_SECONDS = 180.0
"""How long the service has, once nothing fails any more, to end all that was queued."""


@dataclass(frozen=True)
class Plan:
    """What is to happen: for so many seconds, or until there were so many faults."""

    seed: int
    seconds: float
    most_faults: int | None = None
    faults: tuple[str, ...] | None = None
    """What to draw from; None: all that this machine lets us do."""
    pause_seconds: tuple[float, float] = (0.2, 3.0)
    lets_work: bool = False
    """Whether a job must have been acknowledged between two faults; if not, a fault may meet a service that starts."""


def soak(plan: Plan, folder: Path, database_url: str | None, server: PrivateServer | None) -> Ledger:
    """Run a plan; the ledger's faults are what went wrong that must not."""
    ledger = Ledger()
    data_dir = folder / "data"
    data_dir.mkdir()
    service = Service(data_dir, database_url, workers=WORKERS, log_dir=folder.parent, **SETTINGS)
    service.start()
    settings = Settings(data_dir=data_dir, database_url=database_url or "")
    over = threading.Event()
    clients = [Client(service.url, ledger, f"{plan.seed}/{number}", over) for number in range(CLIENTS)]
    try:
        _break_things(plan, ledger, Faults(service, ledger, LEASE_SECONDS, server))
        over.set()
        _calm_down(service, clients, ledger, settings)
    finally:
        over.set()
        for client in clients:
            client.give_up()
        if service.process is not None and service.process.poll() is None:
            seconds = service.stop()
            if seconds > 10:
                ledger.blame(f"the service took {seconds:.1f} s to stop")
        service.http.close()
    database = Database(settings.resolved_database_url)
    ledger.faults += compare(ledger, database, settings)
    database.close()
    if ledger.faults:
        kept = Path(tempfile.gettempdir()) / f"hyperplane-soak-seed-{plan.seed}.log"
        shutil.copy(service.log_file, kept)
        ledger.faults.append(f"the service's log is kept: {kept}")
    return ledger


def _break_things(plan: Plan, ledger: Ledger, faults: Faults) -> None:
    chance = random.Random(plan.seed)
    deadline = time.monotonic() + plan.seconds
    happened = 0
    while time.monotonic() < deadline and (plan.most_faults is None or happened < plan.most_faults):
        if plan.lets_work:
            before = ledger.counts["submitted"]
            wait_until(lambda before=before: ledger.counts["submitted"] > before, WORK_SECONDS, "a job to be taken")  # type: ignore[misc]
        time.sleep(chance.uniform(*plan.pause_seconds))
        name = chance.choice(plan.faults or faults.possible())
        getattr(faults, name)()
        ledger.count(f"fault {name}")
        happened += 1


def _calm_down(service: Service, clients: list[Client], ledger: Ledger, settings: Settings) -> None:
    """Nothing fails any more: everything that was promised must come to its end."""
    database = Database(settings.resolved_database_url)
    deadline = time.monotonic() + CALM_SECONDS
    for client in clients:
        client.join(max(0.0, deadline - time.monotonic()))
    wait_until(lambda: _is_at_work(service), CALM_SECONDS, "a supervisor with its processes")
    settled_at = time.monotonic() + 2 * LEASE_SECONDS
    unfinished = set(ledger.jobs.values())
    while unfinished and time.monotonic() < deadline:
        for job_id in list(unfinished):
            try:
                job = service.http.get(f"/v1/jobs/{job_id}").json()
                if job["status"] == "paused":
                    service.http.post(f"/v1/jobs/{job_id}/resume")
                elif job["done"]:
                    unfinished.discard(job_id)
            except (httpx.TransportError, KeyError, ValueError):
                break
        if time.monotonic() > settled_at and (stuck := stuck_jobs(database, LEASE_SECONDS)):
            ledger.blame(f"stuck over two leases: {stuck}")
            break
        time.sleep(0.2)
    database.close()


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
        return soak(plan, disk, url, server)
