"""Chooses C for a training that asks for `C: "auto"`, by the short search of `solvers.choose_c`."""

from dataclasses import replace
from typing import Any

import numpy as np

import solvers
from app.jobs.schemas import AUTO
from app.jobs.validation.refusals import solver_refusal
from app.jobs.validation.tuning import METRICS
from app.worker.failures import PermanentFailure, Stopped
from app.worker.train.checkpoints import Note
from app.worker.train.load import Work, groups_to_keep
from app.worker.train.trainer import Trainer
from app.worker.tune.fold_rows import finite, prepared_rows, problem_of
from app.worker.tune.scorers import metric_for
from app.worker.worker_context import StopAsked


def settled(work: Work, trainer: Trainer, threads: int, stop_reason: StopAsked) -> tuple[Work, dict[str, Any] | None]:
    """Return the work with a number for C, and the report of the search; None if the request names C.

    A later attempt recalls the choice of an earlier one from its checkpoint.
    """
    if work.request.C != AUTO:
        return work, None
    note = trainer.recall()
    if note is None:
        found = _search(work, threads, stop_reason)
        note = Note(_report(found), np.empty(0))
        trainer.count(note, 1, found.seconds)
    work = replace(work, request=work.request.model_copy(update={"C": note.report["best"]["C"]}))
    trainer.settle(work.request)
    return work, note.report


def _search(work: Work, threads: int, stop_reason: StopAsked) -> solvers.ChosenC:
    request = work.request

    def hear(_: solvers.TuneProgress) -> bool:
        reason = stop_reason()
        if reason is not None and reason != "finish":
            raise Stopped(reason)
        return reason == "finish"

    try:
        return solvers.choose_c(
            None,
            work.train.y,
            request.solver,
            prepare=lambda _, training, held_out: prepared_rows(work, request, training, held_out),
            groups=groups_to_keep(work),
            metric=metric_for(METRICS[work.task][0], work),
            sample_weight=work.train.weight,
            query_groups=work.train.group if work.task == "ordinal" else None,
            tol=request.tol,
            seed=request.seed,
            threads=threads,
            options=request.solver_options,
            on_progress=hear,
            task=work.task,
            **problem_of(work, request),
        )
    except solvers.SolverError as error:
        field, code, message = solver_refusal(error)
        raise PermanentFailure(code, f"{field}: {message}", field) from error


def _report(found: solvers.ChosenC) -> dict[str, Any]:
    """Return the report with the same fields as the report of a search."""
    trials = [
        {
            "C": trial.C,
            "mean": finite(trial.mean),
            "std": finite(trial.std),
            "folds": len(trial.values),
            "relative_gap": finite(trial.relative_gap),
            "seconds": trial.seconds,
        }
        for trial in found.trials
    ]
    best = next((one for one in trials if one["C"] == found.C), {"mean": None, "std": None})
    return {
        "metric": found.metric,
        "best": {"C": found.C, "mean": best["mean"], "std": best["std"]},
        "reason": found.reason,
        "trials": trials,
        "certificate": None,
        "folds": found.folds,
        "seconds": found.seconds,
    }
