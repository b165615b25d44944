"""A step of truncated Newton, as input of the kernels that choose its length."""

from typing import NamedTuple

__all__ = ["LONGEST", "STEEP", "Line"]

STEEP = 0.25
"""If the slope of P at the end of a step is steeper than this fraction of the slope at its start, longer steps are
tried. Larger: longer steps are tried less often. Set by hand; no measurement is recorded."""
LONGEST = 8.0
"""Longest step, as a multiple of the minimiser of the quadratic model. Larger: fewer Newton steps from bad starts, more
evaluations per search. Set by hand; no measurement is recorded."""


class Line(NamedTuple):
    """P along a step s from w, without the rows' terms, and the condition for taking the whole step."""

    ws: float
    """The scalar product w . s."""
    ss: float
    """The squared norm s . s."""
    slope: float
    """Derivative of P at w along s."""
    least_decrease: float
    """Least decrease of P for which the whole step is taken."""
    is_drowned: bool
    """Whether the decrease is below the rounding of P, so that the slopes at both ends must measure it."""
    is_least: bool
    """Whether s is the combination of least residual, which is never lengthened."""
