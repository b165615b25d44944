"""A small problem of several classes, or of ranked rows, for tests of the certificates' error terms."""

import numpy as np

from solvers.data.rows import as_rows
from solvers.problem.build import build_problem
from solvers.problem.labels import read_labels
from solvers.problem.spec import resolve_spec

N, D, K, BIAS_SCALE = 17, 3, 3, 1.7
RANDOM = np.random.default_rng(8)
X = RANDOM.standard_normal((N, D))
COSTS = RANDOM.uniform(0.2, 3.0, N)
CODES = np.arange(N) % K
RANKS = np.array([0, 1, 2, 3, 4, 2, 0, 1, 3, 0, 1, 2, 1, 0, 2, 2, 3])
GROUPS = np.array([0] * 9 + [1] * 8)
COEF, BIAS = RANDOM.standard_normal((K, D)), RANDOM.standard_normal(K)


def built(task, bias="none", costs=COSTS, **data_arguments):
    labels = read_labels(CODES if task == "multiclass" else RANKS, task)
    loss = "hinge" if task == "multiclass" else "pair_hinge"
    spec = resolve_spec(
        n_rows=N, n_features=D, n_classes=labels.n_classes, sparse=False, task=task, strategy="crammer_singer",
        loss=loss, p=None, C=0.7, c_scale="sum", bias=bias, bias_scale=BIAS_SCALE, epsilon=0.1,
    )  # fmt: skip
    return build_problem(spec, as_rows(X), labels, sample_weight=costs, class_weight=None, **data_arguments)
