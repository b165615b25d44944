"""Chooses the method for "auto": the one that is probably the fastest for a problem of this shape, with a reason.

The hinge losses and regression have several good methods, each for some shapes of data. Their paces (cost.py), fitted
to measured runs, predict the fastest one. The time of coordinate descent is the hardest to predict. So it hands over to
the next fastest method once its own remaining passes would take longer than a whole run of that method. This decision
counts passes, not seconds, so that runs are repeatable. Truncated Newton starts from a few passes of coordinate
descent, which make more progress than its own first steps. If rounding errors stop a method far from the optimum (large
C on separable data), a slower and more robust method, the last resort, starts from zero. Every other task has one
method.
"""

import math
from typing import NamedTuple

from solvers.cost import USUAL_PLANES, Size
from solvers.engine.handover import Handover
from solvers.engine.registry import able_methods, named, nothing_supports
from solvers.method import AnyMethod
from solvers.problem.spec import ProblemSpec

__all__ = ["CANDIDATES", "Choice", "choose"]

RIVALS = ("dcd", "dcd_logistic", "newton", "newton_logistic", "smooth_newton", "svr_dual", "tncg", "tncg_logistic")
OTHERS = ("crammer_singer", "tncg_multinomial", "cpa_ordinal", "alm_exact")
"""Methods for problems that no method of RIVALS supports, in order of preference."""
CANDIDATES = (*RIVALS, *OTHERS)
"""Every method that `auto` can choose, also as a successor."""
LAST_RESORT = "alm_exact"
LAST_RESORT_BYTES = 64 << 20
"""Maximum memory of the last-resort method in bytes, if the first method needs less memory. The memory estimate by
which jobs are admitted does not include it. Larger: the last resort is available for larger data, and a job can exceed
its estimate by more. Set by hand; no measurement is recorded."""
DOUBTS = {"dcd": 1.15, "dcd_logistic": 1.15, "svr_dual": 1.15}
"""Factor on the predicted time of each coordinate-descent method, whose predictions are the least certain. Larger:
coordinate descent is chosen less often. Set by hand; no measurement is recorded."""
WIDE = "svr_dual"
"""The method for regression with fewer rows than features. On such data it takes few passes for any C, but its `Pace`
predicts many: 300 dense rows of 1,000 features took 2 to 8 ms for C from 0.01 to 100, and 66 to 840 ms with Newton's
methods."""
LEAST_TRUNCATED = 1000
"""Least number of features for truncated Newton. With fewer, factoring a matrix of features x features is faster.
Larger: truncated Newton is used less often. Set by hand; no measurement is recorded."""
LEADER, LED, LEAD_PASSES = "dcd", "tncg", 3
"""LEADER makes the first LEAD_PASSES passes for LED, truncated Newton. The two methods together need fewer passes than
truncated Newton alone: on rcv1-like data (200,000 rows, C = 100) 46 instead of 51 to a gap of 1e-2, 49 instead of 56 to
1e-3 and 68 instead of 80 to 1e-6."""
LEAST_WIDE = 256
"""With a free bias, the number of features up to which Newton's method is considered even if there are fewer rows than
features. Larger: Newton's method is used for wider data. Set by hand; no measurement is recorded."""
USUAL_ENTRIES = 100
"""Assumed number of entries in a sparse row if the number is unknown. Larger: longer estimates. Set by hand; no
measurement is recorded."""


class Choice(NamedTuple):
    method: type[AnyMethod]
    """The method that starts the run."""
    reason: str
    successor: Handover | None = None

    @property
    def main(self) -> type[AnyMethod]:
        """The method that is expected to take most of the run."""
        return self.method if self.successor is None or self.successor.passes > 0.0 else self.successor.method

    @property
    def from_weights(self) -> "Choice":
        """The choice for a run that starts from given weights: it skips the first passes by another method."""
        if self.successor is None or self.successor.passes > 0.0:
            return self
        return Choice(self.successor.method, self.reason, self.successor.successor)


def choose(solver: object, spec: ProblemSpec, size: Size | None, tol: float, threads: int = 1) -> Choice:
    """Choose the named method, or for "auto" the method with the shortest predicted time. If `size` is None, typical
    values are assumed."""
    if spec.task == "multiclass" and spec.strategy == "ovr":
        spec, threads = spec.of_one_class, 1  # classes are solved at the same time, each by one thread
    if solver != "auto":
        return Choice(named(solver, spec), "it was asked for")
    able = {method.name: method for method in able_methods(spec) if method.exact}
    if not able:
        raise nothing_supports(spec)
    size = _completed(size, spec)
    rivals = [name for name in RIVALS if name in able and _is_rival(name, spec)]
    expected = {name: _seconds(able[name], spec, size, tol, threads) * DOUBTS.get(name, 1.0) for name in rivals}
    if not expected:
        name = next((name for name in OTHERS if name in able), next(iter(able)))
        return Choice(able[name], f"it is the method for {spec.task} with loss {spec.loss} and bias {spec.bias}")
    first, *others = sorted(expected, key=lambda name: expected[name])
    if WIDE in others and spec.n_features > spec.n_rows:
        others.remove(WIDE)
        first, others = WIDE, [first, *others]
        reason = f"it is the fastest where there are fewer rows than features, as on {_described(spec, size)}"
    else:
        reason = f"by its pace about {expected[first]:.2g} s on {_described(spec, size)}"
        if others:
            reason += f", where {others[0]} would take about {expected[others[0]]:.2g} s"
    if not others or first not in DOUBTS:
        last_resort = _last_resort(able, first, spec, size)
        if first == LED and LEADER in able:
            return Choice(able[LEADER], reason, Handover(able[LED], 0.0, LEAD_PASSES, last_resort))
        return Choice(able[first], reason, last_resort)
    second = others[0]
    a_pass = _seconds(able[first], spec, size, tol, threads, 1)
    return Choice(able[first], reason, Handover(able[second], expected[second] / a_pass))


def _last_resort(able: dict[str, type[AnyMethod]], first: str, spec: ProblemSpec, size: Size) -> Handover | None:
    if LAST_RESORT not in able:
        return None
    needed, given = (able[name].footprint.peak(spec, size, USUAL_PLANES) for name in (LAST_RESORT, first))
    return Handover(able[LAST_RESORT], math.inf) if needed <= max(given, LAST_RESORT_BYTES) else None


def _is_rival(name: str, spec: ProblemSpec) -> bool:
    """Return whether the predicted time of this candidate is compared with those of the others.

    Truncated Newton is compared only for squared losses with n > 2 d and many features. With a free bias, Newton's
    method is compared only if there are at least as many rows as features: otherwise `alm_exact` is faster. It took a
    third of the time of Newton's method on 300 rows x 400 features, and a hundredth on 200 rows x 3,500 features.
    """
    if name == "tncg_logistic":
        return spec.n_features > LEAST_TRUNCATED
    if name != "tncg":
        return spec.bias != "free" or spec.n_features <= max(LEAST_WIDE, spec.n_rows)
    is_tall = spec.n_rows > 2 * spec.n_features
    return spec.loss_function.is_squared and is_tall and spec.n_features > LEAST_TRUNCATED


def _seconds(
    method: type[AnyMethod],
    spec: ProblemSpec,
    size: Size,
    tol: float,
    threads: int,
    most_passes: int | None = None,
) -> float:
    seconds = None if method.pace is None else method.pace.seconds(spec, size, tol, most_passes, threads)
    return float("inf") if seconds is None else seconds


def _completed(size: Size | None, spec: ProblemSpec) -> Size:
    """Fill in unknown figures: dense columns are assumed to be scaled, and sparse rows to have norm 1."""
    if size is None:
        a_row = min(spec.n_features, USUAL_ENTRIES) if spec.sparse else spec.n_features
        size = Size(spec.n_rows * a_row, 8)
    if size.squared_norm is None:
        return size._replace(squared_norm=1.0 if spec.sparse else float(spec.n_features))
    return size


def _described(spec: ProblemSpec, size: Size) -> str:
    kind = "sparse" if spec.sparse else "dense"
    cost = spec.C / spec.n_rows if spec.c_scale == "mean" else spec.C
    hardness = cost * (size.squared_norm or 0.0)
    return f"{spec.n_rows:,} {kind} rows of {spec.n_features:,} features with C |x|^2 of {hardness:.2g}"
