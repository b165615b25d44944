"""Which rows are held out, and what a client sees of a solve that is under way."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import solvers
from app.db import Database
from app.jobs import lease, queue, service
from app.jobs.lease import LeaseLost
from app.jobs.repository import Claim
from app.jobs.schemas import SplitByShare
from app.worker.train import progress
from app.worker.train.progress import MAX_TRACE_POINTS, Progress, eta_seconds
from app.worker.train.split import draw_folds, split_rows
from tests.support.builders import SOAK, migrated_database, queued_jobs


@settings(max_examples=100 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(
    y=st.lists(st.sampled_from([-1.0, 1.0, 2.5]), min_size=1, max_size=80).map(np.array),
    test=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**32 - 1),
    stratify=st.booleans(),
)
def test_every_row_is_on_one_side_and_no_class_leaves_training(
    y: np.ndarray[Any, Any], test: float, seed: int, stratify: bool
) -> None:
    split = SplitByShare(test=test, seed=seed, stratify=stratify)
    training, held_out = split_rows(y, split)
    assert np.array_equal(np.sort(np.concatenate([training, held_out])), np.arange(len(y)))
    assert (np.diff(training) > 0).all()
    assert (np.diff(held_out) > 0).all()
    assert len(training) >= 1
    groups = [y == value for value in np.unique(y)] if stratify else [np.ones(len(y), dtype=bool)]
    for group in groups:
        held = int(np.isin(np.flatnonzero(group), held_out).sum())
        assert held == min(round(test * int(group.sum())), int(group.sum()) - 1)
    again = split_rows(y, split)
    assert np.array_equal(training, again[0])
    assert np.array_equal(held_out, again[1])


@settings(max_examples=100 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(
    group=st.lists(st.integers(0, 12), min_size=2, max_size=80).filter(lambda rows: len(set(rows)) > 1).map(np.array),
    test=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_group_is_parted_and_both_sides_have_one(group: np.ndarray[Any, Any], test: float, seed: int) -> None:
    split = SplitByShare(test=test, seed=seed)
    training, held_out = split_rows(np.zeros(len(group)), split, group=group)
    assert np.array_equal(np.sort(np.concatenate([training, held_out])), np.arange(len(group)))
    assert not set(group[training]) & set(group[held_out])
    assert min(len(training), len(held_out)) >= 1
    largest = np.bincount(group).max()
    assert abs(len(held_out) - test * len(group)) <= largest


def test_numbers_are_not_strata() -> None:
    y = np.random.default_rng(0).normal(size=50)
    assert len(split_rows(y, SplitByShare(test=0.2), has_classes=False)[1]) == 10
    assert len(split_rows(y, SplitByShare(test=0.2))[1]) == 0


@settings(max_examples=100 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(
    y=st.lists(st.integers(0, 3), min_size=2, max_size=80).map(np.array),
    folds=st.integers(2, 7),
    seed=st.integers(0, 2**32 - 1),
    has_classes=st.booleans(),
)
def test_folds_are_of_one_size_in_all_and_by_class(
    y: np.ndarray[Any, Any], folds: int, seed: int, has_classes: bool
) -> None:
    drawn = draw_folds(y, folds, seed, has_classes=has_classes)
    assert np.ptp(np.bincount(drawn, minlength=folds)) <= 1
    if has_classes:
        for value in np.unique(y):
            assert np.ptp(np.bincount(drawn[y == value], minlength=folds)) <= 1
    assert np.array_equal(drawn, draw_folds(y, folds, seed, has_classes=has_classes))


@settings(max_examples=100 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(
    group=st.lists(st.integers(0, 12), min_size=2, max_size=80).map(np.array),
    folds=st.integers(2, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_folds_by_group_part_no_group_and_leave_no_fold_empty(
    group: np.ndarray[Any, Any], folds: int, seed: int
) -> None:
    drawn = draw_folds(np.zeros(len(group)), folds, seed, group=group)
    for one in np.unique(group):
        assert len(set(drawn[group == one])) == 1
    sizes = np.bincount(drawn, minlength=folds)
    assert np.count_nonzero(sizes) == min(folds, len(np.unique(group)))
    assert np.ptp(sizes) <= np.bincount(group).max()


def test_another_seed_draws_other_folds() -> None:
    y, group = np.repeat([-1, 1], 50), np.arange(100) // 5
    assert len({tuple(draw_folds(y, 5, seed)) for seed in range(20)}) == 20
    assert len({tuple(draw_folds(y, 5, seed, group=group)) for seed in range(20)}) == 20


def test_another_seed_holds_out_other_rows() -> None:
    y = np.repeat([-1, 1], 50)
    held_out = {tuple(split_rows(y, SplitByShare(test=0.3, seed=seed))[1]) for seed in range(20)}
    assert len(held_out) == 20


def test_every_row_has_its_chance_to_be_held_out() -> None:
    y = np.repeat([-1, 1], [10, 30])
    counts = np.zeros(40)
    for seed in range(400):
        counts[split_rows(y, SplitByShare(test=0.2, seed=seed))[1]] += 1
    # 400 draws of probability 0.2: mean 80, standard deviation 8; five of those are missed once in a million
    assert (np.abs(counts - 80) < 40).all()


def step(passes: int, gap: float | None, primal: float | None = 1.0) -> solvers.StepReport:
    return solvers.StepReport(
        iterations=passes, passes=passes, seconds=passes / 10, primal=primal, dual_bound=None, relative_gap=gap
    )


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with migrated_database(f"sqlite:///{tmp_path / 'test.sqlite3'}") as database:
        yield database


@pytest.fixture
def claim(database: Database) -> Claim:
    queued_jobs(database, [0])
    with database.write() as session:
        claimed = lease.claim_next(session, "wrk_test", 60.0)
    assert claimed is not None
    return claimed


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every report is written at once."""
    monkeypatch.setattr(progress, "WRITE_EVERY_SECONDS", 0.0)


def seen(database: Database, claim: Claim) -> tuple[float, int, float | None]:
    with database.read() as session:
        job = service.get(session, claim.job_id, with_trace=True)
        return job.progress, len(job.trace), job.relative_gap


@pytest.mark.usefixtures("eager")
def test_progress_is_the_share_of_the_way_to_the_tolerance_and_never_goes_back(
    database: Database, claim: Claim
) -> None:
    watched = Progress(database, claim, tol=1e-4)
    shares = []
    for passes, gap in enumerate([None, 1.0, 1e-2, 1e-1, 1e-3, 1e-9, 0.0]):
        watched.report(step(passes, gap))
        shares.append(seen(database, claim)[0])
    assert shares == pytest.approx([0.0, 0.0, 0.5, 0.5, 0.75, 0.99, 0.99])
    assert seen(database, claim)[1:] == (7, 0.0)


@pytest.mark.usefixtures("eager")
def test_progress_counts_the_solves_of_a_job_and_the_curve_is_of_the_last(database: Database, claim: Claim) -> None:
    watched = Progress(database, claim, tol=1e-4)
    shares = []
    for part in range(4):
        watched.begin(part, 4)
        for passes, gap in enumerate([None, 1.0, 1e-2, 1e-4], 1):
            watched.report(step(passes, gap))
            shares.append(seen(database, claim)[0])
    assert shares[:4] == pytest.approx([0.0, 0.0, 0.125, 0.2475])
    assert shares[4:8] == pytest.approx([0.25, 0.25, 0.375, 0.4975])
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(0.9975)
    assert seen(database, claim)[1] == 4


def curve(gaps: Iterable[float | None], every: float = 0.5) -> list[dict[str, Any]]:
    return [{"seconds": every * (number + 1), "relative_gap": gap} for number, gap in enumerate(gaps)]


def test_the_time_left_is_that_of_the_recent_decay() -> None:
    decay = [10.0 ** (-0.1 * number) for number in range(21)]  # a tenth every 10 points: 5 seconds
    assert eta_seconds(curve(decay), 1e-4) == pytest.approx(10.0)
    slow_start = [0.9] * 20 + [0.9 * gap for gap in decay[:30]]
    assert eta_seconds(curve(slow_start), 0.9e-4) == pytest.approx(10.0, rel=0.25)
    noisy_decay = [gap * (3.0 if number % 3 else 1.0) for number, gap in enumerate(decay)]
    assert eta_seconds(curve(noisy_decay), 1e-4) == pytest.approx(10.0, rel=0.25)
    assert eta_seconds(curve(decay), 0.5) == 0.0


@pytest.mark.parametrize(
    "gaps",
    [
        [],
        [0.5],
        [1.0, 0.5],
        [None] * 30,
        [0.5] * 30,
        [0.1, *[0.5] * 30],
        [0.0] * 9,
    ],
    ids=["none", "one", "two", "unknown", "level", "rising", "zero"],
)
def test_the_time_left_is_not_known_where_the_gap_does_not_shrink(gaps: list[float | None]) -> None:
    assert eta_seconds(curve(gaps), 1e-4) is None


@pytest.mark.usefixtures("eager")
def test_the_time_left_is_told_for_all_solves_and_never_beyond_the_limit(database: Database, claim: Claim) -> None:
    watched = Progress(database, claim, tol=1e-4)
    watched.begin(0, 3)

    def told(seconds_left: float | None) -> float | None:
        for number in range(1, 22):
            watched.report(step(5 * number, 10.0 ** (-0.1 * (number - 1))), seconds_left)
        with database.read() as session:
            return service.get(session, claim.job_id).eta_seconds

    alone = 10.0  # of a solve that has taken 10.5 seconds
    assert told(None) == pytest.approx(alone + 2 * (10.5 + alone))
    watched.begin(2, 3)
    assert told(None) == pytest.approx(alone)
    watched.begin(2, 3)
    assert told(4.0) == 4.0


@pytest.mark.usefixtures("eager")
def test_a_first_gap_below_the_tolerance_is_nearly_done(database: Database, claim: Claim) -> None:
    Progress(database, claim, tol=1e-2).report(step(1, 1e-5))
    assert seen(database, claim)[0] == 0.99


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("number", [float("nan"), float("inf"), None])
def test_a_figure_that_is_no_number_is_stored_as_null(database: Database, claim: Claim, number: float | None) -> None:
    Progress(database, claim, tol=1e-2).report(step(1, number, primal=number))
    with database.read() as session:
        job = service.get(session, claim.job_id, with_trace=True)
        assert (job.primal, job.relative_gap, job.progress) == (None, None, 0.0)
        assert job.trace[0]["primal"] is None


@pytest.mark.usefixtures("eager")
def test_a_report_of_a_lost_job_says_so(database: Database, claim: Claim) -> None:
    with database.write() as session:
        queue.release(session, claim)
    with pytest.raises(LeaseLost):
        Progress(database, claim, tol=1e-2).report(step(1, 0.5))


def test_reports_are_not_written_more_often_than_twice_a_second(database: Database, claim: Claim) -> None:
    started = time.monotonic()
    watched = Progress(database, claim, tol=1e-3)
    for passes in range(1000):
        watched.report(step(passes, 0.5))
    with database.read() as session:
        events = [event.type for event in service.list_events(session, claim.job_id, 1000, None)]
    assert events.count("job.progress") <= 2 * (time.monotonic() - started)


def test_a_long_solve_keeps_a_short_curve_that_ends_in_the_certificate(database: Database, claim: Claim) -> None:
    X = np.random.default_rng(1).normal(size=(40, 3))
    result = solvers.train(X, np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 > 0, 1, -1), tol=1e-3)
    watched = Progress(database, claim, tol=1e-3)
    for passes in range(5000):
        watched.report(step(passes, 0.5))
    figures = watched.final_figures(result)
    trace = figures["trace"]
    assert MAX_TRACE_POINTS // 2 < len(trace) <= MAX_TRACE_POINTS + 1
    assert (trace[0]["passes"], trace[-2]["passes"]) == (0, 4999)
    assert trace[-1]["primal"] == figures["primal"] == result.certificate.primal
    assert figures["relative_gap"] == result.certificate.relative_gap
    assert (figures["passes"], figures["iterations"]) == (result.passes, result.iterations)
