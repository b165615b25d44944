"""The state of `newton_logistic`."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from solvers.linalg.types import Floats
from solvers.state import State

__all__ = ["LogisticState"]

PAIRS = 8
"""Maximum number of L-BFGS pairs (a step and its change of the gradient) that correct the kept matrix. Larger: fewer
steps, more memory: a pair is two vectors as long as w. Set by hand; no measurement is recorded."""

FIRST_SOLUTION = 4.0
"""Assumed number of passes that conjugate gradients need for a Newton step, until the first step is measured. Larger:
conjugate gradients are first used later. Set by hand; no measurement is recorded."""


@dataclass(slots=True)
class LogisticState(State):
    """The state of the method. Arrays with one number per row refer to the rows of the sample."""

    phase: str  # what the trial is, as in NewtonState: "moved", "trial", "searched", "known"; "aim": none yet
    w: Floats  # weights; the last entry is the weight of the bias feature
    trial: Floats  # weights at which the next pass evaluates the rows
    u: Floats  # sum of alpha_i y_i h_i at w
    slack: Floats  # slacks at w
    trial_slack: Floats  # slacks at the trial
    gram: Floats  # upper triangle of the kept matrix, scaled to all rows
    gram_stride: int  # the kept matrix contains one in this many rows; 0: no matrix yet
    gram_steps: int  # steps taken with the kept matrix
    squares: Floats  # diagonal of the matrix of all rows of the sample, at the first weights of the sample
    squares_known: bool
    steps: Floats  # steps of the last pairs, oldest first, one per line
    changes: Floats  # changes of the gradient in these steps
    pairs: int
    stride: int  # the sample has one row in this many
    seed: int  # seed of the samples
    primal: float  # objective at w, on the sample
    slope: float  # derivative of the objective at w towards the trial
    measure: float  # the gap (on a sample: the gain of a step) one step before
    best_gap: float  # smallest gap so far
    lowest: float  # objective one step before, on the same rows
    idle: int  # steps on all rows since the gap or the objective fell
    seen: Floats  # numbers by which a warm start recognises the same problem
    iterations: int
    rows_read: int
    solve_reads: float  # passes over the sample of the last solution by conjugate gradients
    is_tangent: bool  # whether the dual point is the tangent's; `trial_slack` then has the slacks before the step

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
        """Keep a step with its change of the gradient as a pair; drop the oldest pair if there are too many."""
        if self.pairs == PAIRS:
            self.steps[:-1], self.changes[:-1] = self.steps[1:].copy(), self.changes[1:].copy()
            self.pairs -= 1
        self.steps[self.pairs], self.changes[self.pairs] = step, change
        self.pairs += 1
