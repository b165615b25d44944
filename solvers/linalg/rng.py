"""Random numbers inside kernels: splitmix64. The state is an argument, so a seed makes runs bit-identical."""

import numpy as np
from numba import njit

from solvers.linalg.types import Array

__all__ = ["next_number", "shuffle"]


@njit(cache=True, nogil=True)
def next_number(random_state: Array) -> np.uint64:
    """Return 64 random bits and advance the state, an array of one uint64."""
    random_state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random_state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.uint64(z ^ (z >> np.uint64(31)))


@njit(cache=True, nogil=True)
def shuffle(order: Array, size: int, together: int, random_state: Array) -> None:
    """Shuffle order[:size] in groups of `together` consecutive elements; a shorter group at the end stays in place.

    All permutations of the groups are equally likely. Random numbers are scaled without division.
    """
    stretches = size // together
    for s in range(stretches):
        z = next_number(random_state) >> np.uint64(32)
        other = s + np.int64((z * np.uint64(stretches - s)) >> np.uint64(32))
        for k in range(together):
            a, b = s * together + k, other * together + k
            order[a], order[b] = order[b], order[a]
