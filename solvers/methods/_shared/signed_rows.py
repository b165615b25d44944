"""The rows of a binary problem as one argument of a kernel, for methods that make whole passes over the data."""

from typing import NamedTuple

from solvers.linalg.types import Array
from solvers.problem.problems import BinaryProblem

__all__ = ["SignedRows", "signed_rows"]


class SignedRows(NamedTuple):
    """h_i = y_i (x_i, bias feature) and the cost of every row. For dense X, `columns` and `starts` are empty."""

    values: Array
    """The stored entries of X, row by row."""
    columns: Array
    """The column of each stored entry."""
    starts: Array
    """Index of each row's first entry, then the total number of entries (as indptr of a CSR matrix)."""
    signs: Array
    """The label y_i, -1 or 1, of each row."""
    costs: Array
    """The cost C_i of each row."""
    bias_feature: float
    """The value of the constant feature; 0 if the problem has no bias."""


def signed_rows(problem: BinaryProblem, bias_feature: float | None = None) -> SignedRows:
    """Collect the rows of a problem. `bias_feature` replaces the constant feature of a regularised bias if given."""
    constant = problem.bias_feature if bias_feature is None else bias_feature
    return SignedRows(*problem.data.flat(), problem.signs, problem.costs, constant)
