"""Runs a race: several solvers on the rows of one training; the first to reach `tol` makes the model.

Folds are trained after the race, by the winner. A race has no checkpoint: a later attempt starts it again.
"""

import time
from dataclasses import replace

from app.jobs import lease, queue
from app.jobs.repository import Claim
from app.jobs.schemas import AUTO
from app.jobs.types.race_request import RaceRequest
from app.worker.race import Race
from app.worker.train.checkpoints import NoCheckpoints
from app.worker.train.cross_validation import choose_folds, cross_validate
from app.worker.train.load import load_training
from app.worker.train.prepare import prepare
from app.worker.train.progress import Progress
from app.worker.train.starting_weights import starting_weights
from app.worker.train.store_model import Trained, store_model
from app.worker.train.trainer import Trainer
from app.worker.tune.chosen_c import settled
from app.worker.worker_context import JobWork, StopAsked, WorkerContext


def run(context: WorkerContext, claim: Claim, stop_reason: StopAsked) -> None:
    started = time.perf_counter()
    with context.database.read() as session:
        job = lease.load(session, claim)
    if job.attempt > 1:
        with context.database.write() as session:
            queue.tell(session, claim, "job.restarted", {"reason": "a race has no checkpoint"})
    trainings = RaceRequest.model_validate(job.spec).trainings()
    work = load_training(context.database, context.blobs, job, trainings[0])
    folds = choose_folds(work)
    n_folds = 0 if folds is None else 1 + int(folds.max())
    is_searched = work.request.C == AUTO
    progress = Progress(context.database, claim, work.request.tol, 1.0 / (1 + n_folds) if n_folds else 0.0)
    trainer = Trainer(work, context.threads, n_folds + is_searched, progress, NoCheckpoints(), stop_reason)
    work, tuning = settled(work, trainer, context.threads, stop_reason)
    trainings = [one.model_copy(update={"C": work.request.C}) for one in trainings]
    prepared, limit = prepare(work), work.request.stop.seconds
    left = None if limit is None else max(limit - trainer.seconds_before, 1e-3)
    race = Race(
        context,
        claim,
        prepared,
        trainings,
        stop_reason,
        max_seconds=None if left is None else left / (1 + n_folds),
        share_of_job=1.0 / (1 + n_folds),
    )
    winner = race.run(starting_weights(context, prepared))
    result = winner.result
    assert result is not None
    validation = None
    if folds is not None:
        trainer.settle(winner.work.request)
        trainer.seconds_before += result.seconds
        validation = cross_validate(replace(work, request=winner.work.request), folds, trainer)
    told = {} if tuning is None else {"tuning": tuning}
    said = {**told, "winner": winner.name, "race": race.reports()}
    store_model(context, claim, stop_reason, Trained(winner.work, result, validation, started, told, said), race)


WORK = JobWork("race", run)
