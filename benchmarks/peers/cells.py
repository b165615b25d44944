"""What the runs mean: for each set, loss, C and gap our seconds, each peer's, and the ratio to the fastest peer."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from benchmarks.peers.contenders import SVMOCAS
from benchmarks.peers.ledger import Record
from benchmarks.peers.match import GAPS

__all__ = ["Cell", "Curve", "Group", "geometric_mean", "groups"]

Curve = list[tuple[float, float]]
"""(seconds, relative gap)"""


class Cell(NamedTuple):
    """One comparison."""

    data: str
    loss: str
    C: float
    gap: float
    ours: float | None
    """Seconds to the certificate; None if it did not arrive."""
    solver: str
    peers: dict[str, float]
    """Seconds of each peer that reaches the gap in time."""
    limit: float
    """The seconds that a peer had."""

    @property
    def best_peer(self) -> str | None:
        return min(self.peers, key=self.peers.__getitem__, default=None)

    @property
    def mark(self) -> str:
        """`<`: no peer arrives, and its limit stands for its time; `>`: ours does not."""
        if self.ours is None:
            return ">"
        return "" if self.peers else "<"

    @property
    def ratio(self) -> float | None:
        """Our time divided by the fastest peer's; None if no solver reaches the gap."""
        if self.ours is None and not self.peers:
            return None
        theirs = min(self.peers.values(), default=self.limit)
        return (self.limit if self.ours is None else self.ours) / theirs

    def as_json(self) -> dict[str, Any]:
        return {**self._asdict(), "best_peer": self.best_peer, "ratio": self.ratio, "mark": self.mark}


class Group(NamedTuple):
    """One match: its cells, from the loosest gap to the tightest, and the curves of all who took part."""

    data: str
    loss: str
    C: float
    cells: list[Cell]
    curves: dict[str, Curve]
    methods: dict[str, list[float | None]]
    """Seconds of each of our methods that was tried alone, for each gap."""
    known_to: float
    """The relative distance between the bound and the best objective of all solvers."""
    when: str | None = None
    """The day, of a match that was played before and is shown as it was published."""


def groups(records: Iterable[Record], threads: int, clock: str) -> list[Group]:
    """In the order in which they were measured; only those that were begun."""
    of_group: dict[tuple[str, str, float], list[Record]] = defaultdict(list)
    for record in records:
        of = record["of"]
        if of.get("threads") == threads and "who" in of:
            of_group[of["data"], of["loss"], of["C"]].append(record)
    return [
        _group(*key, found, "seconds" if threads > 1 else clock)
        for key, found in of_group.items()
        if any(record["of"]["who"] == "limits" for record in found)
    ]


def geometric_mean(ratios: Iterable[float | None]) -> float | None:
    logarithms = [math.log(ratio) for ratio in ratios if ratio is not None]
    return math.exp(sum(logarithms) / len(logarithms)) if logarithms else None


def _group(data: str, loss: str, C: float, records: list[Record], clock: str) -> Group:
    by_who: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_who[record["of"]["who"]].append(record)
    reference, limits = by_who.pop("reference")[0], by_who.pop("limits")[0]["limits"]
    bound = max([reference["bound"], *(record["bound"] for record in records if record.get("bound") is not None)])
    lowest = min([reference["primal"], *(record["primal"] for record in records if "primal" in record)])
    ours = {who: found for who, found in by_who.items() if "gap" in found[0]["of"]}
    theirs = {who: found for who, found in by_who.items() if who not in ours}
    reached = {who: [(record, _points(record, clock, bound)) for record in found] for who, found in theirs.items()}
    cells = []
    for gap, limit in zip(GAPS, limits, strict=True):
        seconds, solver = _least(ours["auto"], gap, clock)
        peers = {
            who: _arrival([point for _, points in found for point in points], gap) for who, found in reached.items()
        }
        arrived = {who: time for who, time in peers.items() if time is not None and time <= max(limit, seconds or 0.0)}
        cells.append(Cell(data, loss, C, gap, seconds, solver, arrived, limit))
    curves = {
        who: sorted(point for record, points in found for point in points if record["of"]["round"] == 0)
        for who, found in reached.items()
    }
    tightest = [record for record in ours["auto"] if record.get("trace")][-1:]
    curves["auto"] = [(time, (primal - bound) / primal) for record in tightest for time, primal in record["trace"]]
    methods = {who: [_least(found, gap, clock)[0] for gap in GAPS] for who, found in ours.items() if who != "auto"}
    return Group(data, loss, C, cells, curves, methods, (lowest - bound) / lowest)


def _points(record: Record, clock: str, bound: float) -> Curve:
    """Where a peer's run was when: the end, or of svmocas every iteration."""
    if "primal" not in record:
        return []
    moments = record["trace"] if record["of"]["who"] == SVMOCAS else [(record[clock], record["primal"])]
    return [(seconds, (primal - bound) / primal) for seconds, primal in moments]


def _arrival(points: Curve, gap: float) -> float | None:
    return min((seconds for seconds, reached in points if reached <= gap), default=None)


def _least(records: list[Record], gap: float, clock: str) -> tuple[float | None, str]:
    """Our fastest run to this gap, and which method it was."""
    runs = [record for record in records if record["of"]["gap"] == gap]
    arrived = [record for record in runs if record["converged"]]
    solver = next((record["solver"] for record in runs if "solver" in record), "-")
    return min((record[clock] for record in arrived), default=None), solver
