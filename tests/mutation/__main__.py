"""`python -m tests.mutation [--target NAME] [--mutants N] [--seed S] [--only FILE] [--every] [--processes P]`

Prints the score and every survivor with its place and diff, and writes docs/benchmarks/mutation.md if a whole target
was sampled. Exits with 1 if the score without equivalent mutants is below LEAST_SCORE.
"""

import argparse
import os
import random
import signal
import sys
import time

LEAST_SCORE = 0.9
"""Share of the mutants that are not equivalent, of which at least so many must be killed."""


def main() -> int:
    # Before numba is imported: it reads the variable once.
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    from tests.mutation import report, runner
    from tests.mutation.targets import TARGETS

    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--target", choices=[*TARGETS], default="certificates")
    parser.add_argument("--mutants", type=int, default=330, help="how many are drawn; at least one a file")
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--only", help="a path of the target: mutants of this file only; no report is written")
    parser.add_argument("--every", action="store_true", help="every mutant instead of a sample")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="print each mutant's outcome as it ends")
    parser.add_argument("--show", type=int, help="print the diff of this mutant of the sample and end")
    wanted = parser.parse_args()

    parts = [part for part in TARGETS[wanted.target] if wanted.only in (None, part.path)]
    if not parts:
        parser.error(f"--only {wanted.only}: not a file of the target {wanted.target}")
    drawn = report.drawn(parts, None if wanted.every else wanted.mutants, wanted.seed)
    if wanted.show is not None:
        print(report.diff_of(drawn[wanted.show]))
        return 0
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that copies and forks are cleared
    runner.preload()
    limits = {}
    for tests in dict.fromkeys(part.tests for part in parts):
        (plain,) = runner.outcomes([(None, tests, 600.0)], 1)
        if plain.verdict != runner.SURVIVED:
            print(f"the tests fail without a mutant:\n{plain.output[-3000:]}")
            return 2
        limits[tests] = max(runner.LEAST_SECONDS, runner.TIMES_SLOWER * plain.seconds)
        print(f"{plain.seconds:6.1f} s without a mutant: {' '.join(tests)}", flush=True)
    tests_of = {part.path: part.tests for part in parts}
    numbers = {mutant: number for number, mutant in enumerate(drawn)}
    shuffled = random.Random(wanted.seed).sample(drawn, len(drawn))  # so that the time that is left can be told
    ended = []
    for outcome in runner.outcomes(
        [(one, tests_of[one.path], limits[tests_of[one.path]]) for one in shuffled], wanted.processes
    ):
        ended.append(outcome)
        if wanted.verbose or outcome.verdict == runner.SURVIVED:
            print(
                f"{len(ended)}/{len(drawn)} {outcome.verdict} {outcome.seconds:.1f} s, mutant {numbers[outcome.mutant]}"
            )
            print(report.diff_of(outcome.mutant), flush=True)
    order = report.Order(wanted.target, wanted.mutants, wanted.seed, wanted.processes)
    result = report.Result.of(order, parts, ended, time.monotonic() - began)
    print(result.summary())
    if wanted.only is None and not wanted.every:
        result.write(parts)
    return 0 if result.score_without_equivalent >= LEAST_SCORE else 1


if __name__ == "__main__":
    sys.exit(main())
