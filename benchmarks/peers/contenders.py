"""Who competes: each peer's algorithms for a loss, and the tolerances at which it is tried, from loose to tight.

All solve the same problem: C times the sum of losses, and a bias that is the weight of a feature 1.
"""

from typing import Any, NamedTuple

__all__ = ["SVMOCAS", "TOLERANCES", "Contender", "contenders"]

TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 1e-5, 1e-6)
SNAP_TOLERANCES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 1e-5)
"""Of the largest change of a weight, in float32."""
GRADIENT_TOLERANCES = (1e-1, 1e-2, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6, 1e-7, 1e-8)
"""Of the largest derivative of the mean loss, which scikit-learn's logistic regression stops by."""
SVMOCAS = "svmocas"
NO_LIMIT = 1_000_000
"""Of iterations: the time limit is what ends a run."""


class Contender(NamedTuple):
    """One algorithm of one peer."""

    name: str
    process: str
    """Which peer's process runs it."""
    settings: dict[str, Any]
    tolerances: tuple[float, ...]
    same_code_as: str | None = None
    """The contender whose loosest tolerances to begin with, as it runs the same code without this one's conversion."""

    def with_tolerance(self, tolerance: float) -> dict[str, Any]:
        if "flags" in self.settings:
            return {"flags": f"{self.settings['flags']} -e {tolerance}"}
        return {**self.settings, "tol": tolerance}


def contenders(loss: str, C: float, threads: int) -> list[Contender]:
    """Those that are likely to be fast first. Without svmocas, which needs no tolerances: it prints every iteration."""
    if loss == "logistic":
        return _logistic(C)
    snap = {"loss": loss, "regularizer": 1.0 / C, "fit_intercept": True, "max_iter": NO_LIMIT, "random_state": 0}
    snapml = Contender(f"snapml{_of(threads)}", "snapml", {**snap, "n_jobs": threads}, SNAP_TOLERANCES)
    kinds = (3,) if loss == "hinge" else (2, 1)
    if threads > 1:
        flags = {kind: f"-s {kind} -c {C} -m {threads}" for kind in kinds}
        multicore = "liblinear-multicore"
        return [
            snapml,
            *(Contender(f"{multicore} -s {k}", multicore, {"flags": f}, TOLERANCES) for k, f in flags.items()),
        ]
    return [
        *(Contender(f"LIBLINEAR -s {k}", "liblinear", {"flags": f"-s {k} -c {C}"}, TOLERANCES) for k in kinds),
        snapml,
        *(_linear_svc(loss, C, k) for k in kinds),
    ]


def _logistic(C: float) -> list[Contender]:
    """LIBLINEAR's trust-region Newton method and dual descent, and two methods of scikit-learn.

    scikit-learn does not regularise its own intercept: it gets the feature 1 as a column.
    """
    settings = {"C": C, "max_iter": NO_LIMIT, "fit_intercept": False}
    return [
        *(Contender(f"LIBLINEAR -s {k}", "liblinear", {"flags": f"-s {k} -c {C}"}, TOLERANCES) for k in (0, 7)),
        *(
            Contender(f"scikit-learn {solver}", "sklearn_logistic", {**settings, "solver": solver}, tolerances)
            for solver, tolerances in (("lbfgs", GRADIENT_TOLERANCES), ("newton-cholesky", GRADIENT_TOLERANCES))
        ),
    ]


def _linear_svc(loss: str, C: float, kind: int) -> Contender:
    """scikit-learn's, which contains LIBLINEAR."""
    settings = {"loss": loss, "C": C, "dual": kind != 2, "max_iter": NO_LIMIT, "random_state": 0}
    name = f"LinearSVC {'primal' if kind == 2 else 'dual'}"
    return Contender(name, "sklearn", settings, TOLERANCES, same_code_as=f"LIBLINEAR -s {kind}")


def _of(threads: int) -> str:
    return "" if threads == 1 else f" n_jobs={threads}"
