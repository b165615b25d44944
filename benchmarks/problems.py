"""The binary problems of the comparison with peers: how each set is scaled and split, its objective, its stored arrays.

A set is made once and kept in the cache folder as plain arrays, which children map into memory. Sets that lie beside
the project may be missing; generated ones never are.
"""

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.data import SHARED, is_sparse, load, ndc, rcv1_like

__all__ = ["CACHE", "FULL", "QUICK", "SMALL", "BinarySet", "objective", "opened", "store", "why_missing"]

CACHE = Path(__file__).resolve().parents[1] / ".bench"
"""Data, references and results of runs: git-ignored, and safe to delete."""

Floats = NDArray[np.float64]


class BinarySet(NamedTuple):
    """Rows and their signs."""

    name: str
    X: Any
    signs: Floats
    folder: Path
    """Where the arrays are stored."""
    fingerprint: str
    """Of the arrays: a result for other numbers is no result for these."""

    @property
    def nonzeros(self) -> int:
        return int(self.X.nnz if is_sparse(self.X) else np.count_nonzero(self.X))

    @property
    def nbytes(self) -> int:
        X = self.X
        return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if is_sparse(X) else X.nbytes)


def objective(X: Any, signs: Floats, loss: str, C: float, w: Floats) -> float:
    """P of weights whose last one is that of the bias feature 1."""
    if loss == "logistic":
        return 0.5 * float(w @ w) + C * float(np.logaddexp(0.0, -signs * (X @ w[:-1] + w[-1])).sum())
    slack = np.maximum(0.0, 1.0 - signs * (X @ w[:-1] + w[-1]))
    return 0.5 * float(w @ w) + C * float((slack if loss == "hinge" else slack * slack).sum())


def _one_class(name: str, positive: Callable[[NDArray[Any]], NDArray[np.bool_]], scaled: str | None = None) -> Any:
    def make() -> tuple[Any, Floats]:
        X, y = load(name)
        if scaled == "max":
            X /= np.abs(X).max(axis=0).clip(min=1e-12)
        elif scaled == "standard":
            deviation = X.std(axis=0)
            X = (X - X.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
        elif scaled == "bytes":
            X /= 255.0
        return X, np.where(positive(y), 1.0, -1.0)

    return make


def _highest(y: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(y == y.max())


def _commonest(y: NDArray[Any]) -> NDArray[np.bool_]:
    values, counts = np.unique(y, return_counts=True)
    return np.asarray(y == values[counts.argmax()])


def _first_half(y: NDArray[Any]) -> NDArray[np.bool_]:
    values = np.unique(y)
    return np.isin(y, values[: values.size // 2])


def _covtype_rows(n_rows: int) -> Any:
    def make() -> tuple[Any, Floats]:
        X, signs = _one_class("covtype", lambda y: y == 2, "max")()
        rows = np.random.default_rng(0).permutation(signs.size)[:n_rows]
        return np.ascontiguousarray(X[rows]), signs[rows]

    return make


def _clusters(n_rows: int) -> Any:
    def make() -> tuple[Any, Floats]:
        X, y = ndc(n_rows)
        return X, y.astype(np.float64)

    return make


def _texts(n_rows: int) -> Any:
    def make() -> tuple[Any, Floats]:
        X, y = rcv1_like(n_rows)
        return X, y.astype(np.float64)

    return make


_MAKERS: dict[str, Callable[[], tuple[Any, Floats]]] = {
    "a9a": _one_class("a9a", _highest),
    "w8a": _one_class("w8a", _highest),
    "ijcnn1": _one_class("ijcnn1", _highest),
    "magic04": _one_class("magic04", _highest, "standard"),
    "madelon": _one_class("madelon", _highest, "standard"),
    "spambase": _one_class("spambase", _highest, "standard"),
    "covtype 100k": _covtype_rows(100_000),
    "rcv1_like 20k": _texts(20_000),
    "connect_4": _one_class("connect_4", _commonest),
    "shuttle": _one_class("shuttle", _commonest, "standard"),
    "skin_nonskin": _one_class("skin_nonskin", _highest, "standard"),
    "news20_text": _one_class("news20_text", _first_half),
    "mnist": _one_class("mnist", lambda y: y % 2 == 0, "bytes"),
    "covtype": _one_class("covtype", lambda y: y == 2, "max"),
    "NDC 1M": _clusters(1_000_000),
    "rcv1_like 200k": _texts(200_000),
    "rcv1_like 800k": _texts(804_414),
    "NDC 7M": _clusters(7_000_000),
}
SMALL = ("a9a", "w8a", "ijcnn1", "magic04", "madelon", "spambase", "covtype 100k", "rcv1_like 20k")
FULL = tuple(name for name in _MAKERS if name not in ("covtype 100k", "rcv1_like 20k"))
"""The comparison with peers, from small to large."""
QUICK = ("a9a", "w8a", "magic04", "news20_text", "NDC 1M")
"""Some of it: sparse rows and dense ones, few features and many, few rows and many. The last one needs no file."""


def opened(name: str) -> BinarySet:
    """The set, made and stored if it is not there yet. Raises FileNotFoundError if its source is missing."""
    folder = CACHE / "data" / name.replace(" ", "_")
    if not (folder / "about.json").exists():
        store(folder, *_MAKERS[name]())
    arrays = {path.stem: np.load(path) for path in folder.glob("*.npy")}
    about = json.loads((folder / "about.json").read_text())
    if "indptr" in arrays:
        parts = arrays["data"], arrays["indices"], arrays["indptr"]
        X: Any = sp.csr_matrix(parts, shape=tuple(about["shape"]))
    else:
        X = arrays["X"]
    return BinarySet(name, X, arrays["labels"], folder, about["fingerprint"])


def why_missing(name: str) -> str | None:
    """None if the set can be had."""
    generated = name.startswith(("NDC", "rcv1_like"))
    source = SHARED / name.split()[0]
    return None if generated or source.exists() else f"{source.name} is not beside the project"


def store(folder: Path, X: Any, labels: NDArray[Any]) -> None:
    """As arrays that other processes can map."""
    folder.mkdir(parents=True, exist_ok=True)
    if is_sparse(X):
        X.sort_indices()
        arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "labels": labels}
    else:
        arrays = {"X": np.ascontiguousarray(X), "labels": labels}
    checksum = 0
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        checksum = zlib.crc32(memoryview(array).cast("B"), checksum)
    # Last, so that a folder that was begun and not finished is made again.
    about = {"shape": list(X.shape), "fingerprint": f"{checksum:08x}"}
    (folder / "about.json").write_text(json.dumps(about))
