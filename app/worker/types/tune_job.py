"""Runs a tuning job: search, train the model of the best values, store both."""

import time
from dataclasses import replace
from typing import Any

from app.jobs import lease, queue
from app.jobs.repository import Claim
from app.jobs.types.tune_request import TuneRequest
from app.storage import ownership
from app.storage.ownership import reclaim
from app.worker.patience import insist
from app.worker.train.checkpoints import Checkpoints
from app.worker.train.cross_validation import Validation
from app.worker.train.load import Work
from app.worker.train.prepare import prepare
from app.worker.train.progress import Progress
from app.worker.train.store_model import Trained, store_model
from app.worker.train.trainer import Trainer
from app.worker.tune.path_table import path_table, trainer_of
from app.worker.tune.search import Found, Search, load_search
from app.worker.worker_context import JobWork, StopAsked, WorkerContext

SEARCH_PARTS = 9
"""Weight of the search in the job's progress; the training of the model has weight 1. Set by hand; no measurement is
recorded."""
OF_MODEL = ("metric", "rule", "best", "certificate", "reason", "outer", "folds", "finished", "seconds")
"""Fields of the search's report that the model's card keeps."""


def run(context: WorkerContext, claim: Claim, stop_reason: StopAsked) -> None:
    started = time.perf_counter()
    request, work = _load(context, claim)
    progress = Progress(context.database, claim, request.tol, work.job.progress)
    trainer = Trainer(
        work, context.threads, SEARCH_PARTS + 1, progress, Checkpoints(context, claim, work), _in_refit(stop_reason)
    )
    search = Search(context, claim, request, work, stop_reason)
    if (note := trainer.recall(SEARCH_PARTS)) is not None:
        found = Found(note.report, note.scores)
    else:
        found = search.run()
        trainer.count(found.note, SEARCH_PARTS, found.seconds)
    if not request.refit:
        _end(context, claim, stop_reason, found)
        return
    work = prepare(replace(work, request=search.spec(found.variant, found.C)))
    result = trainer.train(work.train, model_of=work)
    train = trainer_of(trainer.arguments(work.train), work.train.X, work.train.y, stop_reason, found.seconds)
    trained = Trained(
        work,
        result,
        Validation(None, found.held_out_scores),
        started - trainer.seconds_before,
        of_card={"tuning": {name: found.report[name] for name in OF_MODEL}},
        of_result=found.report,
        files={"path": path_table(found.report, work, result, train)},
    )
    store_model(context, claim, stop_reason, trained, progress)


def _load(context: WorkerContext, claim: Claim) -> tuple[TuneRequest, Work]:
    with context.database.read() as session:
        job = lease.load(session, claim)
    request = TuneRequest.model_validate(job.spec)
    return request, load_search(context.database, context.blobs, job, request)


def _in_refit(stop_reason: StopAsked) -> StopAsked:
    """Ignore `finish` while the model is trained: it ends the search, not the training with the best values."""

    def reason() -> Any:
        return None if (found := stop_reason()) == "finish" else found

    return reason


def _end(context: WorkerContext, claim: Claim, stop_reason: StopAsked, found: Found) -> None:
    """End the job without a model."""
    content = path_table(found.report, None, None, lambda C, start: None)

    def commit() -> None:
        sha256 = context.blobs.put(content)
        with context.database.write() as session:
            outcome = {**found.report, "path": {"sha256": sha256, "bytes": len(content)}}
            unneeded = queue.succeed(session, claim, None, outcome)
            rewrites = {sha256: lambda: context.blobs.put(content)}
            ownership.own(session, context.blobs, claim.job_id, {sha256: len(content)}, rewrites)
        reclaim(context.database, context.blobs, unneeded)

    insist(claim, context.storage_patience_seconds, stop_reason, commit)


WORK = JobWork("tune", run)
