"""The state of `crammer_singer`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.linalg.types import Floats
from solvers.state import State

__all__ = ["CrammerSingerState", "FreeBiasState"]


@dataclass(slots=True)
class FreeBiasState(State):
    """The state of a free bias, in addition to the last row of W. If the bias is not free, `balance` is empty and the
    other fields are unused."""

    balance: Floats  # S_m = sum_i A_i^m, one per class
    pull: float  # strength of the proximal term
    care: int  # 0: the centre moves several times per epoch; larger: it waits longer (class_bias.py)
    rows_waited: int  # rows visited since the last move of the centre (used if care > 0)
    last_imbalance: float  # imbalance when the problem around the last centre was solved
    least_gap: float  # smallest gap, imbalance included, since the last decision whether to raise `care`
    least_before: float  # smallest gap before that decision


@dataclass(slots=True)
class CrammerSingerState(State):
    alpha: Floats  # dual variables A_i^m, by row and class
    W: Floats  # sum_i h_i A_i', by feature and class; the last row belongs to the bias feature
    bias: FreeBiasState
    order: NDArray[np.int64]  # the rows with a positive cost, active ones first
    active: int  # number of active rows
    active_goal: float  # gap of the active rows at which all rows become active again
    random_state: NDArray[np.uint64]
    rows_until_face: int  # rows to visit before the next joint solve of all shares above zero
    total_cost: float  # total cost of the problem, by which a warm start recognises the same problem
    epochs: int
    rows_read: int
