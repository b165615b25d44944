"""Checks of array shapes that come from a file or a request."""

import math
from collections.abc import Sequence

MAX_DIMENSIONS = 32
"""Maximum dimensions of a numpy array."""
MAX_ELEMENTS = 1 << 48
"""Maximum elements, far beyond any memory; it keeps products of lengths small."""


def is_possible(shape: Sequence[int]) -> bool:
    """Whether numpy can create an array of this shape.

    An empty array needs the check too: numpy multiplies the other lengths even if one of them is 0.
    """
    if len(shape) > MAX_DIMENSIONS:  # first, because the product of many large lengths takes long
        return False
    return all(size >= 0 for size in shape) and math.prod(max(size, 1) for size in shape) <= MAX_ELEMENTS
