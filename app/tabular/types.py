"""The array types of every signature in this package."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Floats", "Ints"]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
