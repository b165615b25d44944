"""Certifying anew: what given weights are worth on given data, by a dual point that a run kept or one found here.

Nothing of the run that found the weights is trusted: the problem is built from the data, the primal value computed
from the weights, and the dual point made feasible before it counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .certificates import certify as certify_point
from .driver import REFINED
from .dual_refinement import DualRefinement
from .errors import InvalidProblem
from .formulation import build_problem, one_against_rest
from .labels import read_labels
from .one_vs_rest import sum_of_classes
from .problem import BinaryProblem, Problem
from .protocol import Point
from .result import Certificate
from .rows import as_rows
from .setting import check_class_weight, resolve_setting

__all__ = ["Verdict", "certify"]

REFINEMENTS = 8
"""How often a dual point that is found here is improved; each takes a few passes over the data."""


class Verdict(NamedTuple):
    """What weights are worth."""

    certificate: Certificate
    per_class: list[Certificate] | None
    """Of the problems of which the certificate is the sum, if classes are told one against the rest."""


def certify(
    X: Any,
    y: Any,
    coef: Any,
    intercept: Any,
    bounding: Sequence[Point] | None = None,
    *,
    task: str = "auto",
    strategy: str = "ovr",
    loss: str = "auto",
    p: float | None = None,
    C: float = 1.0,
    c_scale: str = "sum",
    bias: str = "regularized",
    bias_scale: float = 1.0,
    sample_weight: Any = None,
    class_weight: Mapping[Any, float] | str | None = None,
    groups: Any = None,
    epsilon: float = 0.1,
) -> Verdict:
    """The certificate of (coef, intercept) on this data; the arguments mean what they mean to `train`.

    `bounding` is what a `SolveResult` has under this name. Without it a bound is found here, a weaker one.
    """
    data = as_rows(X)
    labels = read_labels(y, task)
    if labels.n_rows != data.n_rows:
        raise InvalidProblem("y", f"has {labels.n_rows} labels for {data.n_rows} rows of X")
    setting = resolve_setting(
        n_rows=data.n_rows,
        n_features=data.n_features,
        n_classes=labels.n_classes,
        sparse=data.sparse,
        task=task,
        strategy=strategy,
        loss=loss,
        p=p,
        C=C,
        c_scale=c_scale,
        bias=bias,
        bias_scale=bias_scale,
        epsilon=epsilon,
    )
    weights = {"sample_weight": sample_weight, "class_weight": check_class_weight(class_weight)}
    is_multiclass = setting.task == "multiclass"
    shape = (labels.classes.size, data.n_features) if is_multiclass else (data.n_features,)
    coef = np.ascontiguousarray(coef, dtype=np.float64)
    if coef.shape != shape:
        raise InvalidProblem("coef", f"has shape {coef.shape}; weights of shape {shape} are needed")
    if is_multiclass and setting.strategy == "ovr":
        problems = one_against_rest(setting.of_one_class, data, labels, **weights)
        points = [Point(coef[k], float(intercept[k]), None) for k in range(len(problems))]
        kept: Sequence[Point | None] = bounding or [None] * len(problems)
        parts = [_certify(*one) for one in zip(problems, points, kept, strict=True)]
        return Verdict(sum_of_classes(problems, parts), parts)
    problem = build_problem(setting, data, labels, groups=groups, **weights)
    bias_of_point = np.asarray(intercept, dtype=np.float64) if is_multiclass else float(intercept)
    return Verdict(_certify(problem, Point(coef, bias_of_point, None), bounding[0] if bounding else None), None)


def _certify(problem: Problem, point: Point, bounding: Point | None) -> Certificate:
    if bounding is None:
        return _refined(problem, point)
    if bounding.alpha is not None or bounding.planes is not None:
        return certify_point(problem, point._replace(alpha=bounding.alpha, planes=bounding.planes))
    # The bound is what the margins of these other weights suggest.
    own, other = certify_point(problem, point), certify_point(problem, bounding)
    if other.dual_bound is None or (own.dual_bound is not None and own.dual_bound >= other.dual_bound):
        return own
    gap = max(0.0, own.primal - other.dual_bound)
    return Certificate(own.primal, other.dual_bound, gap, gap / max(own.primal, problem.primal_floor), other.method)


def _refined(problem: Problem, point: Point) -> Certificate:
    """With the best dual point that can be found from the weights alone."""
    best = certify_point(problem, point)
    if not (isinstance(problem, BinaryProblem) and DualRefinement.fits(problem) and np.isfinite(point.coef).all()):
        return best
    refinement = DualRefinement(problem)
    for _ in range(REFINEMENTS):
        alpha = refinement.refined(point.coef, float(point.intercept))
        found = certify_point(problem, point._replace(alpha=alpha))
        if best.gap is None or (found.gap is not None and found.gap < best.gap):
            best = Certificate(found.primal, found.dual_bound, found.gap, found.relative_gap, REFINED)
    return best
