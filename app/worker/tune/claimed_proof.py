"""Recomputes the proof of a search, and compares it with the claimed one.

A claimed step says: from C_low to C_high the metric of the exact models is at least `lower` and at most `upper`. It is
confirmed if the recomputed bounds of every overlapping step imply it, and contradicted if they exclude it or if they
are weaker although they come from the same trainings.
"""

from itertools import pairwise
from typing import Any

from app.db.tables import JobRow
from app.jobs.repository import Claim
from app.jobs.tune_schemas import TuneSpec
from app.worker.tune.search import Search, load_search
from app.worker.worker_context import StopAsked, WorkerContext

TOLERANCE = 1e-9
"""Largest difference of two bounds that counts as a rounding error. Larger: larger false claims pass. The value of
TOLERANCE in app/worker/claimed_certificate.py."""
COMPARED = ("epsilon_reached", "best", "C", "lower_bound", "upper_bound")
"""Figures of the proof that follow from its steps and trainings."""

Proof = dict[str, Any]
"""The certificate of a search, as the model's card has it."""


def check_again(
    context: WorkerContext, claim: Claim, stop_reason: StopAsked, job: JobRow, request: TuneSpec, claimed: Proof
) -> dict[str, Any]:
    """Run the search again within a verification job, and compare its proof with the claimed one.

    The vectors of the trainings are not stored, so the folds are trained again.
    """
    work = load_search(context.database, context.blobs, job, request)
    found = Search(context, claim, request, work, stop_reason).run()
    return compared(claimed, found.report["certificate"])


def compared(claimed: Proof, found: Proof | None) -> dict[str, Any]:
    """Return {matches, differences, recomputed}. matches: null if the trainings did not give a proof this time."""
    if found is None:
        return {"matches": None, "differences": [], "recomputed": None}
    differences = [
        {"field": name, "claimed": claimed[name], "found": found[name]}
        for name in COMPARED
        if not _are_close(claimed[name], found[name])
    ]
    for number, step in enumerate(claimed["steps"]):
        if not _is_implied(step, found["steps"]):
            overlapping = [one for one in found["steps"] if one[0] < step[1] and step[0] < one[1]]
            differences.append({"field": f"steps.{number}", "claimed": step, "found": overlapping})
    if not _covers(claimed["steps"], claimed["range"]):
        differences.append({"field": "range", "claimed": claimed["range"], "found": found["range"]})
    return {"matches": not differences, "differences": differences, "recomputed": found}


def _is_implied(step: list[float], found: list[list[float]]) -> bool:
    """Whether the recomputed steps cover a claimed one with bounds that are at least as tight."""
    low, high, lower, upper = step
    overlapping = [one for one in found if one[0] < high and low < one[1]]
    reaches = bool(overlapping) and overlapping[0][0] <= low and high <= overlapping[-1][1]
    return reaches and all(one[2] >= lower - TOLERANCE and one[3] <= upper + TOLERANCE for one in overlapping)


def _covers(steps: list[list[float]], whole: list[float]) -> bool:
    """Whether the steps cover the range without a gap."""
    edges = [(step[0], step[1]) for step in steps]
    is_joined = all(one[1] >= other[0] for one, other in pairwise(edges))
    return bool(edges) and edges[0][0] <= whole[0] and edges[-1][1] >= whole[1] and is_joined


def _are_close(one: float, other: float) -> bool:
    return abs(one - other) <= TOLERANCE * max(1.0, abs(one))
