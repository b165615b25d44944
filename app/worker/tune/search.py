"""Runs the search of a tuning job: `solvers.tune` on rows that are preprocessed for each fold."""

import logging
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import solvers
from app.db import Database
from app.db.tables import JobRow
from app.errors import DatabaseUnavailable
from app.jobs import queue
from app.jobs.repository import Claim
from app.jobs.schemas import TrainingSpec
from app.jobs.tune_schemas import CostRange, TuneSpec
from app.jobs.validation.refusals import solver_refusal
from app.jobs.validation.tuning import metric_of
from app.storage import BlobStore
from app.tabular.types import Array
from app.worker.failures import PermanentFailure, Stopped
from app.worker.train.checkpoints import Note
from app.worker.train.load import Work, load_training
from app.worker.tune.fold_rows import finite, prepared_rows, problem_of
from app.worker.tune.scorers import metric_for
from app.worker.tune.search_state import SearchState
from app.worker.worker_context import StopAsked, WorkerContext

log = logging.getLogger(__name__)

SEARCH_SHARE = 0.9
"""Fraction of the job's time limit that the search can use. The rest is for the training of the model. Larger: longer
searches, a less precise model at the limit. Set by hand; no measurement is recorded."""
REPORT_EVERY_SECONDS = 0.5
"""Minimum seconds between two reports of the progress. Larger: less load, later progress. Set by hand; no measurement
is recorded."""
FIELD_OF_ARGUMENT = {
    "folds": "cross_validation",
    "groups": "cross_validation",
    "repeats": "cross_validation.repeats",
    "certify": "certify.epsilon",
}
"""Fields of the request for arguments of `solvers.tune` with other names."""


@dataclass(frozen=True)
class Found:
    """The result of a search."""

    report: dict[str, Any]
    """Fields of the job's result."""
    held_out_scores: Array
    """Score of each training row while it was held out, at the best values; NaN: the row was not held out."""

    @property
    def variant(self) -> int:
        return int(self.report["best"]["variant"])

    @property
    def C(self) -> float:  # noqa: N802
        return float(self.report["best"]["C"])

    @property
    def seconds(self) -> float:
        return float(self.report["seconds"])

    @property
    def note(self) -> Note:
        return Note(self.report, self.held_out_scores)


def load_search(database: Database, blobs: BlobStore, job: JobRow, request: TuneSpec) -> Work:
    """Load the rows of a search. The request of the work is that of the first combination."""
    work = load_training(database, blobs, job, request.training(request.combinations()[0]))
    if request.cross_validation.fold_column is None:
        return work
    # Here the group column defines folds, and not which rows are comparable.
    return replace(work, train=replace(work.train, group=None), given_folds=work.train.group)


class Search:
    """A search on the training rows of a job."""

    def __init__(
        self, context: WorkerContext, claim: Claim, request: TuneSpec, work: Work, stop_reason: StopAsked
    ) -> None:
        """`work`: the job with its rows before preprocessing. Its own request is that of any combination."""
        self._context = context
        self._claim = claim
        self._request = request
        self._work = work
        self._stop_reason = stop_reason
        self._combinations = request.combinations()
        self._state = SearchState(context, claim, work)
        self._trials: dict[tuple[int, float], dict[str, Any]] = {}
        """Trials that have changed since the last report, by combination and C."""
        self._next_report = time.monotonic() + REPORT_EVERY_SECONDS
        self._progress = work.job.progress

    def run(self) -> Found:
        """Search. Raises PermanentFailure or Stopped if there is no result."""
        request, work = self._request, self._work
        earlier = self._state.find()
        metric = metric_of(request, work.task)
        try:
            result = solvers.tune(
                None,
                work.train.y,
                request.solver,
                C=_costs(request),
                folds=request.folds if work.given_folds is None else work.given_folds,
                groups=self._groups(),
                repeats=request.cross_validation.repeats,
                metric=metric_for(metric, work),
                certify=None if request.certify is None else request.certify.epsilon,
                rule=request.rule,
                refit=False,
                outer_folds=request.outer_folds,
                sample_weight=work.train.weight,
                tol=request.tol,
                max_seconds=self._max_seconds(),
                seed=request.seed,
                threads=self._context.threads,
                options=request.solver_options,
                on_progress=self._on_progress,
                resume_from=earlier,
                variants=[problem_of(work, self.spec(number, 1.0)) for number in range(len(self._combinations))],
                prepare=self._prepared,
                task=work.task,
                keep_folds=True,
                query_groups=work.train.group if work.task == "ordinal" else None,
            )
        except solvers.SolverError as error:
            field, code, message = solver_refusal(error)
            field = FIELD_OF_ARGUMENT.get(field, field)
            raise PermanentFailure(code, f"{field}: {message}", field) from error
        assert result.held_out_scores is not None
        self._state.end()
        return Found(self._report(result, metric), result.held_out_scores)

    def spec(self, variant: int, C: float) -> TrainingSpec:
        """Return the training of a combination at C."""
        return self._request.training(self._combinations[variant], C)

    def _prepared(self, variant: int, training: Array, held_out: Array) -> tuple[Any, Any]:
        return prepared_rows(self._work, self.spec(variant, 1.0), training, held_out)

    def _groups(self) -> Array | None:
        keeps = self._request.cross_validation.group is not False
        return self._work.train.group if keeps and self._work.given_folds is None else None

    def _max_seconds(self) -> float | None:
        limit = self._request.stop.seconds
        return None if limit is None else max(SEARCH_SHARE * limit - self._state.seconds_before, 1e-3)

    def _on_progress(self, report: solvers.TuneProgress) -> bool:
        """Store progress and finished trainings, and carry out requests of clients."""
        if (table := report.stored()) is not None:
            self._state.add(table)
        if report.tried is not None:
            self._trials[report.tried.variant, report.tried.C] = _told_trial(report.tried)
        self._progress = max(self._progress, SEARCH_SHARE * report.progress)
        reason = self._stop_reason()
        if reason in ("pause", "drain") or self._state.is_due:
            self._state.save(report.seconds, self._progress)
        if reason is not None and reason != "finish":
            raise Stopped(reason)
        if time.monotonic() >= self._next_report:
            self._tell(report)
        return reason == "finish"

    def _tell(self, report: solvers.TuneProgress) -> None:
        told = {
            "phase": report.phase,
            "trainings": report.trainings,
            "planned": report.planned or None,
            "C": report.C,
            "mean": finite(report.mean),
            "variant": report.variant,
            "seconds": self._state.seconds_before + report.seconds,
        }
        figures = {"progress": self._progress, "eta_seconds": finite(report.eta_seconds)}
        try:
            with self._context.database.write() as session:
                queue.report_search(session, self._claim, told, list(self._trials.values()), **figures)
            self._trials = {}
        except DatabaseUnavailable as error:  # an outage must not end the search; the next report has these trials
            log.warning("could not store the progress of %s: %s", self._claim.job_id, error)
        self._next_report = time.monotonic() + REPORT_EVERY_SECONDS

    def _report(self, result: solvers.TuneResult, metric: str) -> dict[str, Any]:
        certificate = None if result.certificate is None else _certificate(result.certificate)
        best = result.best
        return {
            "metric": metric,
            "rule": self._request.rule,
            "best": {
                "C": best.C,
                **self._shown(best.variant),
                "mean": finite(best.mean),
                "std": finite(best.std),
            },
            "trials": [
                {
                    "C": trial.C,
                    **self._shown(trial.variant),
                    "mean": finite(trial.mean),
                    "std": finite(trial.std),
                    "lower_bound": finite(trial.lower_bound),
                    "upper_bound": finite(trial.upper_bound),
                    "relative_gap": finite(trial.relative_gap),
                    "seconds": trial.seconds,
                }
                for trial in result.trials
            ],
            "certificate": certificate,
            "reason": result.reason,
            "outer": None if result.outer is None else self._outer(result.outer),
            "folds": result.folds,
            "finished": result.finished,
            "seconds": self._state.seconds_before + result.seconds,
        }

    def _outer(self, outer: solvers.OuterEstimate) -> dict[str, Any]:
        chosen = [{"C": one.C, **self._shown(one.variant)} for one in outer.chosen]
        return {"mean": outer.mean, "std": finite(outer.std), "values": list(outer.values), "chosen": chosen}

    def _shown(self, variant: int) -> dict[str, Any]:
        """Return the values of a combination: those that have several values, and the loss."""
        spec = self.spec(variant, 1.0)
        own = spec.model_dump(mode="json", include=set(self._combinations[variant]))
        varied = {name: value for name, value in own.items() if len(getattr(self._request, name)) > 1}
        return {"variant": variant, **varied, "loss": self._loss(spec)}

    def _loss(self, spec: TrainingSpec) -> str:
        """Return the loss of a combination; that of its task for "auto"."""
        dataset, rows = self._work.dataset, self._work.train.X
        shape = {"n_rows": rows.shape[0], "n_features": rows.shape[1], "sparse": dataset.storage == "csr"}
        arguments = {**spec.solver_arguments(), "task": self._work.task}
        return solvers.check(**shape, n_classes=len(dataset.classes) or None, **arguments)["loss"]


def _costs(request: TuneSpec) -> Any:
    return (request.C.min, request.C.max) if isinstance(request.C, CostRange) else request.C


def _certificate(found: solvers.TuningCertificate) -> dict[str, Any]:
    fields = (
        *("epsilon", "epsilon_reached", "best", "C", "lower_bound", "upper_bound"),
        *("decided", "undecided", "proven", "values"),
    )
    return {
        "range": list(found.range),
        **{name: finite(getattr(found, name)) for name in fields},
        "steps": [[finite(value) for value in step] for step in found.steps],
    }


def _told_trial(tried: solvers.Tried) -> dict[str, Any]:
    mean, std = float(np.mean(tried.values)), float(np.std(tried.values, ddof=1)) if len(tried.values) > 1 else None
    figures = {"mean": finite(mean), "std": finite(std)}
    return {"C": tried.C, "variant": tried.variant, "folds": len(tried.values), **figures}
