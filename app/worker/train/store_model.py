"""Stores a finished training: writes the card and the files of the model, and ends the job in one transaction."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import solvers
from app.db.engine import current_time
from app.db.tables import ModelRow
from app.errors import DatabaseUnavailable
from app.ids import new_id
from app.jobs import queue
from app.jobs.repository import Claim
from app.models import service as models
from app.storage import ownership
from app.storage.ownership import reclaim
from app.worker.patience import insist
from app.worker.stored_proof import encode_proof
from app.worker.train.calibrate import calibration_of
from app.worker.train.cross_validation import Validation, judged_again
from app.worker.train.encode_model import encode_model, training_means
from app.worker.train.fold_models import FoldModels, fold_models
from app.worker.train.held_out import final_error
from app.worker.train.load import Work
from app.worker.train.model_card import write_card
from app.worker.train.result_metrics import decision_of
from app.worker.train.tuned_threshold import tuned_threshold
from app.worker.worker_context import StopAsked, WorkerContext

OF_CARD = (
    *("strategy", "certificate", "headline", "metrics", "threshold", "cross_validation", "calibration"),
    *("training", "warnings"),
)
"""Fields of the model's card that the job's result repeats."""


class HasFigures(Protocol):
    """The progress of a job that has ended."""

    def final_figures(self, result: solvers.SolveResult, test_error: float | None = None) -> dict[str, Any]:
        """Return the columns of the finished job, with its curve."""


@dataclass(frozen=True)
class Trained:
    """A training that has ended."""

    work: Work
    """The job with its rows as the solver saw them."""
    result: solvers.SolveResult
    validation: Validation | None
    started: float
    """Start of the job by `time.perf_counter`, earlier by the seconds of earlier attempts."""
    of_card: Mapping[str, Any] = field(default_factory=dict)
    """Additional fields of the model's card."""
    of_result: Mapping[str, Any] = field(default_factory=dict)
    """Additional fields of the job's result."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files of the job. The job's result has hash and size of each under its name."""


def store_model(
    context: WorkerContext, claim: Claim, stop_reason: StopAsked, trained: Trained, progress: HasFigures
) -> None:
    """Store the model and end the job as succeeded. While the storage fails, wait and try again."""
    work, result = trained.work, trained.result
    validation = trained.validation
    scores = None if validation is None else validation.scores
    calibration, decision = calibration_of(work, result, scores), decision_of(work)
    threshold = tuned_threshold(work, result, scores, decision)
    if validation is not None and threshold is not None:
        validation = judged_again(work, validation, decision._replace(threshold=threshold.value))
    card = write_card(work, result, validation, calibration, threshold, trained.started) | dict(trained.of_card)
    sets = fold_models(work, validation, is_tuned=card.get("tuning") is not None)
    card["sets"] = sets.told if isinstance(sets, FoldModels) else sets
    parts = sets.parts if isinstance(sets, FoldModels) else None
    limit = None if threshold is None else threshold.value
    content = encode_model(work, result, card, calibration, parts, limit, training_means(work))
    proof = encode_proof(result, with_weights=work.pipeline is not None)
    insist(
        claim,
        context.storage_patience_seconds,
        stop_reason,
        lambda: _commit(context, claim, trained, card, content, proof, progress),
    )


def _commit(
    context: WorkerContext,
    claim: Claim,
    trained: Trained,
    card: dict[str, Any],
    content: bytes,
    proof: bytes | None,
    progress: HasFigures,
) -> None:
    """Write the files, then the model and the end of the job in one transaction, if the claim is still valid."""
    work, result, blobs = trained.work, trained.result, context.blobs
    of_model = {blobs.put(one): one for one in (content, proof) if one is not None}
    blob, *proof_blob = of_model
    of_job = {name: (blobs.put(one), one) for name, one in trained.files.items()}
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
            **trained.of_result,
            **({"model_certificate": card["certificate"]} if "certificate" in trained.of_result else {}),
            **{name: {"sha256": sha256, "bytes": len(one)} for name, (sha256, one) in of_job.items()},
        }
        figures = progress.final_figures(result, final_error(card["metrics"]))
        unneeded = queue.succeed(session, claim, model.id, outcome, **figures)
        model.created_at = current_time(session)
        # Equal trainings have equal files: the file of another model or job can be deleted at this moment.
        rewrites = {sha256: partial(blobs.put, one) for sha256, one in (*of_model.items(), *of_job.values())}
        models.register(session, blobs, model, len(content), len(proof or b""), rewrites)
        ownership.own(session, blobs, work.job.id, {sha256: len(one) for sha256, one in of_job.values()}, rewrites)
    with suppress(DatabaseUnavailable):  # the job has ended; the sweep deletes the files that are left
        reclaim(context.database, blobs, unneeded)
