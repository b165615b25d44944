"""A result becomes a model file."""

from typing import Any

import numpy as np

import solvers
from app.models import file
from app.worker.load import Work


def encode_model(work: Work, result: solvers.LinearModel, card: dict[str, Any]) -> bytes:
    features = [column["name"] for column in work.dataset.columns if column["role"] == "feature"]
    header = file.Header(
        task=result.task,
        strategy=result.strategy,
        classes=card["classes"],
        n_features=work.dataset.n_features,
        feature_names=features or None,
        card=card,
    )
    arrays = {"coef": result.coef, "intercept": np.atleast_1d(np.asarray(result.intercept))}
    if result.thresholds is not None:
        arrays["thresholds"] = result.thresholds
    return file.encode(header, arrays)
