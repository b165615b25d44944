"""Judges the certificates of hostile problems in exact arithmetic: of what solvers return, and of made-up points."""

import warnings
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

import solvers
from solvers.certificates import certify
from solvers.method import Planes, Point
from solvers.problem.problems import BinaryProblem, MulticlassProblem, OrdinalProblem
from tests.support.exact import at_most, exact, exact_squared_hinge_optimum, faults_of, is_loose, primal, ulps
from tests.support.hostile_problems import hostile_problem

TOL, MOST_PASSES = 1e-6, 60


@dataclass
class Judged:
    """What was seen over many problems."""

    counts: Counter = field(default_factory=Counter)
    faults: list = field(default_factory=list)
    largest_excess: float = 0.0
    """Of a bound over a value that the optimum does not exceed, in units of its last place; 0 if there is none."""

    def note_excess(self, bound, value):
        if bound is not None and not at_most(exact(bound), value):
            self.largest_excess = max(self.largest_excess, ulps(float(bound), value))


def judge_solution(seed, judged):
    """A solver's result on the problem of a seed, which draws the solver too."""
    stated = hostile_problem(seed)
    able = [name for name, of in solvers.available().items() if _can(of, stated.definition)]
    solver = str(np.random.default_rng([seed, 1]).choice([*able, "auto"]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overflow is what these problems are made for
            problem = stated.built()
            result = solvers.train(
                stated.X, stated.y, solver=solver, tol=TOL, max_passes=MOST_PASSES, **stated.arguments
            )
    except solvers.SolverError:
        judged.counts["refused"] += 1
        return
    except Exception as error:
        judged.faults.append(f"solution {seed} by {solver}: raised {error!r}")
        return
    judged.counts[result.status.value] += 1
    bounding = result.bounding[0]
    point = Point(result.coef, result.intercept, bounding.alpha, bounding.planes)
    certificate = result.certificate
    value = primal(problem, point.coef, point.intercept)
    judged.note_excess(certificate.dual_bound, value)
    judged.counts["loose primal value"] += is_loose(problem, point, certificate)
    faults = []
    if result.converged != (certificate.relative_gap is not None and certificate.relative_gap <= TOL):
        faults.append(f"status {result.status} with a relative gap of {certificate.relative_gap}")
    if bounding.alpha is None and not isinstance(problem, OrdinalProblem):
        judged.counts["bound from margins"] += 1
    else:
        faults += faults_of(problem, point, certificate)
    is_small = isinstance(problem, BinaryProblem) and problem.loss.is_squared and problem.spec.bias != "free"
    if is_small and seed % 4 == 1:
        optimum = exact_squared_hinge_optimum(problem, point.coef, point.intercept)
        if optimum is not None and certificate.dual_bound is not None:
            judged.counts["exact optimum known"] += 1
            judged.note_excess(certificate.dual_bound, optimum)
            if not at_most(exact(certificate.dual_bound), optimum):
                faults.append(f"bound above the exact optimum by {ulps(certificate.dual_bound, optimum):.3g} ulps")
            if not at_most(value - optimum, exact(certificate.gap)):
                faults.append(f"gap {certificate.gap} below the exact one")
    judged.faults += [f"solution {seed} by {solver}: {fault}" for fault in faults]


def judge_made_up(seed, judged):
    """Certify random weights with a random dual point, near each other or not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem = hostile_problem(seed).built()
    except solvers.SolverError:
        judged.counts["refused"] += 1
        return
    point = _made_up_point(problem, np.random.default_rng([seed, 2]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        certificate = certify(problem, point, None if seed % 2 else TOL)
    judged.counts["made up"] += 1
    if not np.isfinite(certificate.primal):
        judged.counts["not finite"] += 1
        return
    judged.note_excess(certificate.dual_bound, primal(problem, point.coef, point.intercept))
    judged.faults += [f"made up {seed}: {fault}" for fault in faults_of(problem, point, certificate)]


def _made_up_point(problem, random):
    n, d, costs = problem.data.n_rows, problem.data.n_features, problem.costs
    reach = max(float(np.median(problem.data.lengths())), 1e-300)
    scale = 10.0 ** random.uniform(-4, 2) / min(reach, 1e300)
    intercept = float(random.standard_normal()) if problem.spec.bias != "none" else 0.0
    if isinstance(problem, MulticlassProblem):
        k = problem.classes.size
        alpha = -random.random((n, k)) * costs[:, None] * 10.0 ** random.uniform(-6, 0.5)
        return Point(scale * random.standard_normal((k, d)), intercept * random.standard_normal(k), alpha)
    if isinstance(problem, OrdinalProblem):
        planes = Planes(scale * random.standard_normal((3, d)), random.random(3))
        return Point(scale * random.standard_normal(d), 0.0, None, planes)
    alpha = random.random(n) * costs * 10.0 ** random.uniform(-6, 0.5)
    alpha[random.random(n) < 0.3] = 0.0
    coef = scale * random.standard_normal(d)
    if isinstance(problem, BinaryProblem) and random.random() < 0.5:
        with np.errstate(over="ignore", invalid="ignore"):
            coef = problem.weights_of(alpha)[:d]
        coef = coef if np.isfinite(coef).all() else np.zeros(d)
    elif not isinstance(problem, BinaryProblem):
        alpha *= random.choice([-1.0, 1.0], n)
    return Point(coef, intercept, alpha)


def _can(described, definition):
    given = (definition["task"], "tasks"), (definition["loss"], "losses"), (definition["bias"], "biases")
    return all(value in described[key] for value, key in given)
