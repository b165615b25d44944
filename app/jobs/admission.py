"""Estimates the time and memory of a job, and refuses jobs that no machine can run.

`solvers.estimate` knows the memory of a solver. This module adds the memory of the worker: copies of rows for splits
and folds, scores, metrics, and the process itself. Mapped files are not counted, because they are not private memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

import solvers
from app.config import MIB, Settings
from app.datasets.arrays import mean_squared_norm
from app.db.tables import DatasetRow
from app.errors import invalid_field
from app.jobs.schemas import AUTO, SplitByShare, TrainingSpec
from app.jobs.validation.preprocessing import Expected, expected, resolve
from app.jobs.validation.task import choose_task
from app.storage import BlobStore, ownership

PROCESS_BYTES = 64 * MIB
"""Private memory of a training process without its job, in bytes. Larger: fewer jobs run at the same time. Measured:
30 MB after the first job, 60 to 80 MB after several, 130 MB after a job that compiled a large kernel."""
JUDGED_NUMBERS_A_ROW = 17
"""Numbers of 8 bytes per row while metrics are computed: scores, their order and counts. Larger: larger memory
estimates, so fewer jobs run at the same time. Set by hand; no measurement is recorded."""
JUDGED_NUMBERS_A_CLASS = 2
"""Additional numbers of 8 bytes per row and class of a multiclass model: scores, and the dual point. Larger: larger
memory estimates. Set by hand; no measurement is recorded."""
TESTED_NUMBERS_A_ROW = 3
"""Numbers of 8 bytes per test row during training: scores and classes. Larger: larger memory estimates. Set by hand; no
measurement is recorded."""
FOLD_NUMBERS_A_ROW = 2
"""Numbers of 8 bytes per row in cross-validation: the number of its fold, and its score while it was held out. Larger:
larger memory estimates. Set by hand; no measurement is recorded."""
KEPT_VECTORS, KEPT_SCORES = 3, 2
"""Vectors of weights, and numbers per held-out row, that a search keeps of every training of a fold. Larger: larger
memory estimates. Set by hand; no measurement is recorded."""
MODEL_COPIES = 4
"""Copies of the weights in memory at the peak: in the result, in the encoded model file, and in the steps between them.
Larger: larger memory estimates. Set by hand; no measurement is recorded."""
SEARCH_SECONDS, SEARCH_TRAININGS = 2.0, 5.0
"""Time limits of the search for `C: "auto"`: seconds, and multiples of one training; the larger one applies. Larger:
larger time estimates. Copies of LEAST_SECONDS and MOST_TRAININGS in solvers/tuning/quick.py."""
MOST_FOLD_BYTES = 64 * MIB
"""Maximum bytes of the fold models that a model keeps for prediction sets. Larger: sets of wider models, larger model
files and checkpoints. Set by hand; no measurement is recorded."""
START_SECONDS = 0.05
"""Seconds to claim and start a job, added to every estimate. Larger: larger time estimates. Set by hand; no measurement
is recorded."""
JUDGE_SECONDS_A_ROW = 1e-6
"""Seconds per row to compute metrics. Larger: larger time estimates. Set by hand; no measurement is recorded."""
JUDGE_SECONDS_AN_ENTRY = 4e-9
"""Seconds per stored value to score rows. Larger: larger time estimates. Set by hand; no measurement is recorded."""


@dataclass(frozen=True)
class Needs:
    """Estimated cost of a job: seconds on an idle machine (None: not known), and peak private memory in bytes."""

    seconds: float | None
    peak_bytes: int


@dataclass(frozen=True)
class Admission:
    """Estimates jobs and compares them with the memory budget."""

    blobs: BlobStore
    settings: Settings

    def needs(
        self, session: Session, request: TrainingSpec, dataset: DatasetRow, rivals: Sequence[TrainingSpec] = ()
    ) -> Needs:
        """Estimate a training. `rivals`: requests with other solvers that run at the same time, on the same rows."""
        matrix = _Matrix.of(session, dataset)
        spec = resolve(request, dataset)
        seen = expected(spec, dataset, matrix.text_bytes)
        split, folds = request.split, request.most_folds
        held_out = split.test if isinstance(split, SplitByShare) else 0.0
        train_rows = max(1, round(dataset.n_rows * (1.0 - held_out)))
        solves = [self._solve(one, dataset, matrix, seen, train_rows) for one in (request, *rivals)]
        solve = side_by_side(solves, self.settings.threads_a_worker)
        copied = matrix.copied_bytes(dataset.n_rows) if held_out else 0
        classes = max(1, len(dataset.classes))
        of_classes = classes if choose_task(request.task, dataset).task == "multiclass" else 0
        judged = 8 * train_rows * (JUDGED_NUMBERS_A_ROW + JUDGED_NUMBERS_A_CLASS * of_classes)
        weights = MODEL_COPIES * 8 * seen.n_features * max(1, of_classes)
        if folds is not None and request.cross_validation is not None:
            weights += MODEL_COPIES * min(MOST_FOLD_BYTES, folds * 8 * seen.n_features * max(1, of_classes))
        number = seen.value_bytes(train_rows, request.tol) + 4 * seen.sparse
        prepared = 0 if spec is None else number * seen.entries  # a copy: the rows as the solver sees them
        stages = [
            prepared + seen.learning_bytes,
            prepared + solve.peak_bytes + 8 * (dataset.n_rows - train_rows) * (TESTED_NUMBERS_A_ROW + of_classes),
            prepared + solve.kept_bytes + judged + weights,
        ]
        seconds = solve.seconds
        if folds is not None:
            fold_rows = max(1, train_rows * (folds - 1) // folds)
            part = self._solve(request, dataset, matrix, seen, fold_rows)
            of_fold = matrix.copied_bytes(train_rows) + prepared
            beside = of_fold + part.kept_bytes + 8 * train_rows * FOLD_NUMBERS_A_ROW * (1 + of_classes)
            stages += [beside + part.peak_bytes, beside + of_fold, beside + part.kept_bytes + judged // folds]
            seconds = None if seconds is None or part.seconds is None else seconds + folds * part.seconds
        return Needs(self._whole_seconds(request, seconds, dataset, classes), PROCESS_BYTES + copied + int(max(stages)))

    def kept_bytes(
        self, session: Session, trainings: Sequence[TrainingSpec], dataset: DatasetRow, *, values: int, folds: int
    ) -> int:
        """Return the bytes of what a search keeps of its trainings: weights, dual weights and scores.

        `values`: values of C over all combinations and repeats. All folds of a value hold out every row once.
        """
        matrix, widest = _Matrix.of(session, dataset), 0
        for request in trainings:
            seen = expected(resolve(request, dataset), dataset, matrix.text_bytes)
            widest = max(widest, seen.n_features)
        of_classes = len(dataset.classes) if len(dataset.classes) > 2 else 1
        return 8 * values * of_classes * (KEPT_VECTORS * widest * folds + KEPT_SCORES * dataset.n_rows)

    def admit(self, peak_bytes: int) -> None:
        """Raise Invalid for a job that does not fit even if it runs alone: no worker would ever claim it."""
        budget = self.settings.memory_budget_bytes
        if peak_bytes > budget:
            detail = (
                f"the job needs about {peak_bytes:,} bytes of memory; the limit is {budget:,} "
                "(HYPERPLANE_MEMORY_BUDGET_BYTES); use fewer rows or features or another solver, or raise the limit"
            )
            raise invalid_field("dataset_id", "too_large_for_memory", detail)

    def _solve(
        self, request: TrainingSpec, dataset: DatasetRow, matrix: "_Matrix", seen: Expected, n_rows: int
    ) -> solvers.Estimate:
        # Preprocessed features are scaled, or 0 and 1: assume a square of about 1 for each stored value.
        is_raw = resolve(request, dataset) is None
        share = n_rows / max(1, dataset.n_rows)
        return solvers.estimate(
            n_rows=n_rows,
            n_features=seen.n_features,
            n_classes=len(dataset.classes) or None,
            sparse=seen.sparse,
            entries=max(1, int(seen.entries * share)),
            nonzeros=None if seen.nonzeros is None else int(seen.nonzeros * share),
            value_bytes=matrix.value_bytes if is_raw else seen.value_bytes(n_rows, request.tol),
            squared_norm=mean_squared_norm(self.blobs, dataset) if is_raw else seen.entries / max(1, dataset.n_rows),
            threads=self.settings.threads_a_worker,
            **request.solver_arguments(),
        )

    def _whole_seconds(
        self, request: TrainingSpec, seconds: float | None, dataset: DatasetRow, classes: int
    ) -> float | None:
        if seconds is None:
            return None
        if request.C == AUTO:
            seconds += max(SEARCH_SECONDS, SEARCH_TRAININGS * seconds)
        judging = JUDGE_SECONDS_A_ROW * dataset.n_rows * classes + JUDGE_SECONDS_AN_ENTRY * dataset.nnz
        if request.stop.seconds is not None:
            seconds = min(seconds, request.stop.seconds)
        return START_SECONDS + seconds + judging


def side_by_side(solves: Sequence[solvers.Estimate], threads: int) -> solvers.Estimate:
    """Estimate solvers that run at the same time until the first has ended: the sum of their memory."""
    known = [one.seconds for one in solves if one.seconds is not None]
    slowdown = max(1.0, len(solves) / max(1, threads))
    return solvers.Estimate(
        peak_bytes=sum(one.peak_bytes for one in solves),
        kept_bytes=sum(one.kept_bytes for one in solves),
        seconds=min(known) * slowdown if known else None,
    )


@dataclass(frozen=True)
class _Matrix:
    """The stored features."""

    n_rows: int
    entries: int
    value_bytes: int
    n_bytes: int
    text_bytes: dict[int, int]

    @classmethod
    def of(cls, session: Session, dataset: DatasetRow) -> "_Matrix":
        is_sparse = dataset.storage == "csr"
        entries = dataset.nnz if is_sparse else dataset.n_rows * dataset.n_features
        sizes = ownership.sizes(session, dataset.id)
        stored = sizes.get(dataset.arrays.get("data" if is_sparse else "X", ""), 8 * entries)
        value_bytes = 4 if stored < 6 * entries else 8
        names = {name: sha256 for name, sha256 in dataset.arrays.items() if name.startswith("text.")}
        texts = {int(name.split(".")[1]): sizes.get(sha256, 0) for name, sha256 in names.items() if "bytes" in name}
        return cls(dataset.n_rows, entries, value_bytes, entries * (value_bytes + 4 * is_sparse), texts)

    def copied_bytes(self, n_rows: int) -> int:
        """Return the bytes of a copy of this many rows with their labels."""
        return self.n_bytes * n_rows // max(1, self.n_rows) + 24 * n_rows
