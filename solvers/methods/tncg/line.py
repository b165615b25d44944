"""A step of truncated Newton, as the kernels that choose its length see it."""

from typing import NamedTuple

__all__ = ["LONGEST", "STEEP", "Line"]

STEEP = 0.25
"""Share of the slope at the start of a step. If P still falls more steeply at its end, longer steps are looked at."""
LONGEST = 8.0
"""Longest step, as a multiple of the step that minimises the quadratic model."""


class Line(NamedTuple):
    """P along a step s from w, apart from the rows, and what a step must reach to be taken whole."""

    ws: float
    """w . s"""
    ss: float
    """s . s"""
    slope: float
    """The derivative of P at w along s."""
    least_decrease: float
    """The decrease of P from which a whole step is taken."""
    is_drowned: bool
    """Whether the decrease is below the rounding of P and has to come from the slopes at both ends."""
    is_least: bool
    """Whether s has the least residual: it is then never lengthened."""
