"""Baseline, positive class, threshold and warnings where the dashboard shows metrics."""

from typing import Any

import numpy as np

from tests.support.serving import Service
from tests.support.tables import csv_text


def test_metrics_stand_beside_the_baseline_and_warnings_have_a_cure(page: Any, service: Service) -> None:
    random = np.random.default_rng(1)
    X = random.normal(size=(600, 3))
    labels = np.where(X @ [1.0, -0.7, 0.5] + random.normal(size=600) > 2.6, "fraud", "fine")
    dataset = service.upload(csv_text(X, labels))
    plain = service.wait(service.submit(dataset["id"], model="plain-rare", C=1.0)["id"], 120)
    fields = {"C": 1.0, "threshold": {"metric": "balanced_accuracy"}, "split": {"test": 0.25}}
    tuned = service.wait(service.submit(dataset["id"], model="tuned-rare", **fields)["id"], 120)

    page.goto(f"{service.url}/ui/#/jobs/{plain['id']}")
    page.get_by_role("columnheader", name="baseline").wait_for()
    page.get_by_role("rowheader", name="Balanced accuracy").wait_for()
    page.get_by_text("imbalanced", exact=True).wait_for()
    page.get_by_text('set "class_weight": "balanced" or "threshold"').first.wait_for()
    page.get_by_text("training_figures_only").wait_for()

    page.goto(f"{service.url}/ui/#/models/tuned-rare:1")
    page.get_by_text("Precision, recall, F1 and PR AUC are those of fraud").wait_for()
    page.get_by_text("tuned for Balanced accuracy").wait_for()
    page.get_by_role("columnheader", name="always the largest class, test").wait_for()
    constant = tuned["result"]["metrics"]["baseline"]["accuracy"]
    assert f"{constant:.2%}".replace("%", "") in page.get_by_role("row", name="Accuracy").first.inner_text()
