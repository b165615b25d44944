"""Ours beside ours of another checkout, taking turns: whether a change that moves code costs time (--against FOLDER).

The cells are those of `peers --quick`. Each checkout trains in a process of its own, with its own compiled kernels;
the two take turns, and the fastest run of each counts. A cell also says whether the weights have the same bits.
"""

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks import problems
from benchmarks.peers import COSTS, LOSSES
from benchmarks.peers.match import GAPS
from benchmarks.timing import least_seconds

HERE = Path(__file__).resolve().parents[1]
ROUNDS, ENOUGH_SECONDS = 7, 2.0
"""Rounds a cell; a longer run is not repeated."""
LIMIT_SECONDS = 10.0


def run(options: argparse.Namespace) -> None:
    if options.against is None:
        raise SystemExit("name the other checkout, with its kernels compiled: --against FOLDER")
    ratios = []
    with Checkout(HERE) as ours, Checkout(Path(options.against)) as theirs:
        for name in (name for name in problems.QUICK if problems.why_missing(name) is None):
            folder = str(problems.opened(name).folder)
            ours.ask(folder=folder)
            theirs.ask(folder=folder)
            for loss, C, gap in itertools.product(LOSSES, COSTS, GAPS):
                ratio = _compare(f"{name} {loss} C={C:g} {gap:g}", ours, theirs, loss, C, gap)
                ratios += [] if ratio is None else [ratio]
    mean = math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
    print(f"geometric mean of {len(ratios)} cells: {mean:.3f}; highest {max(ratios):.2f}, lowest {min(ratios):.2f}")


def _compare(title: str, ours: "Checkout", theirs: "Checkout", loss: str, C: float, gap: float) -> float | None:
    """Our seconds over theirs; None if one of them did not converge in time."""
    digests: dict[str, set[str]] = {"ours": set(), "theirs": set()}

    def train(who: str, checkout: Checkout) -> float | None:
        answer = checkout.ask(loss=loss, C=C, tol=gap, max_seconds=LIMIT_SECONDS)
        digests[who].add(answer["digest"])
        return float(answer["seconds"]) if answer["converged"] else None

    least = least_seconds(
        {"ours": lambda: train("ours", ours), "theirs": lambda: train("theirs", theirs)},
        rounds=ROUNDS,
        enough=ENOUGH_SECONDS,
    )
    if len(least) < 2:
        print(f"{title}: not within {LIMIT_SECONDS:g} s", flush=True)
        return None
    same = "same bits" if digests["ours"] == digests["theirs"] else "OTHER BITS"
    ratio = least["ours"] / least["theirs"]
    print(f"{title}: {1e3 * least['ours']:.1f} / {1e3 * least['theirs']:.1f} ms = {ratio:.2f}, {same}", flush=True)
    return ratio


class Checkout:
    """A process that trains with the solvers of one checkout."""

    def __init__(self, folder: Path) -> None:
        # -P: the folder of the child's own file has a module called solvers.
        command = [sys.executable, "-P", str(HERE / "benchmarks" / "commits_child.py")]
        environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def __enter__(self) -> "Checkout":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
