"""The state of Newton's method on the features, for squared and smoothed losses."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from solvers.linalg.types import Floats
from solvers.state import State

__all__ = ["GramState", "NewtonState"]


@dataclass(slots=True)
class GramState(State):
    """The weighted Gram matrix of the rows that curve."""

    matrix: Floats  # upper triangle
    summed: NDArray[np.bool_]  # the rows of the sample that are in it
    summed_stride: int  # which rows of the sample were looked at: one in this many; 0: none yet
    peak: float  # the largest trace since it was summed from zero
    stride: int  # which rows of all are looked at next: one in this many


@dataclass(slots=True)
class NewtonState(State):
    """Arrays with a number for each row are of the rows of the sample."""

    phase: str
    # What the trial is: "trial" is compared with w before it is taken. "moved" (to another smooth problem), "searched"
    # (the minimum of a line) and "known" (the same, with its slacks) are taken as they are. "aim": there is none yet.
    w: Floats  # weights; the weight of the bias feature is last
    trial: Floats  # the weights to read the rows at
    u: Floats  # sum of alpha_i y_i h_i (targets: alpha_i h_i) at w
    slack: Floats  # at w
    trial_slack: Floats  # at the trial
    before: Floats  # multipliers: shares at the last width; empty: none
    squares: Floats  # sums of C_i h_i^2, squared losses: of the rows that curve; others: of all rows
    squares_known: bool
    least_share: float  # see newton_direction
    gram: GramState
    stride: int  # the sample has one row in this many
    seed: int  # of the samples
    h: float  # width over which the kink is smoothed
    last_blur: float  # blur when multipliers were taken last
    smooth: float  # the smooth objective at w
    slope: float  # its derivative at w towards the trial
    gap: float  # the gap of alpha unscaled, on all rows
    blur: float  # what smoothing adds to the gap, relative to the objective
    misfit: float  # what the gradient adds to it
    spread: float  # mean loss of the rows
    stretch: float  # factor that makes alpha the best dual point
    best_gap: float
    lowest: float  # the smooth objective one step before, if it was the same objective
    idle: int  # steps on all rows since the gap or the objective fell
    seen: Floats  # numbers that tell this problem from others
    iterations: int
    rows_read: int

    @classmethod
    def new(cls, k: int, least_share: float, stride: int, seed: int, seen: Floats) -> Self:
        """Return the state before the first step, with k weights, at w = 0 and without arrays of rows."""
        nothing = np.zeros(0)
        return cls(
            phase="moved",
            w=np.zeros(k),
            trial=np.zeros(k),
            u=np.zeros(k),
            slack=nothing,
            trial_slack=nothing,
            before=nothing,
            squares=np.zeros(k),
            squares_known=False,
            least_share=least_share,
            gram=GramState(matrix=np.zeros((k, k)), summed=nothing > 0.0, summed_stride=0, peak=0.0, stride=1),
            stride=stride,
            seed=seed % 2**31,
            h=0.5,
            last_blur=0.0,
            smooth=math.inf,
            slope=0.0,
            gap=math.inf,
            blur=0.0,
            misfit=0.0,
            spread=0.0,
            stretch=1.0,
            best_gap=math.inf,
            lowest=math.inf,
            idle=0,
            seen=seen,
            iterations=0,
            rows_read=0,
        )
