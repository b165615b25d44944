"""Random training problems with the shapes and accidents that real data has, for the solver suite."""

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support.logistic_reference import DenseLogistic, DenseMultinomial
from tests.support.solver_reference import Dense, row_costs
from tests.support.task_reference import DenseMulticlass, DenseOneVsRest, DenseOrdinal, DenseRegression

SOAK = int(os.environ.get("HYPERPLANE_SOAK_EXAMPLES", "1"))
EXPONENTS = {"hinge": 1.0, "squared_hinge": 2.0}


def examples(count):
    """Hypothesis settings for `count` problems a test, multiplied when soaking."""
    return settings(
        max_examples=count * SOAK,
        deadline=None,
        derandomize=SOAK == 1,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@dataclass(frozen=True)
class Case:
    """A problem as a user would state it."""

    X: np.ndarray
    labels: np.ndarray
    definition: dict[str, Any]
    """Arguments of solvers.train that say what the problem is."""

    def stored(self, storage, dtype):
        X = self.X.astype(dtype)
        return sp.csr_array(X) if storage == "csr" else X

    @property
    def task(self):
        return self.definition["task"]

    def dense(self, dtype=np.float64):
        """The judge of this problem; `dtype` is what the solver was given, so rounding is the same."""
        d, n = self.definition, self.labels.size
        X = self.X.astype(dtype).astype(np.float64)
        if self.task == "ordinal":
            weights = np.ones(n) if d["sample_weight"] is None else d["sample_weight"]
            groups = np.zeros(n) if d["groups"] is None else d["groups"]
            return DenseOrdinal(X, self.labels, groups, weights, d["C"], d["c_scale"])
        if self.task == "regression":
            costs = row_costs(
                np.ones(n), C=d["C"], c_scale=d["c_scale"], sample_weight=d["sample_weight"], class_weight=None
            )
            p = 2.0 if d["loss"].startswith("squared") else 1.0
            return DenseRegression(X, self.labels, costs, p, d["epsilon"], d["bias"], d["bias_scale"])
        costs = row_costs(
            self.labels,
            C=d["C"],
            c_scale=d["c_scale"],
            sample_weight=d["sample_weight"],
            class_weight=d["class_weight"],
        )
        classes, codes = np.unique(self.labels, return_inverse=True)
        if self.task == "multiclass" and d["strategy"] == "ovr":
            return DenseOneVsRest([self._against_rest(X, codes == k, label) for k, label in enumerate(classes)])
        if self.task == "multiclass":
            joint = DenseMultinomial if d["strategy"] == "multinomial" else DenseMulticlass
            return joint(X, codes, classes.size, costs, d["bias"], d["bias_scale"])
        signs = np.where(codes == 1, 1.0, -1.0)
        if d["loss"] == "logistic":
            return DenseLogistic(X, signs, costs, d["bias"], d["bias_scale"])
        return Dense(
            X=X,
            signs=signs,
            costs=costs,
            p=EXPONENTS.get(d["loss"], d["p"]),
            bias=d["bias"],
            bias_scale=d["bias_scale"],
        )

    def _against_rest(self, X, is_own, label):
        """A class's weight counts for its own rows only."""
        d = self.definition
        rest = row_costs(
            self.labels, C=d["C"], c_scale=d["c_scale"], sample_weight=d["sample_weight"], class_weight=None
        )
        table = d["class_weight"] or {}
        weight = self.labels.size / (np.unique(self.labels).size * is_own.sum())
        costs = np.where(is_own, weight if table == "balanced" else table.get(label, 1.0), 1.0) * rest
        signs = np.where(is_own, 1.0, -1.0)
        if d["loss"] == "logistic":
            return DenseLogistic(X, signs, costs, d["bias"], d["bias_scale"])
        return Dense(X, signs, costs, EXPONENTS[d["loss"]], d["bias"], d["bias_scale"])

    def with_rows(self, rows, *, sample_weight="same"):
        """The same problem on chosen rows, in that order, repeats allowed."""
        weights, groups = self.definition["sample_weight"], self.definition["groups"]
        if isinstance(sample_weight, str):
            sample_weight = None if weights is None else weights[rows]
        groups = None if groups is None else groups[rows]
        changed = self.changed(sample_weight=sample_weight, groups=groups)
        return replace(changed, X=self.X[rows], labels=self.labels[rows])

    def mirrored(self):
        """The same problem with the order of its labels turned round, so that its weights change sign or places."""
        if self.task == "regression":
            return replace(self, labels=-self.labels)
        classes, codes = np.unique(self.labels, return_inverse=True)
        return replace(self, labels=classes[::-1][codes])

    def changed(self, **definition):
        return replace(self, definition={**self.definition, **definition})


@st.composite
def cases(draw, *, loss, bias, c_scale, task="binary", strategy="crammer_singer"):
    """Small problems: tall, wide or one column; separable or not; with every kind of awkward row."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    n = draw(st.integers(2, 40 if task == "binary" else 24), label="rows")
    d = draw(st.one_of(st.just(1), st.integers(1, 12), st.integers(30, 60)), label="columns")
    X = random.standard_normal((n, d))
    X[random.random((n, d)) > draw(st.sampled_from([1.0, 0.5, 0.1]), label="density")] = 0.0
    X *= draw(st.sampled_from([1.0, 0.1, 3.0]), label="scale")
    if draw(st.booleans(), label="constant column"):
        X[:, random.integers(d)] = draw(st.sampled_from([1.0, -2.0]))
    if draw(st.booleans(), label="empty column"):
        X[:, random.integers(d)] = 0.0
    if draw(st.booleans(), label="duplicate rows"):
        X[random.integers(n, size=n // 2)] = X[random.integers(n)]
    if draw(st.booleans(), label="empty row"):
        X[random.integers(n)] = 0.0
    score = X @ random.standard_normal(d)
    if not draw(st.booleans(), label="separable"):
        score = score + 2.0 * random.standard_normal(n)
    labels, class_weight = _labels(draw, score, task)

    sample_weight = None
    if draw(st.booleans(), label="sample weights"):
        sample_weight = random.choice([0.0, 0.5, 1.0, 3.0], size=n)
        sample_weight[:2] = 1.0
    groups = None
    if task == "ordinal" and draw(st.booleans(), label="groups"):
        groups = random.integers(0, draw(st.integers(1, 4)), size=n)
        groups[:2] = 0
    C = draw(st.sampled_from([0.01, 0.3, 1.0, 10.0]), label="C")
    definition = {
        "task": task,
        "strategy": strategy,
        "loss": loss,
        "p": draw(st.sampled_from([1.0, 1.1, 1.5, 2.0]), label="p") if loss == "hinge_p" else None,
        "C": C * n if c_scale == "mean" else C,
        "c_scale": c_scale,
        "bias": bias,
        "bias_scale": draw(st.sampled_from([1.0, 0.5, 4.0]), label="bias scale"),
        "sample_weight": sample_weight,
        "class_weight": class_weight,
        "groups": groups,
        "epsilon": draw(st.sampled_from([0.0, 0.1, 1.0]), label="epsilon") if task == "regression" else 0.1,
    }
    return Case(X, labels, definition)


def _labels(draw, score, task):
    """(labels, class weights)"""
    if task == "regression":
        return score * draw(st.sampled_from([1.0, 30.0]), label="unit") + draw(st.sampled_from([0.0, 5.0])), None
    return _binary_labels(draw, score) if task == "binary" else _many_labels(draw, score, task)


def _binary_labels(draw, score):
    positive = score > np.quantile(score, draw(st.sampled_from([0.5, 0.2, 0.9]), label="balance"))
    positive[0], positive[1] = True, False
    names = draw(st.sampled_from([(-1, 1), (0, 1), ("no", "yes"), (2.5, 7.5), (False, True)]), label="labels")
    tables = [None, "balanced", {names[0]: 0.5, names[1]: 2.0}, {names[1]: 3.0}]
    return np.where(positive, names[1], names[0]), draw(st.sampled_from(tables), label="class weight")


def _many_labels(draw, score, task):
    """At least two distinct ones; ordinal: numbers, perhaps all different; multi-class: of any kind."""
    n, most = score.size, 5 if task == "multiclass" else score.size
    codes = (
        np.argsort(np.argsort(score, kind="stable"), kind="stable") * draw(st.integers(2, most), label="labels") // n
    )
    codes[0], codes[1] = 1, 0
    if task == "ordinal":
        return draw(st.sampled_from([codes, codes - 3, codes * 0.25, codes**2 * 1e-3]), label="ranks"), None
    count = codes.max() + 1
    names = draw(st.sampled_from([np.arange(count), np.array([f"class {c:03}" for c in range(count)])]), label="names")
    table = draw(st.sampled_from([None, "balanced", {names[0]: 0.5, names[1]: 2.0}]), label="class weight")
    return names[codes], table
