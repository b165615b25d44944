"""Runs a training job: load, choose C, cross-validate, train, store the model."""

import time

from app.jobs.repository import Claim
from app.jobs.schemas import AUTO
from app.worker.train.checkpoints import Checkpoints
from app.worker.train.cross_validation import choose_folds, cross_validate
from app.worker.train.load import load
from app.worker.train.prepare import prepare
from app.worker.train.progress import Progress
from app.worker.train.starting_weights import starting_weights
from app.worker.train.store_model import Trained, store_model
from app.worker.train.trainer import Trainer
from app.worker.tune.chosen_c import settled
from app.worker.worker_context import JobWork, StopAsked, WorkerContext


def run(context: WorkerContext, claim: Claim, stop_reason: StopAsked) -> None:
    started = time.perf_counter()
    work = load(context.database, context.blobs, claim)
    folds = choose_folds(work)
    progress = Progress(context.database, claim, work.request.tol, work.job.progress)
    trainings = (1 if folds is None else 2 + int(folds.max())) + (work.request.C == AUTO)
    trainer = Trainer(work, context.threads, trainings, progress, Checkpoints(context, claim, work), stop_reason)
    work, tuning = settled(work, trainer, context.threads, stop_reason)
    validation = None if folds is None else cross_validate(work, folds, trainer)
    work = prepare(work)
    result = trainer.train(work.train, starting_weights(context, work), model_of=work)
    told = {} if tuning is None else {"tuning": tuning}
    trained = Trained(work, result, validation, started - trainer.seconds_before, told, told)
    store_model(context, claim, stop_reason, trained, progress)


WORK = JobWork("train", run)
