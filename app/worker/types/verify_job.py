"""Runs a verification job: recomputes a certificate from the stored rows, weights and dual point.

On request it also writes the rows as the solver saw them, for the stand-alone verifier (app/models/exports/verifier).
"""

import zipfile
from functools import partial
from typing import IO, Any, cast

import numpy as np

import solvers
from app.datasets.arrays import DatasetArrays
from app.jobs import queue
from app.jobs.repository import Claim
from app.jobs.types.tune_request import TuneRequest
from app.jobs.types.verify_request import VerifyRequest
from app.jobs.validation.refusals import solver_refusal
from app.jobs.validation.task import CLASS_TASKS
from app.storage import BlobStore, ownership
from app.tabular.types import Array
from app.worker.claimed_certificate import contradictions, is_confirmed
from app.worker.failures import PermanentFailure, Stopped
from app.worker.model_subject import Subject, load_subject
from app.worker.stored_solution import load_trained, read_solution
from app.worker.train.load import Work
from app.worker.train.model_card import certificate_of
from app.worker.train.prepare import as_trained
from app.worker.train.solver_arguments import definition
from app.worker.tune.claimed_proof import check_again
from app.worker.worker_context import JobWork, StopAsked, WorkerContext

STORED, FOUND = "the stored dual point", "a dual point found from the weights"


def run(context: WorkerContext, claim: Claim, stop_reason: StopAsked) -> None:
    subject = load_subject(context, claim)
    training, card, work = load_trained(context, subject)
    outcome = _verdict(context, subject, work, card)
    outcome["tuning"] = None
    if _request(subject).tuning and (claimed := (card.get("tuning") or {}).get("certificate")):
        searched = TuneRequest.model_validate({**training.spec, "dataset_id": subject.dataset.id})
        outcome["tuning"] = check_again(context, claim, stop_reason, subject.job, searched, claimed)
    if (reason := stop_reason()) not in (None, "finish"):
        raise Stopped(reason)
    figures = {name: outcome[name] for name in ("primal", "dual_bound", "relative_gap")}
    write_rows = partial(_write_rows, context.blobs, as_trained(subject.file, work.train)[0], work.task)
    if _request(subject).rows:
        outcome["output"] = write_rows()
    with context.database.write() as session:
        queue.succeed(session, claim, subject.model.id, outcome, **figures)
        if output := outcome.get("output"):
            # An equal file of another job can be deleted meanwhile.
            sizes = {output["sha256"]: output["bytes"]}
            ownership.own(session, context.blobs, claim.job_id, sizes, {output["sha256"]: write_rows})


def _verdict(context: WorkerContext, subject: Subject, work: Work, card: dict[str, Any]) -> dict[str, Any]:
    model, stored = subject.model, subject.file
    rows, weights, proof, notes = read_solution(context, subject, work)
    try:
        arguments = definition(work, rows, card["params"])
        found = solvers.certify(rows.X, rows.y, *weights, proof.points or None, **arguments)
    except solvers.SolverError as error:
        field, _, message = solver_refusal(error)
        raise PermanentFailure(
            "other_data", f"the certificate cannot be computed on these rows: {message}", field
        ) from error
    figures = certificate_of(found.certificate, found.per_class, stored.header.classes)
    differences = _other_sources(subject, work, card)
    is_converged = model.converged or card["training"]["status"] == solvers.Status.CONVERGED
    tol = card["params"]["tol"] if is_converged else None
    differences += contradictions(card["certificate"], figures, has_proof=bool(proof.points), tol=tol)
    confirmed = is_confirmed(card["certificate"], figures)
    if not differences and not confirmed:
        notes.append("the claimed bound is not contradicted, but the recomputed bound is too weak to confirm it")
    return {
        **figures,
        "bound_from": STORED if proof.points else FOUND,
        "matches": False if differences else True if confirmed else None,
        "differences": differences,
        "notes": notes,
        "claimed": card["certificate"],
        "rows": len(rows.y),
        "dataset_id": work.dataset.id,
    }


def _request(subject: Subject) -> VerifyRequest:
    return VerifyRequest.model_validate(subject.job.spec)


def _other_sources(subject: Subject, work: Work, card: dict[str, Any]) -> list[dict[str, Any]]:
    """List inputs that differ from those in the model's card."""
    of_file = subject.file.header.card
    compared = [
        ("dataset.sha256", card["lineage"]["sha256"], work.dataset.sha256),
        ("file.certificate", card["certificate"], of_file.get("certificate")),
        ("file.params", card["params"], of_file.get("params")),
    ]
    return [{"field": field, "claimed": before, "found": now} for field, before, now in compared if before != now]


def _write_rows(blobs: BlobStore, rows: DatasetArrays, task: str) -> dict[str, Any]:
    """Write the rows as npz (X, or CSR arrays; y; weight and group if present); return blob and size."""
    with blobs.stage() as staged:
        with zipfile.ZipFile(cast("IO[bytes]", staged), "w") as archive:
            for name, array in _arrays(rows, task).items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
        return {"sha256": staged.commit(), "bytes": staged.size}


def _arrays(rows: DatasetArrays, task: str) -> dict[str, Array]:
    X, y = rows.X, rows.y
    if task in CLASS_TASKS:
        values, places = np.unique(y, return_inverse=True)
        y = np.array([rows.label(value) for value in values.tolist()])[places]
    parts = {name: getattr(X, name) for name in ("data", "indices", "indptr")} if hasattr(X, "indptr") else {"X": X}
    optional = {"weight": rows.weight, "group": rows.group if task == "ordinal" else None}
    given = {name: array for name, array in optional.items() if array is not None}
    return {**parts, "y": y, **given, "prepared": np.ones(1)}


WORK = JobWork("verify", run)
