"""Compile all that is ever compiled, ahead of use: `make kernels` and the making of an image run this module."""

import solvers
from app.datasets import formats
from app.preprocess import measure_columns, scaling, text_counts
from app.worker import dense_sums


def warm_all() -> None:
    """Into numba's cache on disk."""
    solvers.warm_up()
    for kernels in (formats, measure_columns, scaling, text_counts, dense_sums):
        kernels.warm()


if __name__ == "__main__":
    warm_all()
