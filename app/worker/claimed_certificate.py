"""Compares a claimed certificate with the recomputed one: which claims are contradicted, and which are confirmed.

For weights (w, b), a certificate claims in total, and for each class that was trained separately,

    P(w, b) <= primal,    dual_bound <= optimum,    P(w, b) - optimum <= gap,    relative_gap = gap / max(primal, floor)

A model that has converged also claims relative_gap <= tol in total. The recomputed figures are proven. So:

- A primal value that is too low is false; one that is too high belongs to other weights. Both are contradicted.
- A bound above the recomputed bound of the same dual point is not proven, and one above the primal value is false. Both
  are contradicted. A lower bound claims less than was proven, and is confirmed.
- gap, relative_gap, the sums over classes and `converged` follow from primal and dual_bound. Other values are
  contradicted.

If the bound had to be computed from another dual point, a higher claim can still be true: it is neither contradicted
nor confirmed.
"""

from typing import Any

Figures = dict[str, Any]
"""primal, dual_bound, gap, relative_gap; for a one-vs-rest model also per_class, a list of such figures."""

TOLERANCE = 1e-9
"""Largest difference that counts as a rounding error, relative to the primal value. Larger: larger false claims pass.
Ten times 1e-10, the difference between sums of a million terms in different orders."""


def contradictions(claimed: Figures, found: Figures, *, has_proof: bool, tol: float | None) -> list[Figures]:
    """List claims that contradict the recomputed figures or each other: {field, claimed, found}.

    `has_proof`: the bound was computed from the dual point of the claim. `tol`: the tolerance of a model that claims to
    have converged; None: it makes no such claim.
    """
    differences = _part("certificate", claimed, found, has_proof)
    parts, others = claimed.get("per_class") or [], found.get("per_class") or []
    if [part.get("label") for part in parts] != [part["label"] for part in others]:
        return [*differences, _difference("certificate.per_class", parts or None, others or None)]
    for number, (part, other) in enumerate(zip(parts, others, strict=True)):
        differences += _part(f"certificate.per_class[{number}]", part, other, has_proof)
    for name in ("primal", "dual_bound", "gap") if parts else ():
        figures = [part[name] for part in parts]
        total = None if None in figures else sum(figures)
        if not _is_near(claimed[name], total, claimed):
            differences.append(_difference(f"certificate.{name}", claimed[name], total))
    gap = claimed["relative_gap"]
    if tol is not None and (gap is None or gap > tol):
        differences.append(_difference("converged", True, False))
    return differences


def is_confirmed(claimed: Figures, found: Figures) -> bool:
    """Whether the recomputed figures prove the claimed bounds, in total and for every class."""
    pairs = [(claimed, found), *zip(claimed.get("per_class") or [], found.get("per_class") or [], strict=False)]
    return all(
        one["dual_bound"] is None
        or (other["dual_bound"] is not None and one["dual_bound"] <= other["dual_bound"] + _allowed(one))
        for one, other in pairs
    )


def _part(place: str, claimed: Figures, found: Figures, has_proof: bool) -> list[Figures]:
    primal, bound, allowed = claimed["primal"], claimed["dual_bound"], _allowed(claimed)
    differences = []
    if not _is_near(primal, found["primal"], claimed):
        differences.append(_difference(f"{place}.primal", primal, found["primal"]))
    proven = found["dual_bound"] if has_proof else found["primal"]
    if bound is not None and (proven is None or bound > min(proven, primal) + allowed):
        differences.append(_difference(f"{place}.dual_bound", bound, found["dual_bound"]))
    gap = None if bound is None else max(0.0, primal - bound)
    if not _is_near(claimed["gap"], gap, claimed):
        differences.append(_difference(f"{place}.gap", claimed["gap"], gap))
    unit = max(primal, _floor(found))
    relative = None if claimed["gap"] is None else claimed["gap"] / unit if unit else 0.0
    if (relative is None) != (claimed["relative_gap"] is None) or (
        relative is not None and abs(claimed["relative_gap"] - relative) > TOLERANCE * max(1.0, relative)
    ):
        differences.append(_difference(f"{place}.relative_gap", claimed["relative_gap"], relative))
    return differences


def _floor(found: Figures) -> float:
    """Return the floor of the denominator of relative gaps. It depends on the problem. 0: the primal value exceeds the
    floor."""
    unit = found["gap"] / found["relative_gap"] if found["relative_gap"] else 0.0
    return float(unit) if unit > found["primal"] * (1.0 + TOLERANCE) else 0.0


def _is_near(one: float | None, other: float | None, claimed: Figures) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= _allowed(claimed)


def _allowed(claimed: Figures) -> float:
    return TOLERANCE * abs(float(claimed["primal"]))


def _difference(field: str, claimed: Any, found: Any) -> Figures:
    return {"field": field, "claimed": claimed, "found": found}
