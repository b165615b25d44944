"""Why a run stopped, and the certificate of several classes together."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from solvers.engine import one_vs_rest
from solvers.engine.driver import agreeing_status
from solvers.engine.limits import Limits
from solvers.engine.one_vs_rest import sum_of_classes
from solvers.result import Certificate, SolveResult, Status
from tests.support.exact import exact

ENDS = [status for status in Status if status is not Status.CONVERGED]


def certificate(primal=1.0, bound=0.5, gap=0.25, method="dual point"):
    return Certificate.of_pair(primal, bound, gap, 1e-12, method)


NOTHING = Certificate(math.inf, None, None, None, "dual point")


@pytest.mark.parametrize("status", list(Status))
def test_converged_is_what_the_certificate_says(status):
    assert agreeing_status(status, certificate(gap=0.25), Limits(0.25, None, None)) is Status.CONVERGED
    assert agreeing_status(status, certificate(gap=0.25), Limits(0.3, None, None)) is Status.CONVERGED
    expected = Status.STALLED if status is Status.CONVERGED else status
    assert agreeing_status(status, certificate(gap=0.25), Limits(0.2, None, None)) is expected
    assert agreeing_status(status, NOTHING, Limits(0.2, None, None)) is expected


def test_a_certificate_holds_a_pair():
    assert certificate(primal=2.0, bound=2.0, gap=0.5).relative_gap == 0.25
    small = Certificate.of_pair(1e-20, 0.0, 1e-20, 1e-12, "dual point")
    assert small.relative_gap == 1e-8
    with pytest.raises(ValueError, match="exceeds the primal value"):
        Certificate(1.0, 1.0 + 2.0**-52, 0.0, 0.0, "dual point")
    with pytest.raises(ValueError, match="exceeds the primal value"):
        Certificate(1.0, math.nan, 0.0, 0.0, "dual point")
    apart = Certificate.of_bounds(3.0, 1.0, 1e-12, "planes")
    assert apart == Certificate(3.0, 1.0, math.nextafter(2.0, 3.0), math.nextafter(2.0, 3.0) / 3.0, "planes")
    assert Certificate.of_bounds(3.0, 0.0, 1e-12, "planes").gap == 3.0
    assert Certificate.of_bounds(3.0, 3.0, 1e-12, "planes").gap == 5e-324
    assert Certificate.of_bounds(3.0, 2.0, 12.0, "planes").relative_gap == pytest.approx(1.0 / 12.0)


def problems(count, floor=0.0):
    return [SimpleNamespace(primal_floor=floor)] * count


def test_the_classes_are_added_up_to_the_safe_side():
    random = np.random.default_rng(3)
    for _ in range(50):
        primals = random.uniform(1.0, 2.0, 5) * 10.0 ** random.uniform(-8, 8, 5)
        bounds, gaps = primals * random.uniform(0.0, 0.9, 5), primals * random.uniform(0.1, 0.2, 5)
        parts = [
            certificate(*figures) for figures in zip(*(one.tolist() for one in (primals, bounds, gaps)), strict=True)
        ]
        whole = sum_of_classes(problems(5), parts)
        for found, values, side in ((whole.primal, primals, 1), (whole.dual_bound, bounds, -1), (whole.gap, gaps, 1)):
            true = sum(map(exact, values.tolist()), exact(0.0))
            assert side * (exact(found) - true) > 0
            assert abs(exact(found) - true) <= exact(2.0 * math.ulp(found))
        assert whole.relative_gap == whole.gap / whole.primal
        assert whole.method == "dual point"


def test_a_class_that_proves_nothing_leaves_nothing_of_the_sum():
    parts = [certificate(), NOTHING]
    for whole in (sum_of_classes(problems(2), parts), sum_of_classes(problems(2), parts[::-1])):
        assert whole.primal == math.inf
        assert whole.dual_bound is whole.gap is whole.relative_gap is None
    unknown = Certificate(3.0, None, None, None, "margins")
    whole = sum_of_classes(problems(2), [unknown, certificate()])
    assert (whole.primal, whole.gap, whole.method) == (math.nextafter(4.0, 5.0), None, "margins")
    huge = certificate(1.5e308, 0.0, 1.5e308)
    whole = sum_of_classes(problems(2), [huge, huge])
    assert whole == Certificate(math.inf, None, None, None, "dual point")


def test_sums_of_zeros_are_zero_and_gaps_at_most_the_primal_value():
    zeros = [certificate(0.0, 0.0, 0.0)] * 3
    with np.errstate(all="ignore"):
        whole = sum_of_classes(problems(3, 1.0), zeros)
    assert (whole.primal, whole.dual_bound, whole.gap, whole.relative_gap) == (0.0, 0.0, 0.0, 0.0)
    half = sum_of_classes(problems(2, 10.0), [certificate(1.0, 0.0, 1.0)] * 2)
    assert half.gap == half.primal == math.nextafter(2.0, 3.0)
    assert half.dual_bound == 0.0
    assert half.relative_gap == half.gap / 20.0
    tiny = sum_of_classes(problems(2), [certificate(1.0, 0.0, 1.0), certificate(1.0, 5e-324, 1.0)])
    assert tiny.dual_bound == 0.0
    assert sum_of_classes(problems(1), [certificate(1.0, 0.5, 0.5)]).dual_bound == math.nextafter(0.5, 0.0)


def result(status=Status.CONVERGED, gap=0.25, name="a", seconds=1.0, proved=None):
    return SolveResult(
        coef=np.array([gap]), intercept=gap, classes=np.arange(2), thresholds=None, task="binary", status=status,
        certificate=proved or certificate(gap=gap), bounding=(name,), iterations=3, passes=4, seconds=5.0,
        certificate_seconds=seconds, trace=[], state={}, solver=name, solver_reason="", loss="hinge", bias="none",
        seed=0, threads=1,
    )  # fmt: skip


def test_the_better_point_of_two_rounds_is_kept():
    before, after = result(gap=0.25, name="before", seconds=1.0), result(gap=0.125, name="after", seconds=2.0)
    found = one_vs_rest._better(before, after)
    assert (found.solver, found.bounding, found.intercept, found.certificate_seconds) == (
        "after",
        ("after",),
        0.125,
        3.0,
    )
    assert found.certificate is after.certificate
    worse = one_vs_rest._better(after, before)
    assert (worse.solver, worse.bounding, worse.intercept, worse.certificate_seconds) == (
        "before",
        ("after",),
        0.125,
        3.0,
    )
    assert worse.certificate is after.certificate
    assert worse.coef is after.coef
    equal = one_vs_rest._better(before, replace(after, certificate=before.certificate))
    assert equal.bounding == ("after",)
    nothing = result(name="nothing", proved=NOTHING)
    assert one_vs_rest._better(nothing, after).bounding == ("after",)
    assert one_vs_rest._better(before, nothing).bounding == ("before",)
    assert one_vs_rest._better(nothing, replace(nothing, bounding=("later",))).bounding == ("later",)


def status_of(results, tol=0.1):
    run = SimpleNamespace(
        _results=dict(enumerate(results)),
        _problems=problems(len(results)),
        _limits=Limits.checked(tol=tol, max_seconds=None, max_passes=None),
        _constant=None,
    )
    return one_vs_rest._Run._status(run)


def test_the_status_of_the_whole_is_the_worst_unless_the_sum_has_converged():
    for worst in ENDS:
        assert status_of([result(Status.CONVERGED), result(worst)]) is worst
        assert status_of([result(worst), result(Status.CONVERGED)]) is worst
        assert status_of([result(worst), result(worst, gap=0.1)], tol=0.2) is Status.CONVERGED
    for one, other in zip(one_vs_rest.WORST_FIRST, one_vs_rest.WORST_FIRST[1:], strict=False):
        assert status_of([result(other), result(one)]) is one
    assert status_of([result(Status.CONVERGED), result(Status.CONVERGED)]) is Status.STALLED
    assert status_of([result(Status.CONVERGED, gap=0.01)] * 2) is Status.CONVERGED
