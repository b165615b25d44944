"""The hinge loss of pairs of rows whose order is to be learned."""

from solvers.problem.losses.loss import Loss

__all__ = ["PairHinge"]


class PairHinge(Loss):
    name, rank, tasks = "pair_hinge", 0, ("ordinal",)
    description = "max(0, 1 - (f(x_i) - f(x_j))) for each pair of rows of which x_i should score higher"
