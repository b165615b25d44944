"""Loads the solution that a stored model was made from: the training rows as the solver saw them, weights, dual point.

The jobs verify and leave_one_out use it.
"""

from typing import Any, NamedTuple

from app.datasets.arrays import DatasetArrays
from app.db.tables import JobRow, ModelRow
from app.worker.model_subject import Subject
from app.worker.stored_proof import Proof, UnusableProof, Weights, read_proof
from app.worker.train.load import Work, load_training, training_of
from app.worker.train.prepare import as_trained, is_served_from
from app.worker.worker_context import WorkerContext

WEAKER = "so the bound comes from another one and can be weaker"


class Trained(NamedTuple):
    """The training that made a model."""

    job: JobRow
    card: dict[str, Any]
    """The card in the database; the model file has a copy."""
    work: Work


class Solution(NamedTuple):
    rows: DatasetArrays
    """The training rows in the units of the solver."""
    weights: Weights
    proof: Proof
    notes: list[str]
    """What is missing of the stored solution, and what follows from it."""


def load_trained(context: WorkerContext, subject: Subject) -> Trained:
    """Load the training of a model that was trained here, on the dataset of the job."""
    with context.database.read() as session:
        job = session.get(JobRow, subject.model.job_id)
        card = session.get_one(ModelRow, subject.model.id).card
    assert job is not None, "submitted for a model that was trained here"
    request = training_of(job, card, subject.dataset.id)
    return Trained(job, card, load_training(context.database, context.blobs, job, request))


def read_solution(context: WorkerContext, subject: Subject, work: Work) -> Solution:
    """Read weights and dual point, as exactly as they are stored."""
    model, stored = subject.model, subject.file
    rows, *unfolded = as_trained(stored, work.train)
    weights, notes = Weights(*unfolded), []
    proof = Proof(None, [])
    if model.proof is None:
        notes.append(f"the model has no stored dual point, {WEAKER}")
    else:
        is_one_vs_rest = stored.header.task == "multiclass" and stored.header.strategy == "ovr"
        problems = len(stored.header.classes) if is_one_vs_rest else 1
        try:
            proof = read_proof(context.blobs, model.proof, problems, len(rows.y), weights)
        except UnusableProof as error:
            notes.append(f"{error}, {WEAKER}")
    if proof.weights is not None and is_served_from(stored, proof.weights.coef, proof.weights.intercept):
        weights = proof.weights
    elif stored.header.preprocess is not None:
        notes.append("the weights were converted back from those of the model file: rounding can cause differences")
    return Solution(rows, weights, proof, notes)
