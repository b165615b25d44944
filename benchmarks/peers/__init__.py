"""Ours beside every peer at equal verified gap: the table that says whether `auto` is the fastest.

Sets by losses by C by gaps, with a certified optimum as reference; writes docs/benchmarks/peers.md, its plots and
peers.json. Every run is on disk before the next begins, and what is there is not run again.
"""

import argparse
import itertools
import time
from typing import Any

from threadpoolctl import threadpool_limits

import solvers
from benchmarks import problems
from benchmarks.peers import ocas, report
from benchmarks.peers.cells import groups
from benchmarks.peers.ledger import Ledger
from benchmarks.peers.match import GAPS, Match, Peers
from benchmarks.peers.process import installed

LOSSES = ("hinge", "squared_hinge")
COSTS = (0.01, 1.0, 100.0)
SECONDS_A_MATCH = {"mnist": 30.0, "covtype": 30.0, "NDC 1M": 40.0, "rcv1_like 200k": 40.0, "rcv1_like 800k": 120.0}
SECONDS_A_MATCH |= {"NDC 7M": 120.0}
OTHER_SECONDS = 8.0
"""For the first guess of the time left; later ones go by what the last run took."""
FULL_LIMITS, QUICK_LIMITS = (2.0, 5.0), (0.5, 2.0)
"""Time limit of a peer in the quick comparison: least seconds, and seconds per second that ours took."""


def run(options: argparse.Namespace) -> None:
    if not installed():
        raise SystemExit("the peers are not installed: `make bench` does it")
    clock = "cpu" if options.clock == "cpu" and options.threads == 1 else "seconds"
    kind = "quick-peers" if options.quick else "peers"  # peers have less time in a quick one
    ledger = Ledger(problems.CACHE / f"{kind}-{options.clock}.jsonl", fresh=options.fresh)
    if options.fresh_ours:
        ledger.forget(lambda record: "gap" in record["of"] or record["of"].get("who") == "reference")
    wanted = options.sets.split(",") if options.sets else problems.QUICK if options.quick else problems.FULL
    if ocas.program("svmocas") is None:
        print("svmocas is not installed (Debian: libocas-tools): measured without it")
    matches = [(name, *rest) for name in wanted if _is_there(name) for rest in itertools.product(LOSSES, COSTS)]
    took = Ledger(problems.CACHE / "durations.jsonl")
    print(f"{len(matches)} matches of {len(GAPS)} gaps, about {_minutes(matches, took, options)} min", flush=True)
    solvers.warm_up()
    try:
        with threadpool_limits(options.threads):  # as a worker has it; of objectives, threads would spin on in our runs
            _play_all(matches, ledger, took, clock, options)
    except KeyboardInterrupt:
        print("interrupted; the same command continues from here. Results so far:")
    found = [group for group in groups(ledger, options.threads, clock) if group.data in wanted]
    print(report.summary(found))
    if options.methods:
        print(report.fastest_methods(found))
    folder, sets = (problems.CACHE / "page", problems.QUICK) if options.quick else (report.FOLDER, problems.FULL)
    report.write(folder, [record for record in ledger if record["of"]["data"] in sets], clock)
    print(f"written: {folder}/peers.md")


def _play_all(
    matches: list[tuple[str, str, float]], ledger: Ledger, took: Ledger, clock: str, options: argparse.Namespace
) -> None:
    started, peers = time.perf_counter(), Peers()
    limits = QUICK_LIMITS if options.quick else FULL_LIMITS
    try:
        for name, of_set in itertools.groupby(enumerate(matches), key=lambda item: item[1][0]):
            data = problems.opened(name)
            for number, (_, loss, C) in of_set:
                began, known = time.perf_counter(), len(ledger)
                if options.minutes is not None and began - started > 60.0 * options.minutes:
                    print(f"{options.minutes:g} minutes are over; the same command continues from here", flush=True)
                    return
                match = Match(data, loss, C, options.threads, clock, ledger, peers, *limits)
                match.play()
                if options.methods:
                    match.try_methods()
                if len(ledger) > known:
                    took.add({"of": _kind(name, loss, C, options), "seconds": time.perf_counter() - began})
                left = _minutes(matches[number + 1 :], took, options)
                latest = next(group for group in groups(ledger, options.threads, clock) if group[:3] == (name, loss, C))
                print(f"[{number + 1}/{len(matches)}, {left} min left] {report.line(latest)}", flush=True)
            del data, match  # before the next one is opened
    finally:
        peers.close()


def _is_there(name: str) -> bool:
    why = problems.why_missing(name)
    if why is not None:
        print(f"{name}: left out, {why}", flush=True)
    return why is None


def _kind(name: str, loss: str, C: float, options: argparse.Namespace) -> dict[str, Any]:
    how = {"threads": options.threads, "methods": options.methods, "quick": options.quick}
    return {"data": name, "loss": loss, "C": C, **how}


def _minutes(matches: list[tuple[str, str, float]], took: Ledger, options: argparse.Namespace) -> str:
    """What these will take: as long as the last time, or as a guess."""
    seconds = 0.0
    for match in matches:
        known = took.find(**_kind(*match, options))
        guess = OTHER_SECONDS if options.quick else SECONDS_A_MATCH.get(match[0], OTHER_SECONDS)
        seconds += known["seconds"] if known else guess
    return f"{seconds / 60.0:.1f}"
