"""docs/reference/metrics.md names every figure that the code computes, and no other."""

import re

import numpy as np

from app.models import metrics
from tests.support.documents import ROOT

PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()


def documented(section: str) -> set[str]:
    text = re.search(rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert text is not None
    rows = re.findall(r"^\| (`[^|]*) \|", text[1], re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_figures_of_classes() -> None:
    codes, scores = np.array([0, 1, 1, 0]), np.array([-1.0, 2.0, 0.5, 0.2])
    found = set(metrics.binary_metrics(("a", "b"), codes, scores, None))
    several = metrics.multiclass_metrics(("a", "b"), codes, np.column_stack([-scores, scores]), None)
    assert found | set(several) == documented("Binary and multiclass") | documented("All tasks")


def test_figures_of_probabilities() -> None:
    found = metrics.probability_metrics(np.array([0, 1]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    assert set(found) == documented("Probabilities")


def test_figures_of_numbers() -> None:
    found = metrics.regression_metrics(np.array([1.0, 2.0, 4.0]), np.array([1.5, 2.0, 3.0]))
    assert set(found) == documented("Regression") | documented("All tasks")


def test_figures_of_ranks() -> None:
    found = metrics.ordinal_metrics(np.array([1.0, 2.0, 4.0]), np.array([1.5, 2.0, 3.0]), None)
    assert set(found) == documented("Ordinal") | documented("All tasks")
