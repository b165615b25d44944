"""The proof of a model's bound: the dual point that its certificate rests on, as a safetensors file beside the model.

For each of the problems that were solved (one, or one a class) one of
    alpha      a number a row (of jointly trained classes a row and class); where most are zero, only the others
    planes     the weights at which planes were cut, and their multipliers
    weights    the bound is what the margins of these weights suggest; the model's own, if none are there
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from app.storage import BlobStore
from app.tabular.types import Array
from solvers import Planes, Point, SolveResult

MOST_BYTES = 64 << 20


class UnusableProof(Exception):
    """It is missing, damaged or of other rows; the message says which."""


def encode_proof(result: SolveResult) -> bytes | None:
    """The file; None if it would be too large to keep."""
    coefs = np.atleast_2d(result.coef) if result.per_class is not None else [result.coef]
    arrays: dict[str, Array] = {}
    for number, (point, coef) in enumerate(zip(result.bounding, coefs, strict=True)):
        arrays |= {f"{number}.{name}": array for name, array in _packed(point, coef).items()}
    if sum(array.nbytes for array in arrays.values()) > MOST_BYTES:
        return None
    metadata = {"format": "hyperplane-proof", "version": "1", "problems": str(len(result.bounding))}
    return safetensors.numpy.save(arrays, metadata=metadata)


def read_proof(blobs: BlobStore, sha256: str, problems: int, coef: Array, intercept: Any) -> list[Point]:
    """What was written, for a model with these weights. Raises UnusableProof."""
    if not blobs.is_intact(sha256):
        raise UnusableProof("the stored dual point is missing or damaged")
    try:
        arrays = safetensors.numpy.load(blobs.path(sha256).read_bytes())
        coefs, intercepts = (coef, intercept) if problems > 1 else ([coef], [intercept])
        return [_unpacked(arrays, f"{number}.", coefs[number], intercepts[number]) for number in range(problems)]
    except (SafetensorError, KeyError, ValueError, IndexError):
        raise UnusableProof("the stored dual point has another format") from None


def _packed(point: Point, coef: Array) -> dict[str, Array]:
    if point.planes is not None:
        used = point.planes.multipliers > 0.0
        weights, multipliers = point.planes.weights[used], point.planes.multipliers[used]
        return {"planes.weights": np.ascontiguousarray(weights), "planes.multipliers": multipliers}
    if point.alpha is not None:
        flat = np.ascontiguousarray(point.alpha, dtype=np.float64).reshape(-1)
        (places,) = np.nonzero(flat)
        shape = np.array(point.alpha.shape, dtype=np.int64)
        if 2 * len(places) >= len(flat):
            return {"alpha": flat, "alpha.shape": shape}
        return {"alpha.places": places.astype(np.int64), "alpha.values": flat[places], "alpha.shape": shape}
    if np.array_equal(point.coef, coef):
        return {}
    return {"coef": np.ascontiguousarray(point.coef), "intercept": np.atleast_1d(np.asarray(point.intercept))}


def _unpacked(arrays: dict[str, Array], prefix: str, coef: Array, intercept: Any) -> Point:
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    if "planes.weights" in own:
        return Point(coef, intercept, None, Planes(own["planes.weights"], own["planes.multipliers"]))
    if "alpha.shape" in own:
        shape: Sequence[int] = own["alpha.shape"].tolist()
        flat = own.get("alpha")
        if flat is None:
            flat = np.zeros(math.prod(shape))
            flat[own["alpha.places"]] = own["alpha.values"]
        return Point(coef, intercept, flat.reshape(shape))
    if "coef" in own:
        other = own["intercept"]
        return Point(own["coef"], other if coef.ndim == 2 else float(other[0]), None)
    return Point(coef, intercept, None)
