"""Small data sets that tests make, as text to upload."""

from typing import Any

import numpy as np
import scipy.sparse as sp

Array = np.ndarray[Any, Any]


def noisy_rows(rows: int, features: int, seed: int, flipped: float = 0.1) -> tuple[Array, Array]:
    """Two classes on both sides of a random plane, some labels flipped: never separable, slow to train exactly."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((rows, features))
    y = np.where(X @ random.standard_normal(features) > 0, 1, -1)
    return X, np.where(random.random(rows) < flipped, -y, y)


def csv_text(X: Array, y: Array) -> bytes:
    lines = [",".join([*(f"x{column}" for column in range(X.shape[1])), "label"])]
    lines += [",".join([*map(repr, row.tolist()), str(label)]) for row, label in zip(X, y.tolist(), strict=True)]
    return "\n".join(lines).encode()


def libsvm_text(X: Any, y: Array) -> bytes:
    rows = sp.csr_array(X)
    lines = []
    for number, label in enumerate(y.tolist()):
        span = slice(rows.indptr[number], rows.indptr[number + 1])
        pairs = zip(rows.indices[span].tolist(), rows.data[span].tolist(), strict=True)
        lines.append(" ".join([str(int(label)), *(f"{index + 1}:{value!r}" for index, value in pairs)]))
    return "\n".join(lines).encode()


def primal(X: Any, sign: Array, weights: dict[str, Any], C: float, power: int) -> float:
    """The objective with a regularised bias of scale 1, from the weights that the API gives out."""
    coef, intercept = np.array(weights["coef"]), weights["intercept"]
    slack = np.maximum(0, 1 - sign * (X @ coef + intercept))
    return float(0.5 * (coef @ coef + intercept**2) + C * np.sum(slack**power))
