"""Progress of a training: a convergence curve of bounded size, stored every half second."""

import heapq
import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import solvers
from app.db import Database
from app.errors import DatabaseUnavailable
from app.jobs import queue
from app.jobs.repository import Claim

log = logging.getLogger(__name__)

WRITE_EVERY_SECONDS = 0.5
"""Seconds between two writes of the progress. Larger: less load, later progress. Set by hand; no measurement is
recorded."""
MAX_TRACE_POINTS = 200
"""Maximum points of the stored convergence curve. Larger: larger rows and responses. Set by hand; no measurement is
recorded."""
LONGEST_SECONDS = 1e8
"""Longest estimate of the remaining time in seconds, about three years. Longer estimates are reported as unknown. Set
by hand."""
COUNT_WEIGHT = 0.1
"""Weight of the report number when a curve is thinned; time and log time have weight 1. Larger: closer to keeping every
n-th point. Set by hand; no measurement is recorded."""
TEST_ERROR_WEIGHT = 8.0
"""Weight of a point with a test error when a curve is thinned. Larger: more points with a test error are kept, and
fewer without. Set by hand; no measurement is recorded."""
FEWEST_POINTS = 4
"""Minimum points to estimate the remaining time. Larger: later, more reliable estimates. Set by hand; no measurement is
recorded."""


class Progress:
    """Collects the reports of a solver and stores the latest in the job's row."""

    def __init__(self, database: Database, claim: Claim, tol: float, progress: float = 0.0) -> None:
        """`progress`: progress of an earlier attempt; it never decreases."""
        self._database = database
        self._claim = claim
        self._tol = tol
        self._part, self._parts = 0, 1
        self._first_gap: float | None = None
        self._progress = progress
        self._points: list[dict[str, Any]] = []
        self._next_write = time.monotonic() + WRITE_EVERY_SECONDS

    def begin(self, part: int, parts: int) -> None:
        """Start the next of several trainings, with a curve of its own and its share of the progress."""
        self._part, self._parts = part, parts
        self._first_gap, self._points = None, []
        self._progress = max(self._progress, part / parts)

    def record(self) -> dict[str, Any]:
        """Return the state that a checkpoint needs to continue this curve."""
        return {"progress": self._progress, "first_gap": self._first_gap, "curve": thinned(self._points)}

    def restore(self, recorded: Mapping[str, Any]) -> None:
        self._progress = max(self._progress, recorded["progress"])
        self._first_gap, self._points = recorded["first_gap"], list(recorded["curve"])

    def report(
        self, report: solvers.StepReport, seconds_left: float | None = None, test_error: float | None = None
    ) -> None:
        """Add a report. `seconds_left`: rest of the time limit. Raises LeaseLost if another worker has the job."""
        point = {**point_of(report, report), "test_error": test_error}
        self._points.append(point)
        if len(self._points) > 2 * MAX_TRACE_POINTS:
            self._points = thinned(self._points)
        self._advance(point["relative_gap"])
        if time.monotonic() < self._next_write:
            return
        try:
            eta = self._eta(seconds_left)
            with self._database.write() as session:
                queue.report_progress(session, self._claim, point, self._progress, thinned(self._points), eta)
        except DatabaseUnavailable as error:  # an outage must not end the training
            log.warning("could not store the progress of %s: %s", self._claim.job_id, error)
        self._next_write = time.monotonic() + WRITE_EVERY_SECONDS

    def _eta(self, seconds_left: float | None) -> float | None:
        """Estimate the seconds for all trainings: later ones are assumed to take as long as this one."""
        of_this = eta_seconds(self._points, self._tol)
        if of_this is None:
            return None
        to_come = self._parts - self._part - 1
        whole = of_this + to_come * (float(self._points[-1]["seconds"]) + of_this)
        return whole if seconds_left is None else min(whole, seconds_left)

    def final_figures(self, result: solvers.SolveResult, test_error: float | None = None) -> dict[str, Any]:
        """Return the columns of the finished job. The last point of the curve is the certificate."""
        last = point_of(result, result.certificate)
        figures = {name: value for name, value in last.items() if name != "seconds"}
        return {**figures, "trace": [*thinned(self._points), {**last, "test_error": test_error}]}

    def _advance(self, gap: float | None) -> None:
        """Update the progress from the first gap to `tol`, on a logarithmic scale. It never decreases."""
        if gap is None or gap <= 0:
            return
        if self._first_gap is None:
            self._first_gap = max(gap, self._tol)
        share = share_of_way(self._first_gap, gap, self._tol)
        self._progress = max(self._progress, (self._part + share) / self._parts)


def share_of_way(first_gap: float, gap: float, tol: float) -> float:
    """Return the progress of a running training from its first gap to `tol`, on a logarithmic scale: 0 to 0.99."""
    way = math.log(max(first_gap, tol) / tol)
    share = 1.0 - math.log(max(gap, tol) / tol) / way if way > 0 else 1.0
    return max(0.0, min(share, 0.99))


def eta_seconds(points: Sequence[Mapping[str, Any]], tol: float) -> float | None:
    """Estimate the seconds until the gap reaches `tol`, from its recent decrease; None: not known.

    Fits a straight line to the logarithm of the smallest gap so far, over the second half of the time: the start of a
    training says little about its end. Without a decrease there the time is not known.
    """
    seconds: list[float] = []
    least: list[float] = []
    for point in points:
        if (gap := point["relative_gap"]) is not None and gap > 0:
            seconds.append(point["seconds"])
            least.append(min(math.log(gap), least[-1] if least else math.inf))
    recent = [place for place, second in enumerate(seconds) if second >= 0.5 * seconds[-1]]
    if len(recent) < FEWEST_POINTS:
        return None
    t, gaps = np.array(seconds)[recent], np.array(least)[recent]
    spread = float(((t - t.mean()) ** 2).sum())
    slope = float(((t - t.mean()) * gaps).sum()) / spread if spread > 0 else 0.0
    way = max(0.0, least[-1] - math.log(tol))
    return way / -slope if -slope * LONGEST_SECONDS > way else None


def thinned(points: list[dict[str, Any]], most: int = MAX_TRACE_POINTS) -> list[dict[str, Any]]:
    """Select `most` points of a longer curve, spread over time and log time, including the first and the last.

    Drops the point whose neighbours are closest until few enough are left. A curve that is thinned again and again
    keeps its beginning: as time passes, old points move closer together in both measures, so old and new points are
    dropped equally often.
    """
    if len(points) <= most:
        return points
    positions = _positions(points)
    before, after = list(range(-1, len(points) - 1)), list(range(1, len(points) + 1))

    def gap(place: int) -> float:
        weight = 1.0 if points[place].get("test_error") is None else TEST_ERROR_WEIGHT
        return weight * (positions[after[place]] - positions[before[place]])

    gaps = {place: gap(place) for place in range(1, len(points) - 1)}
    heap = [(size, place) for place, size in gaps.items()]
    heapq.heapify(heap)
    while len(gaps) > most - 2:
        size, place = heapq.heappop(heap)
        if gaps.get(place) != size:  # a neighbour was dropped after this entry was made
            continue
        del gaps[place]
        after[before[place]], before[after[place]] = after[place], before[place]
        for neighbour in (before[place], after[place]):
            if neighbour in gaps:
                gaps[neighbour] = gap(neighbour)
                heapq.heappush(heap, (gaps[neighbour], neighbour))
    return [points[0], *(points[place] for place in gaps), points[-1]]


def _positions(points: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return rising positions: time plus log time plus a little of the count, each from 0 to its weight."""
    seconds = np.maximum.accumulate([float(point["seconds"]) for point in points])
    first = next((second for second in seconds if second > 0), 1.0)
    log_seconds, count = np.log(np.maximum(seconds, first)), np.arange(float(len(points)))
    positions = np.zeros(len(points))
    for weight, measure in ((1.0, seconds), (1.0, log_seconds), (COUNT_WEIGHT, count)):
        if (span := measure[-1] - measure[0]) > 0:
            positions += weight * (measure - measure[0]) / span
    return [float(position) for position in positions]


def point_of(
    counts: solvers.StepReport | solvers.SolveResult, bounds: solvers.StepReport | solvers.Certificate
) -> dict[str, Any]:
    """Return a point of the curve. A figure that is not finite is null."""
    return {
        "seconds": counts.seconds,
        "iterations": counts.iterations,
        "passes": counts.passes,
        "primal": _finite(bounds.primal),
        "dual_bound": _finite(bounds.dual_bound),
        "relative_gap": _finite(bounds.relative_gap),
    }


def _finite(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None
