"""Trains on a service: uploads the rows, trains a model and fetches its weights. Asks it for prediction sets."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hyperplane._estimators.problems import Problem, Solution, gaps_of
from hyperplane._shared.types import Certificate
from hyperplane._sync.client import Client

__all__ = ["sets_from", "train_there"]

AS_THEY_ARE = {"scale": "none", "missing": "error"}
"""Preprocessing of rows that are numbers already: none."""
ROWS_A_REQUEST = 10_000
"""Rows of one predict request. Larger: fewer requests, which the service can refuse as too large. Set by
hand; no measurement is recorded."""


def train_there(problem: Problem, remote: "str | Client", model: str, folds: int | None = None) -> Solution:
    """Train on the service with this URL, or with this client. Each training adds a version to `model`.

    `folds`: number of fold models that the service keeps with the model, for prediction sets.
    """
    with _client(remote) as client:
        return _train(problem, client, model, folds)


def sets_from(remote: "str | Client", model_id: str, X: Any, coverage: float, n_classes: int | None) -> Any:
    """Return the prediction sets of a model of the service: whether each class is in the set, or both ends.

    `n_classes`: number of classes, whose labels are 0, 1, 2 and so on; None: the model predicts numbers.
    """
    sets: list[Any] = []
    with _client(remote) as client:
        for start in range(0, X.shape[0], ROWS_A_REQUEST):
            rows = X[start : start + ROWS_A_REQUEST]
            answer = client.models.predict(model_id, rows, outputs=["set"], coverage=float(coverage))
            sets += [one["set"] for one in answer["predictions"]]
    if n_classes is not None:
        return np.array([[label in one for label in range(n_classes)] for one in sets])
    return np.array([[_end(one["low"], -np.inf), _end(one["high"], np.inf)] for one in sets])


def _end(value: float | None, unbounded: float) -> float:
    return unbounded if value is None else value


@contextmanager
def _client(remote: "str | Client") -> Iterator[Client]:
    if isinstance(remote, Client):
        yield remote
        return
    with Client(remote) as client:
        yield client


def _train(problem: Problem, client: Client, model: str, folds: int | None) -> Solution:
    arrays = {"weight": problem.weight, "group": problem.groups}
    given = {name: array for name, array in arrays.items() if array is not None}
    dataset = client.datasets.create((problem.X, problem.y), name=model, **given)
    class_weight = problem.parameters.get("class_weight")
    parameters = {
        **problem.parameters,
        "class_weight": None if class_weight is None else {str(key): value for key, value in class_weight.items()},
    }
    job = client.jobs.train(
        dataset,
        model=model,
        solver=problem.solver,
        tol=problem.tol,
        stop={"passes": problem.max_passes, "seconds": None},
        seed=problem.seed,
        preprocess=AS_THEY_ARE,
        cross_validation=folds,
        **parameters,
    ).wait()
    weights = client.models.weights(job.model_id)
    result: dict[str, Any] = job["result"]
    thresholds = weights["thresholds"]
    return Solution(
        coef=np.array(weights["coef"], dtype=np.float64),
        intercept=np.array(weights["intercept"], dtype=np.float64),
        thresholds=None if thresholds is None else np.array(thresholds, dtype=np.float64),
        certificate=Certificate(result["certificate"]),
        gaps=gaps_of(result["certificate"]),
        solver=result["solver"],
        converged=result["converged"],
        passes=job["passes"],
        model_id=job["model_id"],
    )
