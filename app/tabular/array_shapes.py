"""Shapes of arrays as a file or a request says them: which of them an array can have at all."""

import math
from collections.abc import Sequence

MAX_DIMENSIONS = 32
MAX_ELEMENTS = 1 << 48


def is_possible(shape: Sequence[int]) -> bool:
    """Whether numpy can make an array of this shape.

    One that holds nothing, since a length is 0, may say anything of the others: numpy multiplies those too.
    """
    if len(shape) > MAX_DIMENSIONS:  # first: the product of many large lengths takes long to compute
        return False
    return all(size >= 0 for size in shape) and math.prod(max(size, 1) for size in shape) <= MAX_ELEMENTS
