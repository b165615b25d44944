"""The proof of a certificate: the weights and the dual point that it was computed from, as a safetensors file.

    solver.coef, solver.intercept   the weights in the units of the solver; absent if the model's own are the same
                                    (there is no preprocessing), or if the file would be too large with them

For each solved problem (one, or one per class) the file contains one of:
    alpha      one number per row (jointly trained classes: per row and class); if most are zero, only the others
    planes     the weights at which planes were cut, and their multipliers
    weights    the weights whose margins give the dual point; if absent, the model's own weights
"""

import math
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from app.storage import BlobStore
from app.tabular.types import Array
from solvers import Planes, Point, SolveResult

MOST_BYTES = 64 << 20
"""Maximum bytes of a proof. Larger: more certificates can be verified exactly, more disk space. Set by hand; no
measurement is recorded."""


class UnusableProof(Exception):
    """The proof is missing, damaged or belongs to other rows; the message says which."""


class Weights(NamedTuple):
    """Weights in the units of the solver."""

    coef: Array
    intercept: Any


class Proof(NamedTuple):
    weights: Weights | None
    """The certified weights; None: not stored."""
    points: list[Point]
    """One dual point for each problem that was solved."""


def encode_proof(result: SolveResult, *, with_weights: bool) -> bytes | None:
    """Encode the file; None if it would be too large. `with_weights`: the model stores its weights in other units."""
    own = [Weights(result.coef, result.intercept)]
    if result.per_class is not None:
        own = [Weights(*one) for one in zip(result.coef, np.asarray(result.intercept).tolist(), strict=True)]
    arrays: dict[str, Array] = {}
    for number, (point, weights) in enumerate(zip(result.bounding, own, strict=True)):
        arrays |= {f"{number}.{name}": array for name, array in _packed(point, weights).items()}
    certified = {"solver.coef": result.coef, "solver.intercept": np.atleast_1d(np.asarray(result.intercept))}
    if with_weights and _size(arrays) + _size(certified) <= MOST_BYTES:
        arrays |= certified
    if _size(arrays) > MOST_BYTES:
        return None
    metadata = {"format": "hyperplane-proof", "version": "1", "problems": str(len(result.bounding))}
    return safetensors.numpy.save(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata=metadata
    )


def read_proof(blobs: BlobStore, sha256: str, problems: int, n_rows: int, weights: Weights) -> Proof:
    """Decode the file for a model with these weights and `n_rows` training rows. Raises UnusableProof."""
    if not blobs.is_intact(sha256):
        raise UnusableProof("the stored dual point is missing or damaged")
    try:
        arrays = safetensors.numpy.load(blobs.path(sha256).read_bytes())
        certified = _weights(arrays, weights)
        coef, intercept = certified or weights
        coefs, intercepts = (coef, intercept) if problems > 1 else ([coef], [intercept])
        points = [
            _unpacked(arrays, f"{number}.", n_rows, coefs[number], intercepts[number]) for number in range(problems)
        ]
        return Proof(certified, points)
    except (SafetensorError, KeyError, ValueError, IndexError):
        raise UnusableProof("the stored dual point has another format") from None


def _size(arrays: dict[str, Array]) -> int:
    return sum(array.nbytes for array in arrays.values())


def _weights(arrays: dict[str, Array], expected: Weights) -> Weights | None:
    if "solver.coef" not in arrays:
        return None
    coef, intercept = arrays["solver.coef"], arrays["solver.intercept"]
    if coef.shape != expected.coef.shape or intercept.shape != np.atleast_1d(expected.intercept).shape:
        raise ValueError("the stored weights and the weights of the model have different shapes")
    return Weights(coef, intercept if coef.ndim == 2 else float(intercept[0]))


def _packed(point: Point, weights: Weights) -> dict[str, Array]:
    if point.planes is not None:
        used = point.planes.multipliers > 0.0
        planes, multipliers = point.planes.weights[used], point.planes.multipliers[used]
        return {"planes.weights": np.ascontiguousarray(planes), "planes.multipliers": multipliers}
    if point.alpha is not None:
        flat = np.ascontiguousarray(point.alpha, dtype=np.float64).reshape(-1)
        (places,) = np.nonzero(flat)
        shape = np.array(point.alpha.shape, dtype=np.int64)
        if 2 * len(places) >= len(flat):
            return {"alpha": flat, "alpha.shape": shape}
        return {"alpha.places": places.astype(np.int64), "alpha.values": flat[places], "alpha.shape": shape}
    if np.array_equal(point.coef, weights.coef) and np.array_equal(point.intercept, weights.intercept):
        return {}
    return {"coef": np.ascontiguousarray(point.coef), "intercept": np.atleast_1d(np.asarray(point.intercept))}


def _unpacked(arrays: dict[str, Array], prefix: str, n_rows: int, coef: Array, intercept: Any) -> Point:
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    if "planes.weights" in own:
        if own["planes.weights"].shape != (own["planes.multipliers"].size, coef.size):
            raise ValueError("the stored planes do not match the number of weights or multipliers")
        return Point(coef, intercept, None, Planes(own["planes.weights"], own["planes.multipliers"]))
    if "alpha.shape" in own:
        shape = tuple(own["alpha.shape"].tolist())
        if shape != ((n_rows, len(coef)) if coef.ndim == 2 else (n_rows,)):
            raise UnusableProof("the stored dual point belongs to other rows")
        flat = own.get("alpha")
        if flat is None:
            flat = np.zeros(math.prod(shape))
            flat[own["alpha.places"]] = own["alpha.values"]
        return Point(coef, intercept, flat.reshape(shape))
    if "coef" in own:
        other = own["intercept"]
        return Point(own["coef"], other if coef.ndim == 2 else float(other[0]), None)
    return Point(coef, intercept, None)
