"""Runs a leave-one-out job: bounds the error of the models without one row each, from the stored model.

If the stored solution is not precise enough, all rows are trained on once more, starting from its weights.
"""

import time
from typing import Any

import solvers
from app.jobs import queue
from app.jobs.repository import Claim
from app.jobs.types.leave_one_out_request import LeaveOneOutRequest
from app.jobs.validation.refusals import solver_refusal
from app.worker.failures import PermanentFailure, Stopped
from app.worker.model_subject import WRITE_EVERY_SECONDS, load_subject
from app.worker.stored_solution import load_trained, read_solution
from app.worker.train.solver_arguments import definition
from app.worker.worker_context import JobWork, StopAsked, WorkerContext

PRECISE_GAP = 1e-6
"""Largest relative gap of a stored solution that is used without more training; a worse solution is trained further to
this gap. Larger: looser bounds, less training. Set by hand; no measurement is recorded."""
REFITS_FROM = 0.2
"""Progress of the job, from 0 to 1, when the trainings without a row begin. Set by hand."""
FROZEN = "the preprocessing that was learnt from all rows is used for the models without a row, too"
BY_SIGN = "the bounds are those of predicting by the sign of the score: the tuned threshold is not used"
NO_ORDER = "ordinal compares rows with each other, so that a row without others has no prediction"


def run(context: WorkerContext, claim: Claim, stop_reason: StopAsked) -> None:
    subject = load_subject(context, claim)
    request = LeaveOneOutRequest.model_validate(subject.job.spec)
    _, card, work = load_trained(context, subject)
    about = {"rows": len(work.train.y), "dataset_id": work.dataset.id}
    notes = [FROZEN] if subject.file.header.preprocess is not None else []
    if work.task == "binary" and subject.file.thresholds is not None:
        notes.append(BY_SIGN)
    outcome: dict[str, Any] = {"metric": None, "lower": None, "upper": None, "undecided": None, "refits": 0}
    if work.task == "ordinal":
        outcome |= {"relative_gap": None, "trained": False, "reason": NO_ORDER}
    else:
        rows, weights, proof, _ = read_solution(context, subject, work)
        problem = definition(work, rows, card["params"])
        problem.pop("groups")
        watch = _Watch(context, claim, stop_reason)
        try:
            found = solvers.leave_one_out(
                rows.X,
                rows.y,
                refits=request.refits,
                tol=PRECISE_GAP,
                seed=work.request.seed,
                threads=context.threads,
                warm_start=(weights.coef, weights.intercept),
                bounding=proof.points or None,
                callback=watch.on_step,
                on_refit=watch.on_refit,
                **problem,
            )
        except solvers.SolverError as error:
            field, _, message = solver_refusal(error)
            detail = f"the bounds cannot be computed on these rows: {message}"
            raise PermanentFailure("other_data", detail, field) from error
        has_labels = found.metric == "error" and found.reason is None
        outcome = {
            "metric": found.metric,
            "lower": found.lower,
            "upper": found.upper,
            "undecided": len(found.undecided) if has_labels else None,
            "refits": found.refits,
            "relative_gap": found.relative_gap,
            "trained": found.trained,
            "reason": found.reason,
        }
    with context.database.write() as session:
        queue.succeed(session, claim, subject.model.id, {**outcome, **about, "notes": notes})


class _Watch:
    """Reads requests and stores the progress while the bounds are computed."""

    def __init__(self, context: WorkerContext, claim: Claim, stop_reason: StopAsked) -> None:
        self._context, self._claim, self._stop_reason = context, claim, stop_reason
        self._next_write = time.monotonic() + WRITE_EVERY_SECONDS

    def on_step(self, _report: solvers.StepReport) -> bool:
        return self._look(0.0)

    def on_refit(self, done: int, most: int) -> bool:
        return self._look(REFITS_FROM + (0.99 - REFITS_FROM) * done / most)

    def _look(self, progress: float) -> bool:
        """Store the progress; return whether to end with what is known. Raises Stopped, or LeaseLost."""
        reason = self._stop_reason()
        if reason is not None and reason != "finish":
            raise Stopped(reason)
        if time.monotonic() >= self._next_write:
            with self._context.database.write() as session:
                queue.advance(session, self._claim, progress)
            self._next_write = time.monotonic() + WRITE_EVERY_SECONDS
        return reason == "finish"


WORK = JobWork("leave_one_out", run)
