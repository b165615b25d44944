"""The convergence curve, thinned by halves so that its length stays bounded."""

from solvers.result import StepReport

__all__ = ["Trace"]

TRACE_POINTS = 512


class Trace:
    """Collects reports: every certified one, and of the others one in `step`."""

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
