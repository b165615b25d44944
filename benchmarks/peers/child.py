"""One peer in a process of its own: converts data once, then trains as often as it is asked to.

Runs by the Python of the peers' environment, where nothing else of this project can be imported. Requests and answers
are lines of JSON on the standard streams. Each training is a forked child of this one, so that one that takes too long
can be killed while the converted data stays.
"""

import itertools
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

LOOK_SECONDS = 0.05
"""How often a training that is not over is looked at; the answer itself comes at once."""
SPARSE_BELOW = 0.5
"""The density below which a dense array is handed over as CSR: fewer bytes to read."""


def main(kind: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the libraries print is no answer
    peers: dict[str, Callable[[], Any]] = {
        "liblinear": _Liblinear,
        "sklearn": _ScikitLearn,
        "sklearn_logistic": _LogisticRegression,
        "snapml": _SnapMl,
    }
    peer = peers[kind]()
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "load":
            X, y = _read(Path(request["folder"]))
            began = time.perf_counter()
            peer.convert(X, y)
            answer: dict[str, Any] = {"seconds": time.perf_counter() - began}
        else:
            limit = _over_after(request["limit"], request["clock"])
            answer = _train(peer, request["settings"], limit, Path(request["weights"]))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _read(folder: Path) -> tuple[Any, Any]:
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}
    y = np.array(arrays["labels"], dtype=np.float64)
    if "indptr" in arrays:
        shape = tuple(json.loads((folder / "about.json").read_text())["shape"])
        return sp.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape), y
    return arrays["X"], y


def _over_after(limit: float, clock: str) -> Callable[[int, float], bool]:
    """Whether a process has used up its limit: of seconds by the clock, or of the processor's."""

    def is_over(pid: int, began: float) -> bool:
        if clock == "seconds":
            return time.perf_counter() - began > limit
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") > limit

    return is_over


def _train(peer: Any, settings: dict[str, Any], is_over: Callable[[int, float], bool], weights: Path) -> dict[str, Any]:
    """The seconds of one training, its weights in a file; without seconds if it was not over in time."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    trainer = multiprocessing.get_context("fork").Process(target=_report, args=(peer, settings, weights, sender))
    trainer.start()
    sender.close()
    try:
        receiver.recv()  # it begins now
        began = time.perf_counter()
        while not receiver.poll(LOOK_SECONDS):
            if is_over(trainer.pid or 0, began):
                return {}
        answer: dict[str, Any] = receiver.recv()
        return answer
    except EOFError:
        return {"error": f"ended with {trainer.exitcode}"}
    finally:
        trainer.kill()
        trainer.join()


def _report(peer: Any, settings: dict[str, Any], weights: Path, sender: Connection) -> None:
    warnings.filterwarnings("ignore")  # of tolerances that were not reached: the gap tells
    peer.touch()
    sender.send(None)
    began, began_cpu = time.perf_counter(), time.process_time()
    try:
        trained = peer.fit(settings)
    except Exception as problem:
        sender.send({"error": str(problem)})
        return
    answer = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - began_cpu}
    np.save(weights, peer.weights(trained))
    sender.send(answer)


def _as_given(X: Any) -> Any:
    """As CSR if that is smaller."""
    if sp.issparse(X) or np.count_nonzero(X[:10_000]) > SPARSE_BELOW * X[:10_000].size:
        return X
    return sp.csr_matrix(X)


def _as_csr(X: Any) -> Any:
    if sp.issparse(X) or np.count_nonzero(X) < X.size:
        return sp.csr_matrix(X)
    # Without the lists of indices that scipy makes on the way: they are twice the data.
    columns = np.tile(np.arange(X.shape[1], dtype=np.int32), X.shape[0])
    return sp.csr_matrix((X.reshape(-1), columns, np.arange(0, X.size + 1, X.shape[1])), shape=X.shape)


class _Estimator:
    """What scikit-learn and Snap ML have in common: they take arrays, and convert them inside `fit`."""

    make: Callable[..., Any]

    def convert(self, X: Any, y: Any) -> None:
        self.X, self.y = _as_given(X), y

    def touch(self) -> None:
        """Map what the fork did not bring along, before the clock runs."""
        parts = (self.X.data, self.X.indices) if hasattr(self.X, "indices") else (self.X.reshape(-1),)
        for array in parts:
            array[::512].sum()

    def fit(self, settings: dict[str, Any]) -> Any:
        return self.make(**settings).fit(self.X, self.y)

    def weights(self, model: Any) -> Any:
        return np.append(np.ravel(model.coef_), np.ravel(model.intercept_)[0]).astype(np.float64)


class _ScikitLearn(_Estimator):
    def __init__(self) -> None:
        from sklearn.svm import LinearSVC

        self.make = LinearSVC


class _LogisticRegression(_Estimator):
    """scikit-learn's. Its own intercept is not regularised, so the feature 1 is a column of X."""

    def __init__(self) -> None:
        from sklearn.linear_model import LogisticRegression

        self.make = LogisticRegression

    def convert(self, X: Any, y: Any) -> None:
        given: Any = _as_given(X)
        ones: Any = np.ones((given.shape[0], 1))
        self.X: Any = sp.csr_matrix(sp.hstack([given, ones])) if hasattr(given, "indptr") else np.hstack([given, ones])
        self.y = y

    def weights(self, model: Any) -> Any:
        return np.ravel(model.coef_).astype(np.float64)


class _SnapMl(_Estimator):
    def __init__(self) -> None:
        from snapml import SupportVectorMachine

        self.make = SupportVectorMachine


class _Liblinear:
    """LIBLINEAR's own Python interface, of either edition."""

    def __init__(self) -> None:
        from liblinear import liblinearutil

        self.library = liblinearutil
        for index_type, writeable in itertools.product((np.int32, np.int64), (False, True)):  # compiles its conversion
            small = sp.csr_matrix(np.eye(2))
            small.indptr = small.indptr.astype(index_type)
            for array in (small.data, small.indices, small.indptr):
                array.flags.writeable = writeable
            self.library.problem(np.array([1.0, -1.0]), small, 1)

    def convert(self, X: Any, y: Any) -> None:
        self.n_features = X.shape[1]
        self.problem = self.library.problem(y, _as_csr(X), 1)

    def touch(self) -> None:
        self.problem.x_space["index"][::256].sum()

    def fit(self, settings: dict[str, Any]) -> Any:
        return self.library.train(self.problem, self.library.parameter(f"{settings['flags']} -B 1 -q"))

    def weights(self, model: Any) -> Any:
        """Bias last; for several vectors one column each, in the order of the labels."""
        labels = [0] if model.is_regression_model() else list(model.get_labels())
        vectors = 1 if len(labels) == 2 and model.param.solver_type != 4 else len(labels)
        weights = np.array(model.w[: (self.n_features + 1) * vectors]).reshape(-1, vectors)
        if vectors == 1:
            return weights[:, 0] if len(labels) == 1 or labels[0] > labels[1] else -weights[:, 0]
        return weights[:, np.argsort(labels)]


if __name__ == "__main__":
    main(sys.argv[1])
