"""One match: ours and every peer on one set, loss and C, each to every gap, taking turns.

Ours stops by itself, at its own certificate. A peer is tried from loose to tight tolerances, and what counts for a gap
is its fastest run that reached it: as if an oracle had told it where to stop. No run of a peer lasts longer than what
makes it lose clearly; how long that is, is part of the record.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import solvers
from benchmarks.peers import ocas
from benchmarks.peers.contenders import SVMOCAS, Contender, contenders
from benchmarks.peers.ledger import Ledger, Record
from benchmarks.peers.process import PeerProcess
from benchmarks.peers.reference import reference
from benchmarks.problems import BinarySet, objective
from benchmarks.timing import timed

__all__ = ["GAPS", "Match", "Peers"]

GAPS = (1e-2, 1e-3, 1e-6)
OUR_SECONDS, OUR_NANOSECONDS = 60.0, 200.0
"""After which ours has not arrived; the second one for each non-zero entry, if that is more."""
LIMIT_ALONE = 5.0
"""Time limit of a peer in seconds if ours did not reach the gap. It only matters whether the peer reaches it."""
LONG_LIMIT, LONG_FACTOR = 20.0, 2.0
"""If the time limit of a peer would exceed LONG_LIMIT seconds, it is LONG_FACTOR times our time instead."""
SHORT_SECONDS, SHORT_ROUNDS = 0.05, 7
LONG_SECONDS, ROUNDS, LONG_ROUNDS = 1.0, 3, 2
ENOUGH_SECONDS = 5.0
"""Number of runs of which the shortest counts, by their duration: more for short runs; one for the longest."""
CLOSE, CLOSE_SECONDS = 2.0, 0.05
"""A peer that takes more than CLOSE times the fastest peer's time plus CLOSE_SECONDS cannot become the fastest: it is
stopped then and not repeated."""
JUDGED_TWICE = 0.2
"""Runs shorter than this many seconds are repeated before a peer is excluded: other load can disturb a single one."""
FAR = 100.0
"""After a run that misses the gap by more than this factor, the next tolerance is skipped."""
METHOD_FACTOR, METHOD_SECONDS = 1.5, 0.2
"""Time limit of a single method: METHOD_FACTOR times the time of `auto` plus METHOD_SECONDS."""
MOST_OCAS_NONZEROS = 20_000_000
"""Maximum non-zeros for svmocas. With more, reading its text file takes minutes in each run."""
TRACE_POINTS = 40
NEARER = 0.97
SAME_BOUND = 1e-9


class Peers:
    """The peers' processes, started when they are first needed, each with the rows that were asked for last."""

    def __init__(self) -> None:
        self._processes: dict[str, PeerProcess] = {}
        self._loaded: dict[str, Path] = {}

    def ready(self, name: str, folder: Path, note_conversion: Callable[[float], None]) -> PeerProcess:
        if name not in self._processes:
            self._processes[name] = PeerProcess(name)
        if self._loaded.get(name) != folder:
            note_conversion(self._processes[name].load(folder))
            self._loaded[name] = folder
        return self._processes[name]

    def close(self) -> None:
        for process in self._processes.values():
            process.close()
        self._processes.clear()
        self._loaded.clear()


class Match(NamedTuple):
    """What is compared, and where it is written down."""

    data: BinarySet
    loss: str
    C: float
    threads: int
    clock: str
    """`seconds`, or `cpu` where other work runs on the machine."""
    ledger: Ledger
    peers: Peers
    least_limit: float = 2.0
    """Least time limit of a peer in seconds."""
    limit_factor: float = 5.0
    """Seconds that a peer may take per second that ours took."""

    def play(self) -> None:
        ours = self._each_gap()
        bound = max(self._reference()["bound"], *(record.get("bound") or 0.0 for record in ours.values()))
        limits = {gap: self._limit(record) for gap, record in ours.items()}
        self.ledger.add({"of": self._of("limits"), "limits": list(limits.values())})
        found: dict[str, dict[float, float]] = {}
        late: dict[str, set[float]] = {}
        entrants = contenders(self.loss, self.C, self.threads)
        most = max(limits.values())
        svmocas = self._run_svmocas(most)
        _shorten(limits, _arrivals(svmocas, bound))
        for one in entrants:
            found[one.name], late[one.name] = self._climb(one, limits, bound, found, late)
            _shorten(limits, {gap: self._first(one, tolerance) for gap, tolerance in found[one.name].items()})
        close = {gap: self._close_runs(entrants, found, gap) for gap in GAPS}
        for number in range(1, SHORT_ROUNDS):
            if svmocas is not None and number < min(ROUNDS, _rounds(svmocas["seconds"])):
                self._run_svmocas(most, number)
            self._repeat(ours, close, number)

    def try_methods(self) -> None:
        """Each of our methods that can do it, with no more time than makes it slower than `auto` for sure."""
        auto = self._each_gap()
        for name, described in solvers.available().items():
            if self.loss in described["losses"] and {"binary"} <= set(described["tasks"]):
                for gap in GAPS:
                    reached = auto[gap]["converged"]
                    limit = METHOD_FACTOR * auto[gap]["seconds"] + METHOD_SECONDS if reached else OUR_SECONDS
                    if not self.ours(name, gap, limit)["converged"]:
                        break
                    self.ours(name, gap, limit, 1)

    # --- ours --------------------------------------------------------------------------------------------------------

    def _each_gap(self) -> dict[float, Record]:
        found: dict[float, Record] = {}
        for gap in GAPS:
            missed = any(not record["converged"] for record in found.values())
            found[gap] = self.ours("auto", gap, self._our_limit() if not missed else 0.0)
        return found

    def _our_limit(self) -> float:
        return max(OUR_SECONDS, 1e-9 * OUR_NANOSECONDS * self.data.nonzeros)

    def ours(self, solver: str, gap: float, limit: float, number: int = 0) -> Record:
        return self._once(solver, lambda: self._train(solver, gap, limit), gap=gap, round=number)

    def _train(self, solver: str, gap: float, limit: float) -> Record:
        if limit == 0.0:
            return {"converged": False, "refused": "not tried: a larger gap was not reached"}
        try:
            result, seconds = timed(
                lambda: solvers.train(
                    self.data.X,
                    self.data.signs,
                    solver=solver,
                    loss=self.loss,
                    C=self.C,
                    tol=gap,
                    max_seconds=limit,
                    threads=self.threads,
                )
            )
        except solvers.SolverError as refusal:
            return {"converged": False, "refused": str(refusal)}
        certificate = result.certificate
        share = seconds.cpu / seconds.wall if self.clock == "cpu" else 1.0
        primal = self._primal(np.append(result.coef, result.intercept))
        if abs(primal - certificate.primal) > SAME_BOUND * max(1.0, primal):
            print(f"  THE CERTIFICATE IS WRONG: {solver} says {certificate.primal!r}, its weights {primal!r}")
        return {
            "converged": result.converged,
            "seconds": result.seconds,
            "cpu": seconds.cpu,
            "solver": result.solver,
            "primal": primal,
            "bound": certificate.dual_bound,
            "certificate_seconds": result.certificate_seconds,
            "passes": result.passes,
            "trace": _thinned(
                [(share * step.seconds, step.primal) for step in result.trace if step.primal is not None]
            ),
        }

    def _limit(self, ours: Record) -> float:
        if not ours["converged"]:
            return max(self.least_limit, LIMIT_ALONE)
        seconds = float(ours[self.clock])
        return max(self.least_limit, min(self.limit_factor * seconds, max(LONG_LIMIT, LONG_FACTOR * seconds)))

    # --- peers -------------------------------------------------------------------------------------------------------

    def _climb(
        self,
        one: Contender,
        limits: dict[float, float],
        bound: float,
        found: dict[str, dict[float, float]],
        late: dict[str, set[float]],
    ) -> tuple[dict[float, float], set[float]]:
        """The loosest tolerance for each gap that is reached in time, and the gaps that are not."""
        reaching: dict[float, float] = {}
        too_late = set(late.get(one.same_code_as or "", ()))
        before: list[float] = []
        is_far = False
        for tolerance in _rungs(one, found):
            if is_far:
                is_far = False
                continue
            pending = [gap for gap in GAPS if gap not in reaching and gap not in too_late]
            if not pending:
                break
            record = self._run_peer(one, tolerance, max(limits[gap] for gap in pending))
            if "primal" not in record:
                if record["why"] == "late":
                    too_late |= set(pending)
                break
            reached = _gap(record["primal"], bound)
            reaching |= {gap: tolerance for gap in pending if reached <= gap}
            too_late |= {gap for gap in pending if reached > gap and record[self.clock] > limits[gap]}
            is_far = reached > FAR * max(pending)
            before.append(record["primal"])
            if len(before) > 2 and before[-1] == before[-2] == before[-3]:
                break  # it has come to its own limit of iterations
        return reaching, too_late

    def _run_peer(self, one: Contender, tolerance: float, limit: float, number: int = 0) -> Record:
        def measure() -> Record:
            process = self.peers.ready(one.process, self.data.folder, lambda s: self._note_conversion(one.process, s))
            trained = process.train(one.with_tolerance(tolerance), limit, self.clock)
            if isinstance(trained, str):
                return {"why": trained, "limit": limit}
            return {"seconds": trained.seconds, "cpu": trained.cpu, "primal": self._primal(trained.weights)}

        of = self._of(one.name, tolerance=tolerance, round=number)
        record = self.ledger.once(measure, **of)
        if record.get("why") == "late" and record["limit"] < limit:  # it had less time then
            record = {"of": of, **measure()}
            self.ledger.add(record)
        return self._checked(record)

    def _first(self, one: Contender, tolerance: float) -> float:
        """The seconds of a run that is in the ledger."""
        return float(self._run_peer(one, tolerance, 0.0)[self.clock])

    def _run_svmocas(self, limit: float, number: int = 0) -> Record | None:
        """None where it is not asked. One run shows every gap: it prints each iteration's objective."""
        if self.loss != "hinge" or self.threads > 1 or ocas.program(SVMOCAS) is None:
            return None
        if self.data.nonzeros > MOST_OCAS_NONZEROS:
            return None

        def measure() -> Record:
            rows = self.data.folder / "rows.light"
            if not rows.exists():
                ocas.write_rows(rows, self.data.X, self.data.signs)
            run = ocas.run_ocas(SVMOCAS, rows, self.data.X.shape[1], C=self.C, gap=min(GAPS), limit=limit, bias=True)
            at_zero = self.C * self.data.signs.size
            if abs(run.iterations[0].primal - at_zero) > 1e-6 * at_zero:
                raise RuntimeError(f"svmocas did not read the rows of {self.data.name} as they are; delete {rows}")
            share = run.cpu_share if self.clock == "cpu" else 1.0
            return {
                "seconds": run.seconds,
                "cpu": run.seconds * run.cpu_share,
                "limit": limit,
                "primal": self._primal(run.weights[:, 0]),
                "trace": [(share * seconds, primal) for seconds, primal in _bests(run.iterations)],
            }

        record = self._checked(self._once(SVMOCAS, measure, round=number))
        if record["limit"] <= record["seconds"] and record["limit"] < limit:  # it had less time then
            record = {"of": record["of"], **measure()}
            self.ledger.add(record)
        return record

    def _repeat(
        self, ours: dict[float, Record], close: dict[float, list[tuple[Contender, float, float]]], number: int
    ) -> None:
        """A round: ours and those close to the fastest peer, each once to every gap.

        Gap by gap, a peer's run that counts for two gaps would be repeated beside the first only; and a machine may be
        half as fast a second later.
        """
        for gap in GAPS:
            if ours[gap]["converged"] and number < _rounds(ours[gap][self.clock]):
                self.ours("auto", gap, self._our_limit(), number)
            for one, tolerance, seconds in close[gap]:
                if number < _rounds(seconds):
                    self._run_peer(one, tolerance, 2.0 * ENOUGH_SECONDS, number)

    def _close_runs(
        self, entrants: list[Contender], found: dict[str, dict[float, float]], gap: float
    ) -> list[tuple[Contender, float, float]]:
        """Who may be the fastest to this gap, with its tolerance and seconds."""
        arrived = [(one, found[one.name][gap]) for one in entrants if gap in found[one.name]]
        runs = [(one, tolerance, self._faster_of_two(one, tolerance)) for one, tolerance in arrived]
        least = min((seconds for *_, seconds in runs), default=0.0)
        return [run for run in runs if run[2] <= CLOSE * least]

    def _faster_of_two(self, one: Contender, tolerance: float) -> float:
        """Its seconds; of a short run, which anything may have disturbed, those of a second one if they are less."""
        seconds = self._first(one, tolerance)
        if seconds > JUDGED_TWICE:
            return seconds
        second = self._run_peer(one, tolerance, 2.0 * ENOUGH_SECONDS, 1)
        return min(seconds, float(second.get(self.clock, seconds)))

    # --- what is written down ----------------------------------------------------------------------------------------

    def _of(self, who: str, **of: Any) -> Record:
        group = {"data": self.data.name, "fingerprint": self.data.fingerprint, "loss": self.loss, "C": self.C}
        return {**group, "threads": self.threads, "who": who, **of}

    def _once(self, who: str, measure: Callable[[], Record], **of: Any) -> Record:
        return self.ledger.once(measure, **self._of(who, **of))

    def _reference(self) -> Record:
        """Kept beside the ledger, for the next one."""
        stored = self.ledger.path.with_name("references.jsonl")
        return self._once("reference", lambda: reference(self.data, self.loss, self.C, Ledger(stored)))

    def _note_conversion(self, process: str, seconds: float) -> None:
        self.ledger.add({"of": {"data": self.data.name, "conversion": process}, "seconds": seconds})

    def _primal(self, weights: Any) -> float:
        return objective(self.data.X, self.data.signs, self.loss, self.C, weights)

    def _checked(self, record: Record) -> Record:
        bound = self._reference()["bound"]
        if "primal" in record and record["primal"] < bound * (1.0 - SAME_BOUND):
            print(f"  OUR BOUND IS WRONG: {record['of']['who']} reaches {record['primal']!r}, the bound is {bound!r}")
        return record


def _arrivals(svmocas: Record | None, bound: float) -> dict[float, float]:
    """Its seconds to each gap that it reached."""
    trace = [] if svmocas is None else svmocas["trace"]
    first = {gap: min((s for s, primal in trace if _gap(primal, bound) <= gap), default=None) for gap in GAPS}
    return {gap: seconds for gap, seconds in first.items() if seconds is not None}


def _shorten(limits: dict[float, float], arrivals: dict[float, float]) -> None:
    """Lower the time limits of the other peers once one has reached a gap."""
    for gap, seconds in arrivals.items():
        limits[gap] = min(limits[gap], CLOSE * seconds + CLOSE_SECONDS)


def _rungs(one: Contender, found: dict[str, dict[float, float]]) -> Iterable[float]:
    """All tolerances; after the same code without the conversion: those that were right there, and tighter ones."""
    known = sorted(found.get(one.same_code_as or "", {}).values(), reverse=True)
    if not known:
        return one.tolerances
    return [*dict.fromkeys(known), *(tolerance for tolerance in one.tolerances if tolerance < known[-1])]


def _rounds(seconds: float) -> int:
    if seconds > LONG_SECONDS:
        return LONG_ROUNDS if seconds <= ENOUGH_SECONDS else 1
    return SHORT_ROUNDS if seconds < SHORT_SECONDS else ROUNDS


def _gap(primal: float, bound: float) -> float:
    return (primal - bound) / primal


def _bests(iterations: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The iterations that are clearly nearer to the last one than any before: (seconds, objective)."""
    points = list(iterations)
    last = min(primal for _, primal in points)
    kept: list[tuple[float, float]] = []
    for seconds, primal in points:
        if not kept or primal - last < NEARER * (kept[-1][1] - last):
            kept.append((seconds, primal))
    return kept


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    step = max(1, -(-len(points) // TRACE_POINTS))
    return [*points[:-1:step], *points[-1:]]
