"""The array types that all signatures in this package use."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Floats"]

Array = NDArray[Any]
Floats = NDArray[np.float64]
