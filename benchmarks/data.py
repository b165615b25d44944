"""The data that measurements run on: the shared real sets, and generated ones of any size.

`load` reads a set that lies beside the project and is not part of it. `ndc` generates normally distributed
clusters, the data of the large runs in the ASVM paper, `rcv1_like` texts of the shape of Reuters' RCV1.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["Clusters", "is_sparse", "load", "ndc", "rcv1_like"]

SHARED = Path(__file__).resolve().parents[1] / "../shared/data"
BLOCK = 65_536
TERMS, TOKENS_A_ROW = 47_236, 77.3
"""RCV1's, and as many tokens as leave 75 different terms a row on average."""


def is_sparse(X: Any) -> bool:
    """scipy's own test tells a type checker that X is of a class without any attributes."""
    return bool(sp.issparse(X))


def load(name: str, split: str = "train") -> tuple[Any, NDArray[Any]]:
    """(X, y) of a shared set, X as float64: an array or a CSR matrix. Raises FileNotFoundError if it is not there."""
    with np.load(SHARED / name / f"{split}.npz", allow_pickle=False) as stored:
        if "indptr" in stored:
            parts = stored["data"].astype(np.float64), stored["indices"], stored["indptr"]
            return sp.csr_matrix(parts, shape=tuple(stored["shape"])), stored["y"]
        return np.ascontiguousarray(stored["X"], dtype=np.float64), stored["y"]


class Clusters(NamedTuple):
    """What NDC draws once: where the clusters are, how wide, how likely, and of which class."""

    centers: NDArray[np.float64]
    widths: NDArray[np.float64]
    shares: NDArray[np.float64]
    classes: NDArray[np.int8]

    @classmethod
    def drawn(cls, n_features: int, *, n_clusters: int, spread: float, seed: int) -> "Clusters":
        """Centres uniform in a cube of side 2; a random plane through its middle decides the class of each centre.

        `spread` is the mean standard deviation of a cluster in each direction: the wider, the less separable.
        """
        random = np.random.default_rng([seed, 0])
        centers = random.uniform(-1.0, 1.0, (n_clusters, n_features))
        sides = centers @ random.standard_normal(n_features)
        return cls(
            centers=centers,
            widths=spread * random.uniform(0.5, 1.5, (n_clusters, n_features)),
            shares=random.dirichlet(np.ones(n_clusters)),
            classes=np.where(sides > np.median(sides), 1, -1).astype(np.int8),
        )


def ndc(
    n_rows: int,
    n_features: int = 32,
    *,
    n_clusters: int = 100,
    spread: float = 0.57,
    dtype: type[np.floating[Any]] = np.float64,
    seed: int = 0,
    part: int = 0,
) -> tuple[NDArray[Any], NDArray[np.int8]]:
    """n_rows points of normally distributed clusters, and their classes, -1 or 1.

    The rows are written block by block into the array that is returned: there is never a second copy. Equal
    `seed` means equal clusters; different `part`s are different points of them, for testing. More rows
    continue fewer. The default spread makes the best plane about as good as in the paper.
    """
    clusters = Clusters.drawn(n_features, n_clusters=n_clusters, spread=spread, seed=seed)
    widths, centers = clusters.widths.astype(dtype), clusters.centers.astype(dtype)
    X = np.empty((n_rows, n_features), dtype=dtype)
    y = np.empty(n_rows, dtype=np.int8)
    whole = np.empty((BLOCK, n_features), dtype=dtype)
    for number, first in enumerate(range(0, n_rows, BLOCK)):
        rows = slice(first, min(first + BLOCK, n_rows))
        random = np.random.default_rng([seed, 1 + part, number])
        cluster = random.choice(n_clusters, size=BLOCK, p=clusters.shares)[: rows.stop - rows.start]
        random.standard_normal(dtype=dtype, out=whole)  # float32 or float64
        X[rows] = whole[: rows.stop - rows.start]
        X[rows] *= widths[cluster]
        X[rows] += centers[cluster]
        y[rows] = clusters.classes[cluster]
    return X, y


def rcv1_like(
    n_rows: int, *, dtype: type[np.floating[Any]] = np.float64, seed: int = 0
) -> tuple[sp.csr_matrix, NDArray[np.int8]]:
    """n_rows texts of 47,236 terms, 75 different ones a row, as tf-idf rows of length 1, and their classes, -1 or 1.

    Terms occur by a Zipf-Mandelbrot law, rare and frequent ones mixed as in a hashed or alphabetical vocabulary; texts
    are of very different lengths. A tenth of the terms tell the class, with noise that contradicts them in 8 % of
    rows. More rows continue fewer.
    """
    random = np.random.default_rng([seed, 0])
    shares = 1.0 / (np.arange(TERMS) + 20.0)
    cumulated = np.cumsum(shares / shares.sum())
    column_of_rank = random.permutation(TERMS).astype(np.int64)
    rarity = np.empty(TERMS)
    rarity[column_of_rank] = -np.log(-np.expm1(-TOKENS_A_ROW * shares / shares.sum()))
    weights = random.standard_normal(TERMS) * (random.random(TERMS) < 0.1)
    blocks, classes = [], []
    for number, first in enumerate(range(0, n_rows, BLOCK)):
        wanted = min(BLOCK, n_rows - first)
        random = np.random.default_rng([seed, 1, number])
        lengths = 1 + random.poisson(random.gamma(2.5, TOKENS_A_ROW / 2.5, BLOCK))
        noise = random.standard_normal(BLOCK)[:wanted]
        lengths = lengths[:wanted]
        ranks = np.minimum(np.searchsorted(cumulated, random.random(int(lengths.sum()))), TERMS - 1)
        tokens = np.repeat(np.arange(wanted), lengths) * TERMS + column_of_rank[ranks]
        entries, counts = np.unique(tokens, return_counts=True)
        rows, columns = np.divmod(entries, TERMS)
        values = (1.0 + np.log(counts)) * rarity[columns]
        values /= np.sqrt(np.bincount(rows, values * values, wanted))[rows]
        starts = np.searchsorted(rows, np.arange(wanted + 1))
        block = sp.csr_matrix((values.astype(dtype), columns.astype(np.int32), starts), shape=(wanted, TERMS))
        score = block @ weights
        blocks.append(block)
        classes.append(np.where(score + 0.25 * np.sqrt(weights @ weights / TERMS) * noise > 0.0, 1, -1))
    return sp.vstack(blocks, format="csr", dtype=dtype), np.concatenate(classes).astype(np.int8)
