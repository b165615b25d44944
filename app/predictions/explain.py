"""`…/explain`: the features that contribute most to the score of a row, strongest first, also as a sentence.

The contribution of a feature is weight * (value - training mean), so that an average row explains nothing, and the base
is the score of the training mean. A model without stored means is explained from zero: the contribution is weight *
value, and the base is its intercept.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from app.models import linear
from app.predictions import request_bodies
from app.predictions.model_cache import ServedModel
from app.predictions.outputs import Products, Scored
from app.predictions.response_formats import Reply, plain
from app.predictions.service import about, headers_of, relative_to, score
from app.tabular.types import Array
from app.web.media_types import JSON

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Explained:
    """The contributions of a row: the strongest ones, and how many others there are with their sum."""

    numbers: Array
    added: Array
    count: int
    rest: float


def explain_with(model: ServedModel, body: bytes, content_type: str | None, top: int, index_base: int = 1) -> Reply:
    """Explain each row by its `top` strongest features and the sum of all others."""
    request = request_bodies.read(body, content_type, model.features, index_base)
    scored = score(model, request.rows)
    labels = plain(scored.label) if "label" in model.outputs else [None] * len(scored.scores)
    base = scored.intercept if scored.base_score is None else scored.base_score
    found: list[Explained | None] = [None] * len(scored.scores)
    for part in scored.products():
        for number, one in zip(part.numbers.tolist(), _strongest(part, scored.model.means, top), strict=True):
            found[number] = one
    explanations = [
        _explain(scored, label, value, start, one)
        for label, value, start, one in zip(labels, scored.score.tolist(), base.tolist(), found, strict=True)
        if one is not None
    ]
    document = {**about(model, scored), "relative_to": relative_to(scored), "explanations": explanations}
    return Reply(_encode(document), JSON, headers_of(model, scored))


def _strongest(part: Products, means: Array | None, top: int) -> list[Explained]:
    """Return the contributions of each row. Features that a sparse row leaves out are zeros, which differ from their
    mean: their contributions are found among the largest of all, not by a pass over all features for each row."""
    absent = np.empty(0)
    if means is not None and linear.is_sparse(part.added):
        absent = -part.weights * means
        longest = int(np.diff(part.added.indptr).max(initial=0)) + top
        ordered = _largest(absent, longest)
        total, count = float(absent.sum()), int(np.count_nonzero(absent))
    explained = []
    for position in range(len(part.numbers)):
        numbers, added = linear.entries(part.added, position)
        rest, others = float(added.sum()), int(np.count_nonzero(added))
        if len(absent):
            rest += total - float(absent[numbers].sum())
            others += count - int(np.count_nonzero(absent[numbers]))
            missing = ordered[~np.isin(ordered, numbers)][:top]
            numbers, added = np.append(numbers, missing), np.append(added, absent[missing])
        chosen = _largest(added, top)
        rest -= float(added[chosen].sum())
        explained.append(Explained(numbers[chosen], added[chosen], others - len(chosen), rest))
    return explained


def _largest(values: Array, top: int) -> Array:
    """Return the positions of the largest absolute values, descending, without zeros; ties in the original order."""
    sizes = np.abs(values)
    places = np.arange(len(sizes))
    if top < len(sizes):
        places = np.flatnonzero(sizes >= np.partition(sizes, len(sizes) - top)[len(sizes) - top])
    places = places[np.argsort(-sizes[places], kind="stable")][:top]
    found: Array = places[sizes[places] > 0]
    return found


def _explain(scored: Scored, label: Any, value: float, base: float, one: Explained) -> dict[str, Any]:
    strongest = [
        {"feature": scored.features.feature_name(number), "contribution": added}
        for number, added in zip(one.numbers.tolist(), one.added.tolist(), strict=True)
    ]
    others = {"count": one.count, "contribution": one.rest if one.count else 0.0}
    found = {
        "score": value,
        "base_score": base,
        "intercept": base,
        "contributions": strongest,
        "others": others,
        "text": _sentence(label, value, base, strongest, others, relative_to(scored)),
    }
    return found if label is None else {"label": label, **found}


def _sentence(label: Any, value: float, base: float, strongest: list[Any], others: dict[str, Any], origin: str) -> str:
    pieces = [f"{one['feature']} {one['contribution']:+.4g}" for one in strongest]
    if others["count"]:
        pieces.append(f"{others['count']} more {others['contribution']:+.4g}")
    pieces.append(f"{'intercept' if origin == 'zero' else 'average row'} {base:+.4g}")
    said = f"score {value:.4g}" if label is None or label == value else f"{label} (score {value:.4g})"
    return f"{said}: {', '.join(pieces)}"
