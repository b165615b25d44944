"""`…/explain`: the features that contribute most to the score of a row, strongest first, also as a sentence."""

from typing import Any

import msgspec
import numpy as np

from app.predictions import request_bodies
from app.predictions.model_cache import ServedModel
from app.predictions.outputs import Scored
from app.predictions.response_formats import Reply, plain
from app.predictions.service import about, headers_of, score
from app.tabular.types import Array
from app.web.media_types import JSON

_encode = msgspec.json.Encoder().encode


def explain_with(model: ServedModel, body: bytes, content_type: str | None, top: int, index_base: int = 1) -> Reply:
    """Explain each row by its `top` strongest features and the sum of all others."""
    request = request_bodies.read(body, content_type, model.features, index_base)
    scored = score(model, request.rows)
    labels = plain(scored.label) if "label" in model.outputs else [None] * len(scored.scores)
    explanations = [
        _explain(scored, label, value, intercept, parts, top)
        for label, value, intercept, parts in zip(
            labels, scored.score.tolist(), scored.intercept.tolist(), scored.parts(), strict=True
        )
    ]
    document = {**about(model, scored), "explanations": explanations}
    return Reply(_encode(document), JSON, headers_of(model, scored))


def _explain(
    scored: Scored, label: Any, value: float, intercept: float, parts: tuple[Array, Array], top: int
) -> dict[str, Any]:
    numbers, added = parts
    present = added != 0
    numbers, added = numbers[present], added[present]
    order = np.argsort(-np.abs(added), kind="stable")
    strongest = [
        {"feature": scored.features.feature_name(int(numbers[k])), "contribution": float(added[k])} for k in order[:top]
    ]
    rest = added[np.sort(order[top:])]
    others = {"count": len(rest), "contribution": float(sum(rest.tolist(), 0.0))}
    found = {
        "score": value,
        "intercept": intercept,
        "contributions": strongest,
        "others": others,
        "text": _sentence(label, value, intercept, strongest, others),
    }
    return found if label is None else {"label": label, **found}


def _sentence(label: Any, value: float, intercept: float, strongest: list[Any], others: dict[str, Any]) -> str:
    pieces = [f"{one['feature']} {one['contribution']:+.4g}" for one in strongest]
    if others["count"]:
        pieces.append(f"{others['count']} more {others['contribution']:+.4g}")
    pieces.append(f"intercept {intercept:+.4g}")
    said = f"score {value:.4g}" if label is None or label == value else f"{label} (score {value:.4g})"
    return f"{said}: {', '.join(pieces)}"
