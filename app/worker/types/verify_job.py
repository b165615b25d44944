"""A verification job: the certificate of a model, recomputed from the stored rows, weights and dual point."""

from typing import Any

import solvers
from app.db.tables import JobRow
from app.jobs import queue
from app.jobs.repository import Claim
from app.jobs.types.train_request import TrainRequest
from app.jobs.validation.refusals import solver_refusal
from app.worker.failures import PermanentFailure, Stopped
from app.worker.model_subject import Subject, load_subject
from app.worker.stored_proof import UnusableProof, read_proof
from app.worker.train.load import Work, load_training
from app.worker.train.prepare import as_trained
from app.worker.train.solver_arguments import definition
from app.worker.worker_context import JobWork, StopAsked, WorkerContext

TOLERANCE = 1e-9
"""By how much, beside the claimed primal value, a figure may differ: sums are rounded by the order of their terms."""

STORED, FOUND = "the stored dual point", "a dual point found from the weights"


def run(context: WorkerContext, claim: Claim, stop_reason: StopAsked) -> None:
    subject = load_subject(context, claim)
    with context.database.read() as session:
        training = session.get(JobRow, subject.model.job_id)
    assert training is not None, "submitted for a model that was trained here"
    request = TrainRequest.model_validate(training.spec).model_copy(update={"dataset_id": subject.dataset.id})
    work = load_training(context.database, context.blobs, training, request)
    outcome = _verdict(context, subject, work)
    if (reason := stop_reason()) not in (None, "finish"):
        raise Stopped(reason)
    figures = {name: outcome[name] for name in ("primal", "dual_bound", "relative_gap")}
    with context.database.write() as session:
        queue.succeed(session, claim, subject.model.id, outcome, **figures)


def _verdict(context: WorkerContext, subject: Subject, work: Work) -> dict[str, Any]:
    model, stored = subject.model, subject.file
    card = stored.header.card
    problems = len(stored.header.classes) if card["certificate"].get("per_class") else 1
    rows, coef, intercept = as_trained(stored, work.train)
    bounding, notes = None, []
    if model.proof is None:
        notes.append("no dual point is stored with the model, so the bound is another and may be weaker")
    else:
        try:
            bounding = read_proof(context.blobs, model.proof, problems, coef, intercept)
        except UnusableProof as error:
            notes.append(f"{error}, so the bound is another and may be weaker")
    try:
        arguments = definition(work, rows, card["params"])
        found = solvers.certify(rows.X, rows.y, coef, intercept, bounding, **arguments)
    except solvers.SolverError as error:
        field, _, message = solver_refusal(error)
        raise PermanentFailure("other_data", f"the model cannot be judged on these rows: {message}", field) from error
    differences = _differences(card, work, found.certificate, has_proof=bounding is not None)
    return {
        "primal": found.certificate.primal,
        "dual_bound": found.certificate.dual_bound,
        "gap": found.certificate.gap,
        "relative_gap": found.certificate.relative_gap,
        "method": found.certificate.method,
        "bound_from": FOUND if bounding is None else STORED,
        "matches": not differences,
        "differences": differences,
        "notes": notes,
        "claimed": card["certificate"],
        "rows": len(rows.y),
        "dataset_id": work.dataset.id,
    }


def _differences(
    card: dict[str, Any], work: Work, found: solvers.Certificate, *, has_proof: bool
) -> list[dict[str, Any]]:
    """What is not as the model's page claims. A bound that had to be found anew is not compared: it is another one."""
    claimed, lineage = card["certificate"], card["lineage"]
    compared: list[tuple[str, Any, Any]] = [("dataset.sha256", lineage["sha256"], work.dataset.sha256)]
    differences = [
        {"field": field, "claimed": before, "found": now} for field, before, now in compared if before != now
    ]
    figures: list[tuple[str, Any, Any]] = [("primal", claimed["primal"], found.primal)]
    if has_proof:
        figures.append(("dual_bound", claimed["dual_bound"], found.dual_bound))
    allowed = TOLERANCE * abs(claimed["primal"])
    for field, before, now in figures:
        is_same = before is now if before is None or now is None else abs(before - now) <= allowed
        if not is_same:
            differences.append({"field": f"certificate.{field}", "claimed": before, "found": now})
    return differences


WORK = JobWork("verify", run)
