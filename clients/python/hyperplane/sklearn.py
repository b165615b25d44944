"""Estimators for scikit-learn that train linear support vector machines to a proven distance from the optimum.

They train in this process, with the package `solvers`, or on a service with `remote=url`. Predictions are always
computed here, from the fitted weights. Only prediction sets of a remote training come from the service, which has the
fold models.
"""

from hyperplane._estimators.classifier import LinearSVMClassifier
from hyperplane._estimators.ranker import LinearSVMRanker
from hyperplane._estimators.regressor import LinearSVMRegressor

__all__ = ["LinearSVMClassifier", "LinearSVMRanker", "LinearSVMRegressor"]
