"""The convergence curve of a run, with a bounded number of points."""

from solvers.result import StepReport

__all__ = ["Trace"]

TRACE_POINTS = 512
"""Maximum number of points of a convergence curve. When it is reached, every second point is dropped. Larger: finer
curves, larger results. Set by hand; no measurement is recorded."""


class Trace:
    """Collects certified reports and every n-th other one.

    n starts at 1. Each time there are TRACE_POINTS reports, every second one is dropped and n doubles.
    """

    def __init__(self) -> None:
        self.points: list[StepReport] = []
        self._every = 1
        self._seen = 0

    def add(self, report: StepReport) -> None:
        if report.certified or self._seen % self._every == 0:
            self.points.append(report.alone())
            if len(self.points) >= TRACE_POINTS:
                self.points = self.points[::2]
                self._every *= 2
        self._seen += 1
