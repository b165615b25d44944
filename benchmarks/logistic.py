"""Logistic regression beside LIBLINEAR and scikit-learn at equal verified gap; writes docs/benchmarks/logistic.md.

As `peers` measures the hinge losses: ours is `auto`, stopped by its own certificate; a peer's seconds are those of its
fastest run that reached the gap, out of runs with ever tighter tolerances.
"""

import argparse
import time

from threadpoolctl import threadpool_limits

import solvers
from benchmarks import problems
from benchmarks.page import Page
from benchmarks.peers import report
from benchmarks.peers.cells import Group, geometric_mean, groups
from benchmarks.peers.ledger import Ledger
from benchmarks.peers.match import GAPS, Match, Peers
from benchmarks.peers.process import installed

SETS = ("a9a", "w8a", "news20_text", "mnist", "covtype")
COSTS = (1.0, 0.01, 100.0)
LIMITS = (0.5, 6.0)
"""Time limit of a peer: least seconds, and seconds per second that ours took."""
MINUTES = 10.0
"""No match begins after this many minutes; the next run continues from there."""
HOW = """\
Each cell is a set, C (as in LIBLINEAR: a sum over rows), and a relative gap that weights must reach; the bias is the
weight of a feature 1. The gap of any weights is (P - bound) / P, with P recomputed in float64 and the best dual bound
that is proven. **Ours** is `solver="auto"`, stopped by itself, at its own certificate, which is part of its seconds.
**A peer's** seconds are those of its fastest run that reached the gap, out of runs with ever tighter tolerances. A
ratio is our seconds over the fastest peer's. `<`: no peer reached the gap within the seconds it had (six times ours,
at least 0.5 s), which stand for its time. One thread. Seconds {clock}. The peers are LIBLINEAR -s 0 (trust-region
Newton) and -s 7 (dual coordinate descent), without their conversion, and LogisticRegression of scikit-learn by lbfgs
and newton-cholesky. All start from arrays in memory; ours and the peers take turns."""
CLOCKS = {"seconds": "by the clock", "cpu": "of the processor"}


def run(options: argparse.Namespace) -> None:
    if not installed():
        raise SystemExit("the peers are not installed: `make bench` does it")
    clock = "cpu" if options.clock == "cpu" else "seconds"
    ledger = Ledger(problems.CACHE / f"logistic-{options.clock}.jsonl", fresh=options.fresh)
    if options.fresh_ours:
        ledger.forget(lambda record: "gap" in record["of"] or record["of"].get("who") in ("reference", "limits"))
    wanted = options.sets.split(",") if options.sets else SETS
    solvers.warm_up([name for name, described in solvers.available().items() if "logistic" in described["losses"]])
    peers, started = Peers(), time.perf_counter()
    minutes = MINUTES if options.minutes is None else options.minutes
    try:
        with threadpool_limits(1):
            for name in wanted:
                why = problems.why_missing(name)
                if why is not None:
                    print(f"{name}: left out, {why}", flush=True)
                    continue
                data = problems.opened(name)
                for C in COSTS:
                    if time.perf_counter() - started > 60.0 * minutes:
                        print(f"{minutes:g} minutes are over; the same command continues from here", flush=True)
                        break
                    match = Match(data, "logistic", C, 1, clock, ledger, peers, *LIMITS)
                    match.play()
                    if options.methods:
                        match.try_methods()
                    latest = next(group for group in groups(ledger, 1, clock) if (group.data, group.C) == (name, C))
                    print(report.line(latest), flush=True)
    finally:
        peers.close()
    found = groups(ledger, 1, clock)
    if options.methods:
        print(report.fastest_methods(found))
    _write(found, clock)


def _write(found: list[Group], clock: str) -> None:
    page = Page("logistic", "Logistic regression beside the peers, measured", HOW.format(clock=CLOCKS[clock]))
    page.table("gap", "geometric mean of the ratios", "cells", "above 1")
    for gap in GAPS:
        ratios = [cell.ratio for group in found for cell in group.cells if cell.gap == gap and cell.ratio is not None]
        mean = geometric_mean(ratios)
        page.row(
            f"{gap:.0e}", "-" if mean is None else f"{mean:.2f}", len(ratios), sum(ratio > 1.0 for ratio in ratios)
        )
    page.end_table()
    page.table("set", "C", "gap", "method", "ours (s)", "fastest peer", "its seconds", "ratio")
    for group in sorted(found, key=lambda one: (SETS.index(one.data) if one.data in SETS else len(SETS), one.C)):
        for cell in group.cells:
            best = cell.best_peer
            ratio = "-" if cell.ratio is None else f"{cell.mark}{cell.ratio:.2f}"
            theirs = "-" if best is None else f"{cell.peers[best]:.4f}"
            ours = "-" if cell.ours is None else f"{cell.ours:.4f}"
            page.row(group.data, f"{group.C:g}", f"{cell.gap:.0e}", cell.solver, ours, best or "none", theirs, ratio)
    page.end_table()
    page.write()
