"""The state of `newton_logistic`."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from solvers.linalg.types import Floats
from solvers.state import State

__all__ = ["LogisticState"]

PAIRS = 8
"""Most pairs of steps and gradient changes that correct the kept matrix. More: fewer steps, and 2 k numbers each."""

FIRST_SOLUTION = 4.0
"""Reads that conjugate gradients are expected to take before they were tried."""


@dataclass(slots=True)
class LogisticState(State):
    """Arrays with a number for each row are of the rows of the sample."""

    phase: str  # what the trial is, as in NewtonState: "moved", "trial", "searched", "known"; "aim": there is none yet
    w: Floats  # weights; the weight of the bias feature is last
    trial: Floats  # the weights to read the rows at
    u: Floats  # sum of alpha_i y_i h_i at w
    slack: Floats  # at w
    trial_slack: Floats  # at the trial
    gram: Floats  # the matrix that was summed last, scaled to all rows: upper triangle
    gram_stride: int  # which rows are in it: one in this many; 0: none
    gram_steps: int  # steps taken with it
    squares: Floats  # its diagonal for all rows of the sample, at the weights where the sample was entered
    squares_known: bool
    steps: Floats  # of the last pairs, oldest first; one a row
    changes: Floats  # of the gradient
    pairs: int
    stride: int  # the sample has one row in this many
    seed: int  # of the samples
    primal: float  # the objective at w, on the sample
    slope: float  # its derivative at w towards the trial
    measure: float  # the gap (on a sample: the gain of a step) one step before
    best_gap: float
    lowest: float  # the objective one step before, on the same rows
    idle: int  # steps on all rows since the gap or the objective fell
    seen: Floats  # numbers that tell this problem from others
    iterations: int
    rows_read: int
    solve_reads: float  # reads of the sample that the last solution by conjugate gradients took
    is_tangent: (
        bool  # whether the shares of the dual point are the tangent's; `trial_slack` is then that before the step
    )

    @classmethod
    def new(cls, k: int, stride: int, seed: int, seen: Floats) -> Self:
        nothing = np.zeros(0)
        return cls(
            phase="moved",
            w=np.zeros(k),
            trial=np.zeros(k),
            u=np.zeros(k),
            slack=nothing,
            trial_slack=nothing,
            gram=np.zeros((k, k)),
            gram_stride=0,
            gram_steps=0,
            squares=np.zeros(k),
            squares_known=False,
            steps=np.zeros((PAIRS, k)),
            changes=np.zeros((PAIRS, k)),
            pairs=0,
            stride=stride,
            seed=seed % 2**31,
            primal=math.inf,
            slope=0.0,
            measure=math.inf,
            best_gap=math.inf,
            lowest=math.inf,
            idle=0,
            seen=seen,
            iterations=0,
            rows_read=0,
            solve_reads=FIRST_SOLUTION,
            is_tangent=False,
        )

    def keep_pair(self, step: Floats, change: Floats) -> None:
        """Keep a step with the change of the gradient that it made; the oldest pair gives way."""
        if self.pairs == PAIRS:
            self.steps[:-1], self.changes[:-1] = self.steps[1:].copy(), self.changes[1:].copy()
            self.pairs -= 1
        self.steps[self.pairs], self.changes[self.pairs] = step, change
        self.pairs += 1
