"""Measures the coverage of prediction sets over many random splits of made data.

    python -m tests.soak.set_coverage --splits 10000

Each split draws training rows, folds as a job draws them, and 20 new rows. Prints a Markdown table; fails if a measured
coverage is below what is guaranteed.
"""

import argparse
import itertools
import sys
import time

from tests.support.set_coverage import NEW_ROWS, TASKS, Tally, add_split

SHAPES = ((60, 5), (63, 5), (120, 10))
"""Training rows and folds: the second cannot be divided evenly."""
LEVELS = (0.8, 0.9)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10_000, help="Number of splits in all.")
    splits = parser.parse_args().splits
    cases = list(itertools.product(TASKS, SHAPES, LEVELS))
    each = -(-splits // len(cases))
    began, total, failed = time.monotonic(), 0, 0
    print("| task | rows | folds | requested | guaranteed | nominal | measured | worst class | mean size |")
    print("|---|---|---|---|---|---|---|---|---|")
    for number, (task, (rows, folds), requested) in enumerate(cases):
        tally = Tally()
        for seed in range(each):
            add_split(tally, task, rows=rows, folds=folds, requested=requested, seed=number * each + seed)
        measured = tally.covered / tally.splits
        worst = measured
        if tally.by_class is not None:
            counts, hits = tally.by_class
            worst = min(hits[counts > 0] / counts[counts > 0])
        failed += min(measured, worst) < tally.guaranteed
        total += tally.splits
        figures = f"{tally.guaranteed:.3f} | {tally.nominal:.3f} | {measured:.4f} | {worst:.4f}"
        print(f"| {task} | {rows} | {folds} | {requested} | {figures} | {tally.size / tally.splits:.2f} |", flush=True)
    seconds = time.monotonic() - began
    print(f"\n{total:,} splits with {NEW_ROWS} new rows each in {seconds:.0f} s; {failed} below what is guaranteed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
