"""Runs an evaluation job: scores a dataset with a stored model and stores the report."""

from dataclasses import replace

import numpy as np

from app.datasets.arrays import open_arrays
from app.db.engine import current_time
from app.db.tables import EvaluationRow
from app.ids import new_id
from app.jobs import queue
from app.jobs.repository import Claim
from app.jobs.types.evaluate_request import EvaluateRequest
from app.worker.evaluation_report import judge
from app.worker.model_subject import Passing, load_subject
from app.worker.scoring import DatasetScorer
from app.worker.worker_context import JobWork, StopAsked, WorkerContext


def run(context: WorkerContext, claim: Claim, stop_reason: StopAsked) -> None:
    subject = load_subject(context, claim)
    rows = open_arrays(context.blobs, subject.dataset, whole=True)
    scorer = DatasetScorer(subject.file, rows)
    passing = Passing(context.database, claim, scorer.n_rows, stop_reason)
    numbers, scores, failed = [], [], 0
    for block in scorer.blocks():
        numbers.append(block.rows)
        scores.append(block.scores)
        failed += len(block.failures)
        passing.advance(len(block.rows) + len(block.failures))
    judged = np.concatenate(numbers)
    if failed:  # select rows without copying the features: a copy could exceed the memory
        weight, group = (None if one is None else one[judged] for one in (rows.weight, rows.group))
        rows = replace(rows, y=rows.y[judged], weight=weight, group=group)
    positive = EvaluateRequest.model_validate(subject.job.spec).positive_class
    figures = judge(subject.file, rows, np.concatenate(scores), positive)
    report = {"rows": len(judged), "failed_rows": failed, **figures}
    evaluation = EvaluationRow(
        id=new_id("ev"),
        model_id=subject.model.id,
        dataset_id=subject.dataset.id,
        job_id=claim.job_id,
        report=report,
    )
    with context.database.write() as session:
        outcome = {
            "evaluation_id": evaluation.id,
            **{name: report[name] for name in ("rows", "failed_rows", "metrics")},
        }
        queue.succeed(session, claim, subject.model.id, outcome)
        evaluation.created_at = current_time(session)
        session.add(evaluation)


WORK = JobWork("evaluate", run)
