"""Checks of array shapes that come from a file or a request."""

import math
from collections.abc import Sequence

MAX_DIMENSIONS = 32
"""Maximum number of dimensions of an array. Larger: slower checks of malicious shapes. The limit of numpy 1."""
MAX_ELEMENTS = 1 << 48
"""Maximum number of elements of an array. Far beyond any memory; it keeps products of lengths within 64 bits."""


def is_possible(shape: Sequence[int]) -> bool:
    """Return whether numpy can create an array of this shape.

    An empty array needs the check, too, because numpy multiplies the other lengths even if one length is 0.
    """
    if len(shape) > MAX_DIMENSIONS:  # checked first, because the product of many large lengths takes long
        return False
    return all(size >= 0 for size in shape) and math.prod(max(size, 1) for size in shape) <= MAX_ELEMENTS
