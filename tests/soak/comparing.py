"""The end of a soak: what the service holds, beside what the ledger says that it promised."""

from collections import Counter, defaultdict
from collections.abc import Iterator

import httpx
from sqlalchemy import func, select

from app.admin.integrity import verify_storage
from app.config import Settings
from app.db import Database
from app.db.engine import current_time
from app.db.tables import AliasChangeRow, DatasetRow, DeliveryRow, EventRow, JobRow, ModelRow, WebhookRow
from tests.soak.ledger import Imported, Ledger
from tests.support.receiver import Receiver

DEATHS = 3
"""A job fails as `worker_died`, and a file is given up, after this many deaths of the process that works on it."""
KILLS_OF_JOBS = ("kill training", "kill supervisor", "kill forkserver", "kill launcher", "fault sleep")
KILLS_OF_READERS = ("kill reader", "kill forkserver")
UNCERTAIN_SECONDS = 5.0
"""A job that ends within this of the creation of a webhook may have ended before it."""
FINAL_EVENTS = ("job.succeeded", "job.failed", "job.cancelled")


def stuck_jobs(database: Database, lease_seconds: float) -> list[str]:
    """Running jobs whose lease expired more than a lease time ago: a supervisor should have taken them back."""
    with database.read() as session:
        now = current_time(session)
        rows = session.execute(select(JobRow.id, JobRow.lease_expires_at).where(JobRow.status == "running")).all()
    return [row.id for row in rows if (now - row.lease_expires_at).total_seconds() > lease_seconds]


def waiting_deliveries(database: Database) -> int:
    """Messages that have not come through; those to deleted addresses are deleted too."""
    open_ones = select(func.count()).where(DeliveryRow.status.in_(("waiting", "sending")))
    with database.read() as session:
        return session.scalar(open_ones) or 0


def unread_datasets(database: Database) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).where(DatasetRow.status == "processing")) or 0


def compare_answers(ledger: Ledger, http: httpx.Client) -> None:
    """While the service still runs: every file that must be there is sent, and is what it has to be."""
    for job in ledger.with_output():
        answer = http.get(f"/v1/jobs/{job.id}/output")
        ledger.check_output(job, answer.status_code, answer.content)
    for model in ledger.imports.values():
        if model.id not in ledger.purge_asked:
            answer = http.get(f"/v1/models/{model.id}/weights")
            if answer.status_code != 200 or answer.json()["coef"] != model.coef:
                ledger.blame(f"{model}: its weights are {answer.status_code} {answer.text[:200]}")
            ledger.count("imports read back")


def compare(ledger: Ledger, database: Database, settings: Settings, receiver: Receiver) -> Iterator[str]:
    """Faults: differences between what was promised and what the database and the files hold, once all is quiet."""
    with database.read() as session:
        jobs = {row.id: row for row in session.scalars(select(JobRow))}
    yield from _jobs(ledger, database, jobs)
    yield from _datasets(ledger, database)
    yield from _imports(ledger, database)
    yield from _aliases(ledger, database)
    yield from _webhooks(ledger, database, receiver)
    report = verify_storage(settings)
    yield from (f"verify: {fault}" for fault in report.faults)


def _jobs(ledger: Ledger, database: Database, jobs: dict[str, JobRow]) -> Iterator[str]:
    with database.read() as session:
        models = session.execute(select(ModelRow.id, ModelRow.job_id).where(ModelRow.job_id.is_not(None))).all()
    asked = {job.id: job for job in ledger.jobs.values()}
    yield from (f"{job_id}: acknowledged, and lost" for job_id in asked.keys() - jobs.keys())
    yield from (f"{job_id}: exists, and no client asked for it" for job_id in jobs.keys() - asked.keys())
    yield from (f"{job_id}: {n} models" for job_id, n in Counter(row.job_id for row in models).items() if n > 1)
    model_of_job = {row.job_id: row.id for row in models}
    for job in jobs.values():
        yield from _job(job, model_of_job.get(job.id), ledger)
        if job.id in asked and (seen := ledger.done.get(job.id)) and seen["status"] != job.status:
            yield f"{job.id}: was {seen['status']}, and is {job.status}"
    died = ledger.counts["failed worker_died"]
    kills = sum(ledger.counts[what] for what in KILLS_OF_JOBS)
    if DEATHS * died > 2 * kills:  # a supervisor, or the service, takes both processes with it
        yield f"{died} jobs failed as worker_died after {kills} kills"


def _job(job: JobRow, model_id: str | None, ledger: Ledger) -> Iterator[str]:
    if job.status not in ("succeeded", "failed", "cancelled"):
        yield f"{job.id}: still {job.status}"
    if job.type == "train":
        if (job.status == "succeeded") != (model_id is not None) or (model_id or job.model_id) != job.model_id:
            yield f"{job.id}: {job.status}, its model is {job.model_id}, and there is {model_id}"
    elif model_id is not None:
        yield f"{job.id}: a {job.type} job with the model {model_id}"
    if job.status == "failed":
        code = (job.error or {}).get("code")
        ledger.count(f"failed {code}")
        if not _may_fail(job, code, ledger):
            yield f"{job.id}: failed with {job.error}"
    elif job.status == "cancelled" and job.id not in ledger.cancel_asked:
        yield f"{job.id}: cancelled, and no client asked for it"
    if job.status in ("succeeded", "cancelled"):
        ledger.count(f"jobs {job.status}")
    if job.attempt > 1:
        ledger.count("jobs tried again")


def _may_fail(job: JobRow, code: str | None, ledger: Ledger) -> bool:
    """Whether kills or clients explain it; a disk or a database that fails for seconds is waited for."""
    if code == "model_deleted":
        return job.model_id in ledger.purge_asked | ledger.hide_asked
    if code == "dataset_deleted":
        return job.dataset_id in ledger.delete_asked
    return code == "worker_died" and job.worker_deaths >= DEATHS


def _datasets(ledger: Ledger, database: Database) -> Iterator[str]:
    with database.read() as session:
        datasets = {row.id: row for row in session.scalars(select(DatasetRow))}
    for dataset_id, file in ledger.datasets.items():
        found = datasets.get(dataset_id)
        if found is None:
            if dataset_id not in ledger.delete_asked:
                yield f"{dataset_id}: acknowledged, and lost"
        elif dataset_id in ledger.deleted:
            yield f"{dataset_id}: its deletion was acknowledged, and it is here"
        elif found.error is not None and found.error["code"] == "parser_died":
            ledger.count("files given up after three kills of their readers")
        elif found.sha256 != file.sha256 or found.n_rows != file.rows:
            yield f"{dataset_id}: {found.status} {found.error}, {found.n_rows} rows; {file} was sent"
    died = ledger.counts["files given up after three kills of their readers"]
    kills = sum(ledger.counts[what] for what in KILLS_OF_READERS)
    if DEATHS * died > 2 * kills:  # a forkserver takes both of its readers with it
        yield f"{died} files were given up after {kills} kills"
    for dataset_id in datasets.keys() - ledger.datasets.keys():
        yield f"{dataset_id}: exists, and no client was answered with it"


def _imports(ledger: Ledger, database: Database) -> Iterator[str]:
    with database.read() as session:
        found = {row.id: row for row in session.scalars(select(ModelRow).where(ModelRow.job_id.is_(None)))}
    asked: dict[str, Imported] = {model.id: model for model in ledger.imports.values()}
    yield from (f"{model_id}: acknowledged, and lost" for model_id in asked.keys() - found.keys())
    yield from (f"{model_id}: exists, and no client was answered with it" for model_id in found.keys() - asked.keys())
    for model_id in asked.keys() & found.keys():
        row = found[model_id]
        if row.purged_at is not None and model_id not in ledger.purge_asked:
            yield f"{model_id}: purged, and no client asked for it"
        if row.purged_at is None and model_id in ledger.purged:
            yield f"{model_id}: its purge was acknowledged, and its bytes are here"
        if row.deleted_at is not None and model_id not in ledger.purge_asked:
            yield f"{model_id}: deleted; it was restored, or no client asked for it"
    if len(asked) != len(ledger.imports):
        yield f"{len(ledger.imports)} imports were acknowledged as {len(asked)} models"


def _aliases(ledger: Ledger, database: Database) -> Iterator[str]:
    with database.read() as session:
        rows = session.scalars(select(AliasChangeRow)).all()
    Change = tuple[int, tuple[tuple[int, float], ...] | None, int | None]
    stored: dict[str, list[Change]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.revision):
        targets = None if row.targets is None else tuple((one["version"], one["weight"]) for one in row.targets)
        stored[f"{row.name}@{row.alias}"].append((row.revision, targets, row.shadow))
    promised: dict[str, list[Change]] = defaultdict(list)
    for one in ledger.alias_changes:
        promised[f"{one.name}@{one.alias}"].append((one.revision, one.targets, one.shadow))
    for name in stored.keys() | promised.keys():
        if stored[name] != promised[name]:
            wrong = [pair for pair in zip(stored[name], promised[name], strict=False) if pair[0] != pair[1]]
            yield f"{name}: {len(stored[name])} changes, {len(promised[name])} acknowledged; differ: {wrong[:3]}"


def _webhooks(ledger: Ledger, database: Database, receiver: Receiver) -> Iterator[str]:
    """Each end of a job reached each address that wanted it, as one message."""
    with database.read() as session:
        events = session.execute(
            select(EventRow.id, EventRow.job_id, EventRow.created_at).where(EventRow.type.in_(FINAL_EVENTS))
        ).all()
        webhooks = {row.id: row for row in session.scalars(select(WebhookRow))}
    received: dict[str, Counter[str]] = defaultdict(Counter)
    for message in list(receiver.messages):
        received[message.path][message.id] += 1
    for path, one in ledger.subscriptions.items():
        if one.id in ledger.unsubscribed:
            continue
        row = webhooks.get(one.id)
        if row is None:
            yield f"{one.id}: acknowledged, and lost"
            continue
        for event in events:
            age = (event.created_at - row.created_at).total_seconds()
            wanted = age > UNCERTAIN_SECONDS if one.job_id is None else event.job_id == one.job_id
            if wanted and event.id not in received[path]:
                yield f"{one.id}: never received {event.id}, the end of {event.job_id}"
            ledger.counts["webhook messages that had to arrive"] += wanted
        ledger.counts["webhook messages that arrived again"] += sum(received[path].values()) - len(received[path])
        if row.disabled_at is not None:
            yield f"{one.id}: disabled"
    ends = Counter(event.job_id for event in events)
    yield from (f"{job_id}: ended {n} times" for job_id, n in ends.items() if n > 1)
