"""Convergence curves of bounded length that keep their beginning, however often they are thinned."""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.worker.train.progress import MAX_TRACE_POINTS, eta_seconds, thinned
from tests.support.builders import SOAK

LONG = 100_000
CLOCKS: dict[str, Callable[[int], float]] = {
    "steady": lambda number: 1e-3 * (number + 1),
    "from zero": lambda number: 1e-3 * number,
    "slowing": lambda number: 1e-3 * 1.0002**number,
    "quickening": lambda number: 0.1 * math.sqrt(number + 1),
}


def point(number: int, seconds: float | None = None, test_error: float | None = None) -> dict[str, Any]:
    return {"passes": number, "seconds": float(number) if seconds is None else seconds, "test_error": test_error}


def collected(seconds: Iterable[float]) -> list[dict[str, Any]]:
    """The curve of a training with a report at each of these times: thinned whenever it is twice too long."""
    points: list[dict[str, Any]] = []
    for number, second in enumerate(seconds):
        points.append(point(number, second))
        if len(points) > 2 * MAX_TRACE_POINTS:
            points = thinned(points)
    return thinned(points)


@pytest.mark.parametrize("count", [0, 1, 199, 200, 201, 399, 400, 401, 12_345])
def test_a_thinned_curve_keeps_its_ends_and_its_order(count: int) -> None:
    kept = [one["passes"] for one in thinned([point(number) for number in range(count)])]
    assert len(kept) == min(count, MAX_TRACE_POINTS)
    assert kept == sorted(set(kept))
    if count:
        assert (kept[0], kept[-1]) == (0, count - 1)


@settings(max_examples=60 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(steps=st.lists(st.floats(0, 1e6), min_size=1, max_size=40), repeats=st.integers(1, 60))
def test_any_curve_is_bounded_and_in_order(steps: list[float], repeats: int) -> None:
    times = list(itertools.accumulate(steps * repeats))
    kept = [one["passes"] for one in collected(times)]
    assert len(kept) == min(len(times), MAX_TRACE_POINTS)
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, len(times) - 1)


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_long_curve_keeps_a_fair_share_of_its_beginning(clock: str) -> None:
    """Even spread over log time alone would give half of the points to each half of log time; time takes its share."""
    seconds = [one["seconds"] for one in collected(map(CLOCKS[clock], range(LONG)))]
    first = next(second for second in seconds if second > 0)
    middle = math.sqrt(first * seconds[-1])
    assert sum(second <= middle for second in seconds) >= MAX_TRACE_POINTS / 8
    assert sum(second >= seconds[-1] / 2 for second in seconds) >= MAX_TRACE_POINTS / 4
    gaps = [later - earlier for earlier, later in itertools.pairwise(seconds)]
    assert max(gaps) <= seconds[-1] / 25


def test_the_estimate_of_a_thinned_curve_is_that_of_the_whole() -> None:
    whole = [{**point(n, 0.01 * (n + 1)), "relative_gap": math.exp(-0.001 * n)} for n in range(4000)]
    known = eta_seconds(whole, 1e-3)
    assert known is not None
    assert eta_seconds(thinned(whole), 1e-3) == pytest.approx(known, rel=1e-6)


@pytest.mark.parametrize("count", [201, 350, 401])
def test_a_thinned_curve_keeps_what_is_known_of_test_rows(count: int) -> None:
    tested = {number: 1.0 / number for number in range(7, count - 1, 40)}
    kept = thinned([point(number, test_error=tested.get(number)) for number in range(count)])
    assert len(kept) == MAX_TRACE_POINTS
    assert {one["passes"]: one["test_error"] for one in kept if one["test_error"] is not None} == tested
