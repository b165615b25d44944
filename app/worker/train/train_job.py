"""A training job, from its claim to its model: load > validate > train > judge > write > commit."""

import time
from typing import Any

import solvers
from app.db.engine import current_time
from app.db.tables import ModelRow
from app.ids import new_id
from app.jobs import queue
from app.jobs.repository import Claim
from app.models import service as models
from app.storage.ownership import reclaim
from app.worker.proof import write_proof
from app.worker.train.calibrate import Calibrated, calibrated
from app.worker.train.card import write_card
from app.worker.train.checkpoints import Checkpoints
from app.worker.train.cross_validation import Validation, choose_folds, cross_validate
from app.worker.train.encode_model import encode_model
from app.worker.train.held_out import final_error
from app.worker.train.load import Work, load
from app.worker.train.prepare import prepare
from app.worker.train.progress import Progress
from app.worker.train.result_metrics import labels_of
from app.worker.train.trainer import Trainer
from app.worker.train.warm_weights import starting_weights
from app.worker.worker_context import Desk, StopAsked

OF_CARD = ("strategy", "certificate", "metrics", "cross_validation", "calibration", "training", "warnings")
"""What of a model's card the job's result tells too."""


def train_model(desk: Desk, claim: Claim, stop_reason: StopAsked) -> None:
    started = time.perf_counter()
    work = load(desk.database, desk.blobs, claim)
    folds = choose_folds(work)
    progress = Progress(desk.database, claim, work.request.tol, work.job.progress)
    trainings = 1 if folds is None else 2 + int(folds.max())
    trainer = Trainer(work, desk.threads, trainings, progress, Checkpoints(desk, claim, work), stop_reason)
    validation = None if folds is None else cross_validate(work, folds, trainer)
    work = prepare(work)
    result = trainer.train(work.train, starting_weights(desk, work), model_of=work)
    calibration = _calibration(work, result, validation)
    card = write_card(work, result, validation, calibration, started - trainer.seconds_before)
    content = encode_model(work, result, card, calibration)
    blob, size = desk.blobs.put(content), len(content)
    proof = write_proof(desk.blobs, result)
    _commit(desk, claim, work, result, card, blob, size, proof, progress)


def _calibration(work: Work, result: solvers.SolveResult, validation: Validation | None) -> Calibrated | None:
    if validation is None or not work.request.calibrate:
        return None
    classes = labels_of(work.train, result)
    return calibrated(work.request.calibrate, result.strategy, work.train, classes, validation.scores)


def _commit(
    desk: Desk,
    claim: Claim,
    work: Work,
    result: solvers.SolveResult,
    card: dict[str, Any],
    blob: str,
    size: int,
    proof: tuple[str, int] | None,
    progress: Progress,
) -> None:
    """The model and the end of the job, in one transaction, only if the claim still holds."""
    model = ModelRow(
        id=new_id("mdl"),
        name=work.job.model_name,
        job_id=work.job.id,
        blob=blob,
        proof=None if proof is None else proof[0],
        task=result.task,
        solver=result.solver,
        converged=result.converged,
        card=card,
    )
    with desk.database.write() as session:
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
        models.register(session, model, size, 0 if proof is None else proof[1])
    reclaim(desk.database, desk.blobs, unneeded)
