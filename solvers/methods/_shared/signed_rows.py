"""The rows of a binary problem as one argument of a kernel, for the methods that read them in passes."""

from typing import NamedTuple

from solvers.linalg.types import Array
from solvers.problem.problems import BinaryProblem

__all__ = ["SignedRows", "signed_rows"]


class SignedRows(NamedTuple):
    """h_i = y_i (x_i, bias feature) of every row, with its cost. Dense rows have no columns and no starts."""

    values: Array
    """The stored entries of X, row by row."""
    columns: Array
    """The column of each entry."""
    starts: Array
    """Where each row begins among the entries, and where the last one ends."""
    signs: Array
    """y_i"""
    costs: Array
    """C_i"""
    bias_feature: float
    """The value of the constant feature; 0 without one."""


def signed_rows(problem: BinaryProblem, bias_feature: float | None = None) -> SignedRows:
    """Collect the rows of a problem. The constant feature is that of its regularised bias unless one is given."""
    constant = problem.bias_feature if bias_feature is None else bias_feature
    return SignedRows(*problem.data.flat(), problem.signs, problem.costs, constant)
