"""Small training problems whose numbers are as bad as doubles allow, for judging certificates in exact arithmetic."""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from solvers.data.rows import as_rows
from solvers.problem.build import build_problem
from solvers.problem.labels import read_labels
from solvers.problem.spec import resolve_spec

KINDS = (
    ("binary", "hinge"), ("binary", "squared_hinge"), ("binary", "hinge_p"), ("multiclass", "hinge"),
    ("binary", "logistic"), ("ordinal", "pair_hinge"), ("regression", "epsilon_insensitive"),
    ("regression", "squared_epsilon_insensitive"), ("multiclass", "logistic"),
)  # fmt: skip


@dataclass
class HostileProblem:
    X: object
    y: np.ndarray
    definition: dict
    data_arguments: dict = field(default_factory=dict)
    """sample_weight and groups"""

    @property
    def arguments(self):
        """Of solvers.train."""
        return {**self.definition, **self.data_arguments}

    def built(self):
        data, labels = as_rows(self.X), read_labels(self.y, self.definition["task"])
        shape = {"n_rows": data.n_rows, "n_features": data.n_features, "n_classes": labels.n_classes}
        spec = resolve_spec(**shape, sparse=data.sparse, **self.definition)
        return build_problem(spec, data, labels, class_weight=None, **{"sample_weight": None, **self.data_arguments})


def spread(random, size, decades):
    """Return numbers of either sign over this many decades."""
    return random.choice([-1.0, 1.0], size) * 10.0 ** random.uniform(-decades / 2, decades / 2, size)


def hostile_problem(seed):
    """The problem of a seed; the first seeds go through every task, loss and bias."""
    random = np.random.default_rng(seed)
    task, loss = KINDS[seed % len(KINDS)]
    biases = ("none",) if task == "ordinal" else ("regularized", "none", "free")
    bias = biases[seed // len(KINDS) % len(biases)]
    n, d = int(random.integers(2, 14)), int(random.integers(1, 6))
    X = random.standard_normal((n, d))
    accident = random.integers(0, 10)
    if accident == 0:
        X = spread(random, (n, d), 25)
    elif accident == 1:
        X *= spread(random, (1, d), 16)
    elif accident == 2:
        X *= spread(random, (n, 1), 16)
    elif accident == 3:
        X = np.round(X)
    elif accident == 4:
        X[random.random((n, d)) < 0.5] = 0.0
    elif accident == 5:
        X *= random.choice([5e-324, 1e-310, 1e-160, 1e150, 1e200, 1e307])
    elif accident == 6:
        X[random.integers(0, n)] *= random.choice([1e308 / 8, 1e160, 1e-320])
    X[random.random(n) < 0.2] = X[0]
    weights = None
    if random.random() < 0.6:
        weights = np.abs(spread(random, n, random.choice([2, 8, 25])))
        weights[random.random(n) < 0.2] = 0.0
        weights[random.random(n) < 0.05] = 5e-324
    definition = {
        "task": task,
        "loss": loss,
        "p": float(random.choice([1.01, 1.2, 1.5, 1.9])) if loss == "hinge_p" else None,
        "C": float(10.0 ** random.integers(-9, 16)) if random.random() < 0.7 else 1.0,
        "c_scale": str(random.choice(["sum", "mean"])),
        "bias": bias,
        "bias_scale": float(random.choice([1.0, 1.0, 1e-3, 1e3])),
    }
    arguments = {"sample_weight": weights}
    if task == "binary":
        y = random.integers(0, 2, n)
        y[:2] = 0, 1
    elif task == "multiclass":
        definition["strategy"] = "multinomial" if loss == "logistic" else "crammer_singer"
        y = random.integers(0, 3, n)
        y[:2] = 0, 1
        if n > 2:
            y[2] = 2
    elif task == "ordinal":
        y = random.integers(0, 4, n)
        y[:2] = 0, 3
        arguments["groups"] = random.integers(0, 2, n) if random.random() < 0.3 else None
    else:
        definition["epsilon"] = float(random.choice([0.0, 0.1, 1e-8, 10.0]))
        y = random.standard_normal(n) * random.choice([1.0, 1e-6, 1e8])
    if weights is not None:
        weights[:3] = np.maximum(weights[:3], 1e-12)
    if random.random() < 0.3:
        X = X.astype(np.float32) if np.abs(X).max() < 1e38 else X
    if random.random() < 0.4:
        X = sp.csr_array(X)
    return HostileProblem(X, y, definition, arguments)
