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
    """The weighted Gram matrix of the curved rows: those whose term has a second derivative > 0 (row_terms.py)."""

    matrix: Floats  # upper triangle
    summed: NDArray[np.bool_]  # the rows of the sample that are in the matrix
    summed_stride: int  # the matrix considered one in this many rows of the sample; 0: none yet
    peak: float  # largest trace since the matrix was last summed from zero
    stride: int  # the next matrix considers one in this many of all rows


@dataclass(slots=True)
class NewtonState(State):
    """The state of the method. Arrays with one number per row refer to the rows of the sample."""

    phase: str
    # The kind of the trial. "trial": compared with w before it is accepted. "moved": w itself, on another smoothed
    # problem. "searched": the minimum along a line. "known": the same, with known slacks. The last three are accepted
    # without a comparison. "aim": no trial yet.
    w: Floats  # weights; the last entry is the weight of the bias feature
    trial: Floats  # weights at which the next pass evaluates the rows
    u: Floats  # sum of alpha_i y_i h_i (targets: alpha_i h_i) at w
    slack: Floats  # slacks at w
    trial_slack: Floats  # slacks at the trial
    before: Floats  # multipliers: shares at the last width; empty: none
    squares: Floats  # sums of C_i h_i^2; for squared losses over the curved rows, otherwise over all rows
    squares_known: bool
    least_share: float  # see factor_hessian
    gram: GramState
    stride: int  # the sample has one row in this many
    seed: int  # seed of the samples
    h: float  # width over which the kink is smoothed
    last_blur: float  # blur when the multipliers were last updated
    smooth: float  # smoothed objective at w
    slope: float  # derivative of the smoothed objective at w towards the trial
    gap: float  # gap between w and the unscaled alpha, on all rows
    blur: float  # contribution of the smoothing to the gap, relative to the objective
    misfit: float  # contribution of the gradient to the gap, relative to the objective
    spread: float  # mean loss of the rows
    stretch: float  # factor on alpha that maximises the dual bound
    best_gap: float  # smallest gap so far
    lowest: float  # smoothed objective one step before, if it was the same objective
    idle: int  # steps on all rows since the gap or the objective fell
    seen: Floats  # numbers by which a warm start recognises the same problem
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
