"""What "auto" means: the method that is likely to be the fastest for a problem of this shape, and why.

The hinge losses and regression have several good methods, each for some shapes of data. Their paces (cost.py),
fitted to runs, tell which is likely to be the fastest. How slow coordinate descent will be is the hardest to foretell;
it hands over to the next once that would be faster, by passes and not by the clock, so that a run can be repeated.
Truncated Newton is led in by a few passes of it, which get further than its own first steps.
Where rounding stops a rival far from the optimum (large C on data that can be separated), a slow and patient method
begins anew. For other tasks there is one method that is meant for them.
"""

import math
from typing import Any, NamedTuple

from solvers.cost import USUAL_PLANES, Size
from solvers.engine.handover import Handover
from solvers.engine.registry import able_methods, named, nothing_supports
from solvers.method import Method
from solvers.problem.spec import ProblemSpec

__all__ = ["CANDIDATES", "Choice", "choose"]

RIVALS = ("dcd", "newton", "smooth_newton", "svr_dual", "tncg")
OTHERS = ("crammer_singer", "cpa_ordinal", "alm_exact")
"""For what no rival can do, the first that can."""
CANDIDATES = (*RIVALS, *OTHERS)
"""All that can be chosen, also as a successor."""
LAST_RESORT = "alm_exact"
LAST_RESORT_BYTES = 64 << 20
"""It may need so much where the rival needs less: nobody has asked whether there is room for it."""
DOUBTS = {"dcd": 1.15, "svr_dual": 1.15}
"""What descent will need is known least, and it is the slowest where it disappoints."""
WIDE = "svr_dual"
"""Where there are fewer rows than features it takes few passes for any C, which its pace does not know: 300 dense rows
of 1,000 features took it 2 to 8 ms for C from 0.01 to 100, and Newton's methods 66 to 840."""
LEAST_TRUNCATED = 1000
"""Features; with fewer, factoring a matrix of them is faster than truncated Newton, whatever the paces say."""
LEADER, LED, LEAD_PASSES = "dcd", "tncg", 3
"""From weights of so many passes of descent truncated Newton reads less, these included: on rcv1-like texts 46 times in
place of 51 to a gap of 1e-2, 49 in place of 56 to 1e-3 and 68 in place of 80 to 1e-6 (200k rows, C = 100)."""
LEAST_WIDE = 256
"""Features; with fewer, a matrix of them is nothing, and Newton's method the fastest also where rows are few."""
USUAL_ENTRIES = 100
"""Of a sparse row, if nobody has counted."""


class Choice(NamedTuple):
    method: type[Method[Any, Any]]
    """What the run begins with."""
    reason: str
    successor: Handover | None = None

    @property
    def main(self) -> type[Method[Any, Any]]:
        """What takes most of the run, as far as is foreseen."""
        return self.method if self.successor is None or self.successor.passes > 0.0 else self.successor.method

    @property
    def from_weights(self) -> "Choice":
        """The same for a run that begins with weights: nothing has to lead it in."""
        if self.successor is None or self.successor.passes > 0.0:
            return self
        return Choice(self.successor.method, self.reason, self.successor.successor)


def choose(solver: object, spec: ProblemSpec, size: Size | None, tol: float, threads: int = 1) -> Choice:
    """The named method, or for "auto" the one that is likely to be the fastest; a size of None is guessed."""
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


def _last_resort(able: dict[str, type[Method[Any, Any]]], first: str, spec: ProblemSpec, size: Size) -> Handover | None:
    if LAST_RESORT not in able:
        return None
    needed, given = (able[name].footprint.peak(spec, size, USUAL_PLANES) for name in (LAST_RESORT, first))
    return Handover(able[LAST_RESORT], math.inf) if needed <= max(given, LAST_RESORT_BYTES) else None


def _is_rival(name: str, spec: ProblemSpec) -> bool:
    """Truncated Newton is slow on hinge, and where features outnumber rows, however kind its pace is to it.

    A matrix of features x features is, too: with a free bias, which descent cannot do, `alm_exact` took a third of the
    time of 300 rows of 400 features, and a hundredth of that of 200 rows of 3,500.
    """
    if name != "tncg":
        return spec.bias != "free" or spec.n_features <= max(LEAST_WIDE, spec.n_rows)
    is_tall = spec.n_rows > 2 * spec.n_features
    return spec.loss_function.is_squared and is_tall and spec.n_features > LEAST_TRUNCATED


def _seconds(
    method: type[Method[Any, Any]],
    spec: ProblemSpec,
    size: Size,
    tol: float,
    threads: int,
    most_passes: int | None = None,
) -> float:
    seconds = None if method.pace is None else method.pace.seconds(spec, size, tol, most_passes, threads)
    return float("inf") if seconds is None else seconds


def _completed(size: Size | None, spec: ProblemSpec) -> Size:
    """What is not known of it is that of scaled columns, or of sparse rows of length 1."""
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
