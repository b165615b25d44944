"""scikit-learn's own checks of estimators: all pass, none is expected to fail."""

from typing import Any

import pytest
from hyperplane.sklearn import LinearSVMClassifier, LinearSVMRanker, LinearSVMRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

pytestmark = pytest.mark.slow


@parametrize_with_checks([LinearSVMClassifier(), LinearSVMRegressor(), LinearSVMRanker()])
def test_scikit_learn_finds_no_fault(estimator: Any, check: Any) -> None:
    check(estimator)
