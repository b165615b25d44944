"""The state of `crammer_singer`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.linalg.types import Floats
from solvers.state import State

__all__ = ["CrammerSingerState", "FreeBiasState"]


@dataclass(slots=True)
class FreeBiasState(State):
    """What class_bias.py keeps beside the last row of W; without a free bias, `balance` is empty and nothing is
    used."""

    balance: Floats  # S_m = sum_i A_i^m, one per class
    pull: float  # strength of the proximal term
    care: int  # how carefully the centre moves; 0: several times an epoch
    rows_waited: int  # visits since the centre moved last, with care
    last_imbalance: float  # imbalance when the problem around the last centre was solved
    least_gap: float  # least gap, imbalance included, since the last look back
    least_before: float  # the same before that


@dataclass(slots=True)
class CrammerSingerState(State):
    alpha: Floats  # dual variables A_i^m, by row and class
    W: Floats  # sum_i h_i A_i', by feature and class; the last row is that of the bias feature
    bias: FreeBiasState
    order: NDArray[np.int64]  # the rows with a cost; the active ones come first
    active: int  # rows in the active set
    active_goal: float  # gap of the active rows at which all rows are visited again
    random_state: NDArray[np.uint64]
    rows_until_face: int  # visits until the shares above zero are solved together
    total_cost: float  # of the problem that this state belongs to
    epochs: int
    rows_read: int
