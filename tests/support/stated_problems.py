"""Problems as the solvers state them, from generated cases."""

from solvers.data.rows import as_rows
from solvers.problem.build import build_problem
from solvers.problem.labels import read_labels
from solvers.problem.spec import resolve_spec


def problem_of(case):
    definition = dict(case.definition)
    weights = {key: definition.pop(key) for key in ("sample_weight", "class_weight", "groups")}
    data, labels = as_rows(case.X), read_labels(case.labels, case.task)
    setting = resolve_spec(
        n_rows=data.n_rows,
        n_features=data.n_features,
        n_classes=labels.n_classes,
        sparse=False,
        **definition,
    )
    return build_problem(setting, data, labels, **weights)
