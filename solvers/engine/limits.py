"""When a run stops: the precision to prove, and the maximum time and passes."""

from dataclasses import dataclass

from solvers.checks import real_number, whole_number
from solvers.errors import InvalidOptions
from solvers.result import Certificate

__all__ = ["AUTO_TOL", "Limits"]

SAFETY = 0.99
"""Share of the needed gap that a run aims for, because the bound still rises. Larger: more certificates that fail."""
AUTO_TOL, AUTO_IMPROVEMENT = 1e-3, 0.99
"""The relative gap and the improvement (`Certificate.improvement`) at which `tol="auto"` stops. With rare classes the
constant model can have a relative gap below 1e-3. Smaller gap, larger improvement: more precise results, more passes.
Set by hand; no measurement is recorded."""


@dataclass(frozen=True)
class Limits:
    """When a run stops."""

    tol: float
    max_seconds: float | None
    max_passes: int | None
    improvement: float | None = None
    """Least improvement over the best constant model; None: the gap alone decides."""

    @classmethod
    def checked(cls, *, tol: object, max_seconds: object, max_passes: object) -> "Limits":
        is_auto = isinstance(tol, str) and tol == "auto"
        if isinstance(tol, str) and not is_auto:
            raise InvalidOptions("tol", f"must be a number above 0 or 'auto', not {tol!r:.60}")
        return cls(
            tol=AUTO_TOL if is_auto else real_number(tol, "tol", InvalidOptions, above=0.0),
            improvement=AUTO_IMPROVEMENT if is_auto else None,
            max_seconds=None
            if max_seconds is None
            else real_number(max_seconds, "max_seconds", InvalidOptions, above=0.0),
            max_passes=None if max_passes is None else whole_number(max_passes, "max_passes", InvalidOptions, low=1),
        )

    def are_met(self, certificate: Certificate) -> bool:
        """Return whether the certificate proves what was asked for."""
        gap, improvement = certificate.relative_gap, certificate.improvement
        if gap is None or gap > self.tol:
            return False
        return self.improvement is None or improvement is None or improvement >= self.improvement

    def needed_gap(self, certificate: Certificate, constant: float | None, floor: float) -> float:
        """Return the relative gap that proves what was asked for, as far as the bound of this certificate tells.

        improvement >= s means primal - dual_bound <= (1 - s) (P0 - dual_bound).
        """
        if self.improvement is None or certificate.improvement is None or constant is None:
            return self.tol
        assert certificate.dual_bound is not None
        possible = (1.0 - self.improvement) * (constant - certificate.dual_bound)
        return min(self.tol, SAFETY * possible / max(certificate.primal, floor))
