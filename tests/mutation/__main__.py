"""`python -m tests.mutation [--target NAME] [--mutants N] [--seed S] [--only FILE] [--every] [--processes P]`

Prints the score and every survivor with its place and diff, and writes the target's page in docs/benchmarks/ if a whole
target was sampled. Exits with 1 if the score without equivalent mutants is below LEAST_SCORE.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.mutation.operators import Mutant
    from tests.mutation.runner import Outcome, Run

    Outcomes = Callable[[Sequence[Run]], Iterator[Outcome]]
    Show = Callable[[str, Outcome], None]

LEAST_SCORE = 0.9
"""Least share of the mutants that are not equivalent that must be killed."""


def main() -> int:
    from tests.mutation.targets import ON_SERVICE, TARGETS

    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--target", choices=[*TARGETS], default="certificates")
    parser.add_argument("--mutants", type=int, default=330, help="how many are drawn; at least one a file")
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument("--only", help="a path of the target: mutants of this file only; no report is written")
    parser.add_argument("--numbers", help="mutants of the sample by number, as 3,17; no report is written")
    parser.add_argument("--every", action="store_true", help="every mutant instead of a sample")
    parser.add_argument("--quick", action="store_true", help="only the warm run of the service's targets; no report")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="print each mutant's outcome as it ends")
    parser.add_argument("--show", type=int, help="print the diff of this mutant of the sample and end")
    wanted = parser.parse_args()
    on_service = wanted.target in ON_SERVICE
    if not on_service:
        os.environ["NUMBA_DISABLE_JIT"] = "1"  # before numba is imported, which reads it once
    from tests.mutation import report, runner, warm_tests

    parts = [part for part in TARGETS[wanted.target] if wanted.only in (None, part.path)]
    if not parts:
        parser.error(f"--only {wanted.only}: not a file of the target {wanted.target}")
    drawn = report.drawn(parts, None if wanted.every else wanted.mutants, wanted.seed)
    if wanted.show is not None:
        print(report.diff_of(drawn[wanted.show]))
        return 0
    chosen = drawn if wanted.numbers is None else [drawn[int(number)] for number in wanted.numbers.split(",")]
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that copies and forks are cleared
    runner.preload(on_service=on_service)
    tests_of = {part.path: part.tests for part in parts}
    numbers = {mutant: number for number, mutant in enumerate(drawn)}

    def show(place: str, outcome: "Outcome") -> None:
        if outcome.mutant is not None and (wanted.verbose or outcome.verdict == runner.SURVIVED):
            print(f"{place} {outcome.verdict} {outcome.seconds:.1f} s, mutant {numbers[outcome.mutant]}")
            print(report.diff_of(outcome.mutant), flush=True)

    left = random.Random(wanted.seed).sample(chosen, len(chosen))  # in random order, for estimates of time
    outcomes: list[Outcome] = []
    if on_service:
        tests = dict.fromkeys(test for part in parts for test in part.tests)
        with warm_tests.started(list(tests), wanted.processes) as warm:
            ended = _run(left, tests_of, warm, show)
        survived = (runner.SURVIVED, warm_tests.NOT_PATCHED)
        outcomes = [one for one in ended if one.verdict not in survived]
        left = [one.mutant for one in ended if one.mutant is not None and one.verdict in survived]
    if wanted.quick:
        outcomes += [one for one in ended if one.verdict == runner.SURVIVED]
    else:
        again = partial(runner.outcomes, processes=wanted.processes, on_service=on_service)
        outcomes += _run(left, tests_of, again, show)
    order = report.Order(wanted.target, wanted.mutants, wanted.seed, wanted.processes)
    result = report.Result.of(order, parts, outcomes, time.monotonic() - began)
    print(result.summary())
    if wanted.only is None and wanted.numbers is None and not wanted.every and not wanted.quick:
        result.write(parts)
    return 0 if result.score_without_equivalent >= LEAST_SCORE else 1


def _run(
    mutants: "Sequence[Mutant]", tests_of: dict[str, tuple[str, ...]], outcomes: "Outcomes", show: "Show"
) -> "list[Outcome]":
    """The outcomes of these mutants, after each list of tests was run on the source as it is, for the time limit."""
    from tests.mutation import runner

    limits = {}
    for tests in dict.fromkeys(tests_of[one.path] for one in mutants):
        (plain,) = outcomes([(None, tests, 600.0)])
        if plain.verdict != runner.SURVIVED:
            sys.exit(f"the tests fail without a mutant:\n{plain.output[-3000:]}")
        limits[tests] = max(runner.LEAST_SECONDS, runner.TIMES_SLOWER * plain.seconds)
        print(f"{plain.seconds:6.1f} s without a mutant: {' '.join(tests)}", flush=True)
    found: list[Outcome] = []
    for outcome in outcomes([(one, tests_of[one.path], limits[tests_of[one.path]]) for one in mutants]):
        found.append(outcome)
        show(f"{len(found)}/{len(mutants)}", outcome)
    return found


if __name__ == "__main__":
    sys.exit(main())
