"""The starting point of a run: reads `warm_start` (a result, a state or weights) and checks it against the data."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from solvers.data.rows import Rows
from solvers.engine.one_vs_rest import class_states
from solvers.errors import InvalidOptions
from solvers.method import AnyMethod, Start
from solvers.result import Counts, SolveResult
from solvers.state import StoredState

__all__ = ["read_start", "starts_of_classes"]


def read_start(warm_start: Any, method: type[AnyMethod], data: Rows, n_classes: int | None, *, resume: bool) -> Start:
    """Check `warm_start` and return the start of a run. `n_classes` is None for a single vector of weights."""
    if warm_start is None:
        return Start()
    if isinstance(warm_start, SolveResult):
        if _is_state_for(warm_start.state, method, data):
            return _start_at(warm_start.state, resume=False)
        warm_start = warm_start.coef, warm_start.intercept
    if isinstance(warm_start, Mapping):
        if warm_start.get("solver") != method.name:
            raise InvalidOptions("warm_start", f"is not a state of solver {method.name}; give weights instead")
        return _start_at(dict(warm_start), resume=resume)
    coef, intercept = warm_start if isinstance(warm_start, tuple) and len(warm_start) == 2 else (warm_start, 0.0)
    try:
        coef, intercept = np.array(coef, dtype=np.float64), np.array(intercept, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidOptions("warm_start", "must be a result, a state, weights or (weights, intercept)") from None
    of_classes = () if n_classes is None else (n_classes,)
    wanted = (*of_classes, data.n_features)
    if coef.shape != wanted:
        raise InvalidOptions("warm_start", f"has weights of shape {coef.shape}; shape {wanted} is needed")
    if intercept.shape not in ((), of_classes):
        raise InvalidOptions("warm_start", f"has an intercept of shape {intercept.shape}; shape {of_classes} is needed")
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise InvalidOptions("warm_start", "has weights that are NaN or infinite; give finite numbers")
    return Start(coef=coef, intercept=np.broadcast_to(intercept, of_classes) if of_classes else float(intercept))


def _start_at(state: StoredState, *, resume: bool) -> Start:
    """Return the start at an earlier state. The counts of the state are kept only with `resume`."""
    counts, own = Counts.taken_from(state)
    return Start(state=own, counts=counts) if resume else Start(state=own)


def starts_of_classes(start: Start, n_classes: int, *, resume: bool) -> list[Start]:
    """Split the start of a run into the starts of its classes."""
    if start.state is not None:
        states = class_states(start.state, n_classes)
        return [Start() if state is None else _start_at(state, resume=resume) for state in states]
    if start.coef is None:
        return [Start()] * n_classes
    intercepts = np.broadcast_to(start.intercept, (n_classes,))
    return [Start(coef=start.coef[k], intercept=float(intercepts[k])) for k in range(n_classes)]


def _is_state_for(state: StoredState, method: type[AnyMethod], data: Rows) -> bool:
    """Return whether a result's state fits this method and these rows. If not, only its weights are used."""
    alphas = [value for name, value in state.items() if name == "alpha" or name.endswith(".alpha")]
    return state.get("solver") == method.name and all(np.shape(alpha)[:1] == (data.n_rows,) for alpha in alphas)
