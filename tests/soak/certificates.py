"""`python -m tests.soak.certificates [--solutions N] [--made-up N] [--first SEED] [--processes P]`

Judges N hostile problems in exact arithmetic, prints the counts and every fault, and exits with 1 if there is one. A
fault names its seed, which `--first SEED --solutions 1` (or `--made-up 1`) judges again.
"""

import argparse
import sys
import time
from collections import Counter
from multiprocessing import get_context

from tests.support.exact_soak import Judged, judge_made_up, judge_solution

STRIDE = 200


def _judge_part(part):
    judge, seeds = part
    judged = Judged()
    for seed in seeds:
        judge(seed, judged)
    return judged


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.certificates")
    parser.add_argument("--solutions", type=int, default=20_000, help="problems that a solver is given")
    parser.add_argument("--made-up", type=int, default=100_000, help="problems whose certificate is of made-up points")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    wanted = parser.parse_args()
    parts = []
    for judge, count in ((judge_solution, wanted.solutions), (judge_made_up, wanted.made_up)):
        last = wanted.first + count
        parts += [(judge, range(a, min(a + STRIDE, last))) for a in range(wanted.first, last, STRIDE)]
    counts, faults, excess, began = Counter(), [], 0.0, time.monotonic()
    with get_context("spawn").Pool(wanted.processes) as pool:
        for judged in pool.imap_unordered(_judge_part, parts):
            counts += judged.counts
            faults += judged.faults
            excess = max(excess, judged.largest_excess)
            for fault in judged.faults:
                print(f"  BROKEN  {fault}", flush=True)
    for what, count in sorted(counts.items()):
        print(f"  {count:7d}  {what}")
    print(f"  largest excess of a bound over a value that the optimum does not exceed: {excess:g} ulps")
    print(f"== {len(faults)} false certificates after {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
