"""Runs a batch prediction job: writes a file of predictions, and a file of the rows that failed."""

from typing import Any

import msgspec

from app.datasets.arrays import open_arrays
from app.jobs import queue
from app.jobs.repository import Claim
from app.jobs.types.predict_request import PredictRequest, target_name
from app.models.repository import Location
from app.predictions.model_cache import ServedModel
from app.predictions.outputs import DEFAULT_OUTPUTS, SET, Scored, chosen
from app.predictions.set_outputs import asked_coverage
from app.storage import ownership
from app.storage.ownership import Rewrites
from app.worker.model_subject import Passing, Subject, load_subject
from app.worker.predict_files import batch_file
from app.worker.scoring import DatasetScorer
from app.worker.worker_context import JobWork, StopAsked, WorkerContext

_encode = msgspec.json.Encoder().encode_lines


def run(context: WorkerContext, claim: Claim, stop_reason: StopAsked) -> None:
    subject = load_subject(context, claim)
    request = PredictRequest.model_validate(subject.job.spec)
    row = subject.model
    model = ServedModel.opened(Location(row.id, row.name, row.version, row.blob), subject.file)
    outputs = chosen(model.outputs, request.wanted, DEFAULT_OUTPUTS)
    level = asked_coverage(outputs, request.coverage)
    rows, target = open_arrays(context.blobs, subject.dataset, whole=True), target_name(subject.dataset)
    scorer = DatasetScorer(subject.file, rows, target)
    folds = [] if level is None else [DatasetScorer(fold, rows, target) for fold in model.sets.sets.folds]
    passing = Passing(context.database, claim, scorer.n_rows, stop_reason)
    failed = 0
    with context.blobs.stage() as staged, context.blobs.stage() as refused:
        written = batch_file(request.format, staged, subject.file.header, outputs)
        for block, *of_folds in zip(scorer.blocks(), *(fold.blocks() for fold in folds), strict=True):
            scored = Scored(subject.file, model.features, block.matrix, block.scores)
            if len(block.rows):
                columns = scored.columns([name for name in outputs if name != SET])
                if level is not None:
                    columns[SET] = model.sets.from_scores([one.scores_of(block.rows) for one in of_folds], level)
                written.append({"row": block.rows, **columns})
            refused.write(_encode([failure._asdict() for failure in block.failures]))
            failed += len(block.failures)
            passing.advance(len(block.rows) + len(block.failures))
        written.finish()
        files = {"output": {"sha256": staged.commit(), "bytes": staged.size}}
        if failed:
            files["errors"] = {"sha256": refused.commit(), "bytes": refused.size}
        told = None if level is None else model.sets.coverage(level)
        counts = {"rows": scorer.n_rows, "failed": failed, "columns": outputs, "coverage": told}
        rewrites = {staged.sha256: staged.commit, refused.sha256: refused.commit}
        _commit(context, claim, subject, request, files, counts, rewrites)


def _commit(
    context: WorkerContext,
    claim: Claim,
    subject: Subject,
    request: PredictRequest,
    files: dict[str, dict[str, Any]],
    counts: dict[str, Any],
    rewrites: Rewrites,
) -> None:
    """Record the job as owner of the files in the transaction that ends it. `rewrites` restores a file if another job
    with an equal file deletes it meanwhile."""
    outcome = {
        "rows": counts["rows"],
        "predicted": counts["rows"] - counts["failed"],
        "failed": counts["failed"],
        "format": request.format,
        "columns": ["row", *counts["columns"]],
        "coverage": counts["coverage"],
        "classes": subject.file.header.classes,
        "output": files["output"],
        "errors": files.get("errors"),
    }
    with context.database.write() as session:
        queue.succeed(session, claim, subject.model.id, outcome)
        sizes = {one["sha256"]: one["bytes"] for one in files.values()}
        ownership.own(session, context.blobs, claim.job_id, sizes, rewrites)


WORK = JobWork("predict", run)
