"""Runs a training job: load, cross-validate, train, evaluate, write the model, commit."""

import time
from contextlib import suppress
from functools import partial
from typing import Any

import solvers
from app.db.engine import current_time
from app.db.tables import ModelRow
from app.errors import DatabaseUnavailable
from app.ids import new_id
from app.jobs import queue
from app.jobs.repository import Claim
from app.models import file
from app.models import service as models
from app.storage.ownership import reclaim
from app.tabular.types import Array
from app.worker.failures import PermanentFailure
from app.worker.patience import insist
from app.worker.stored_proof import encode_proof
from app.worker.train.calibrate import Calibrated, calibrated, of_logistic_loss
from app.worker.train.checkpoints import Checkpoints
from app.worker.train.cross_validation import Validation, choose_folds, cross_validate
from app.worker.train.encode_model import encode_model
from app.worker.train.held_out import final_error
from app.worker.train.load import Work, load
from app.worker.train.model_card import write_card
from app.worker.train.prepare import prepare
from app.worker.train.progress import Progress
from app.worker.train.result_metrics import labels_of
from app.worker.train.trainer import Trainer
from app.worker.worker_context import JobWork, StopAsked, WorkerContext

OF_CARD = ("strategy", "certificate", "metrics", "cross_validation", "calibration", "training", "warnings")
"""Fields of the model's card that the job's result repeats."""


def run(context: WorkerContext, claim: Claim, stop_reason: StopAsked) -> None:
    started = time.perf_counter()
    work = load(context.database, context.blobs, claim)
    folds = choose_folds(work)
    progress = Progress(context.database, claim, work.request.tol, work.job.progress)
    trainings = 1 if folds is None else 2 + int(folds.max())
    trainer = Trainer(work, context.threads, trainings, progress, Checkpoints(context, claim, work), stop_reason)
    validation = None if folds is None else cross_validate(work, folds, trainer)
    work = prepare(work)
    result = trainer.train(work.train, _starting_weights(context, work), model_of=work)
    calibration = _calibration(work, result, validation)
    card = write_card(work, result, validation, calibration, started - trainer.seconds_before)
    content = encode_model(work, result, card, calibration)
    proof = encode_proof(result, with_weights=work.pipeline is not None)
    insist(
        claim,
        context.storage_patience_seconds,
        stop_reason,
        lambda: _commit(context, claim, work, result, card, content, proof, progress),
    )


def _calibration(work: Work, result: solvers.SolveResult, validation: Validation | None) -> Calibrated | None:
    classes = labels_of(work.train, result)
    if validation is None or not work.request.calibrate:
        return of_logistic_loss(result.strategy, len(classes)) if result.loss == "logistic" else None
    return calibrated(work.request.calibrate, result.strategy, work.train, classes, validation.scores)


def _commit(
    context: WorkerContext,
    claim: Claim,
    work: Work,
    result: solvers.SolveResult,
    card: dict[str, Any],
    content: bytes,
    proof: bytes | None,
    progress: Progress,
) -> None:
    """Write the files, then the model and the end of the job in one transaction, if the claim is still valid."""
    blobs = {context.blobs.put(one): one for one in (content, proof) if one is not None}
    blob, *proof_blob = blobs
    model = ModelRow(
        id=new_id("mdl"),
        name=work.job.model_name,
        job_id=work.job.id,
        blob=blob,
        proof=proof_blob[0] if proof_blob else None,
        task=result.task,
        solver=result.solver,
        converged=result.converged,
        card=card,
    )
    with context.database.write() as session:
        outcome = {
            "status": str(result.status),
            "converged": result.converged,
            "task": work.task,
            "task_reason": work.choice.reason,
            "solver": result.solver,
            "solver_reason": result.solver_reason,
            **{name: card[name] for name in OF_CARD},
        }
        figures = progress.final_figures(result, final_error(card["metrics"]))
        unneeded = queue.succeed(session, claim, model.id, outcome, **figures)
        model.created_at = current_time(session)
        # Equal trainings have equal proofs: the file of another model can be deleted at this moment.
        rewrites = {sha256: partial(context.blobs.put, one) for sha256, one in blobs.items()}
        models.register(session, context.blobs, model, len(content), len(proof or b""), rewrites)
    with suppress(DatabaseUnavailable):  # the job has ended; the sweep deletes the rest
        reclaim(context.database, context.blobs, unneeded)


def _starting_weights(context: WorkerContext, work: Work) -> tuple[Array, float | Array] | None:
    """Return (weights, intercept) of the model to start from, in the units of the prepared work."""
    if work.request.warm_start is None:
        return None
    with context.database.read() as session:
        model = session.get_one(ModelRow, work.request.warm_start)
    if model.purged_at is not None:
        raise PermanentFailure(
            "model_purged", "the model to start from was purged before the job started", "warm_start"
        )
    stored = file.read(context.blobs.path(model.blob))
    features = work.train.X.shape[1]
    if stored.header.n_features != features:
        message = f"the model to start from has {stored.header.n_features} features; this job has {features}"
        raise PermanentFailure("feature_mismatch", message, "warm_start")
    if work.pipeline is None:
        return stored.coef, stored.intercept
    return work.pipeline.unfold(stored.coef, stored.intercept)


WORK = JobWork("train", run)
