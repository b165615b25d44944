"""Runs a batch prediction job: writes a file of predictions, and a file of the rows that failed."""

from typing import Any

import msgspec

from app.datasets.arrays import open_arrays
from app.jobs import queue
from app.jobs.repository import Claim
from app.jobs.types.predict_request import PredictRequest, target_name
from app.models.repository import Location
from app.predictions.model_cache import ServedModel
from app.predictions.outputs import DEFAULT_OUTPUTS, Scored, chosen
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
    scorer = DatasetScorer(subject.file, open_arrays(context.blobs, subject.dataset), target_name(subject.dataset))
    passing = Passing(context.database, claim, scorer.n_rows, stop_reason)
    failed = 0
    with context.blobs.stage() as staged, context.blobs.stage() as refused:
        written = batch_file(request.format, staged, subject.file.header, outputs)
        for block in scorer.blocks():
            scored = Scored(subject.file, model.features, block.matrix, block.scores)
            if len(block.rows):
                written.append({"row": block.rows, **scored.columns(outputs)})
            refused.write(_encode([failure._asdict() for failure in block.failures]))
            failed += len(block.failures)
            passing.advance(len(block.rows) + len(block.failures))
        written.finish()
        files = {"output": {"sha256": staged.commit(), "bytes": staged.size}}
        if failed:
            files["errors"] = {"sha256": refused.commit(), "bytes": refused.size}
        counts = {"rows": scorer.n_rows, "failed": failed, "columns": outputs}
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
    """Own the files in the transaction that ends the job. Equal files of another job can be deleted meanwhile."""
    outcome = {
        "rows": counts["rows"],
        "predicted": counts["rows"] - counts["failed"],
        "failed": counts["failed"],
        "format": request.format,
        "columns": ["row", *counts["columns"]],
        "classes": subject.file.header.classes,
        "output": files["output"],
        "errors": files.get("errors"),
    }
    with context.database.write() as session:
        queue.succeed(session, claim, subject.model.id, outcome)
        sizes = {one["sha256"]: one["bytes"] for one in files.values()}
        ownership.own(session, context.blobs, claim.job_id, sizes, rewrites)


WORK = JobWork("predict", run)
