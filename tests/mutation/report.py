"""Draws the sample, and says what came of it: on the terminal and in docs/benchmarks/mutation*.md."""

import datetime
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.mutation.equivalent import EQUIVALENT, Equivalent
from tests.mutation.operators import Mutant, mutants_of
from tests.mutation.runner import ROOT, SURVIVED, TIMED_OUT, Outcome
from tests.mutation.targets import ON_SERVICE, Part

DOCUMENTS = ROOT / "docs" / "benchmarks"

SURROUNDINGS = ("Tests run without numba's compiler.", "Tests run on SQLite.")


def drawn(parts: Sequence[Part], count: int | None, seed: int) -> list[Mutant]:
    """At least `count` mutants, from each file in proportion to how many it has and at least one; None: every one."""
    everything = [mutants_of(part.path, (ROOT / part.path).read_bytes(), part.names) for part in parts]
    total = sum(len(mutants) for mutants in everything)
    chosen: list[Mutant] = []
    for part, mutants in zip(parts, everything, strict=True):
        wanted = len(mutants) if count is None else min(len(mutants), -(-count * len(mutants) // total))
        # A generator for each file: a change of one file leaves the samples of the others as they are.
        sample = random.Random(f"{seed} {part.path}").sample(mutants, wanted)
        chosen += sorted(sample, key=lambda one: (one.start, one.end, one.replacement))
    return chosen


def diff_of(mutant: Mutant) -> str:
    before, after = mutant.change((ROOT / mutant.path).read_bytes())
    return f"  {mutant.path}:{mutant.line} ({mutant.operator})\n    - {before}\n    + {after}"


class Order(NamedTuple):
    """What the command was asked for."""

    target: str
    mutants: int
    seed: int
    processes: int


@dataclass
class Result:
    """What came of a run."""

    order: Order
    possible: int
    """Mutants of the target."""
    outcomes: list[Outcome]
    seconds: float
    survivors: list[Mutant]
    equivalent: list[tuple[Mutant, Equivalent]]

    @classmethod
    def of(cls, order: Order, parts: Sequence[Part], outcomes: list[Outcome], seconds: float) -> "Result":
        survivors, equivalent = [], []
        for outcome in outcomes:
            mutant = outcome.mutant
            if outcome.verdict != SURVIVED or mutant is None:
                continue
            change = mutant.change((ROOT / mutant.path).read_bytes())
            known = next(
                (one for one in EQUIVALENT if one.path == mutant.path and (one.before, one.after) == change), None
            )
            if known is None:
                survivors.append(mutant)
            else:
                equivalent.append((mutant, known))
        survivors.sort(key=lambda one: (one.path, one.start))
        equivalent.sort(key=lambda one: (one[0].path, one[0].start))
        possible = len(drawn(parts, None, order.seed))
        return cls(order, possible, outcomes, seconds, survivors, equivalent)

    @property
    def killed(self) -> int:
        return sum(outcome.verdict != SURVIVED for outcome in self.outcomes)

    @property
    def score(self) -> float:
        return self.killed / len(self.outcomes)

    @property
    def score_without_equivalent(self) -> float:
        return self.killed / max(1, len(self.outcomes) - len(self.equivalent))

    def summary(self) -> str:
        lines = [f"{len(self.outcomes)} mutants, {self.killed} killed in {self.seconds:.0f} s"]
        lines.append(
            f"score {self.score:.1%}; without {len(self.equivalent)} equivalent {self.score_without_equivalent:.1%}"
        )
        lines += [f"survivor\n{diff_of(mutant)}" for mutant in self.survivors]
        lines += [f"equivalent: {known.reason}\n{diff_of(mutant)}" for mutant, known in self.equivalent]
        lines += [f"stale entry of equivalent.py: {one.path}: {one.after}" for one in self._stale()]
        return "\n".join(lines)

    def _stale(self) -> list[Equivalent]:
        """Entries of the sampled files whose mutant was killed or exists no longer."""
        found = []
        for path in dict.fromkeys(outcome.mutant.path for outcome in self.outcomes if outcome.mutant):
            source = (ROOT / path).read_bytes()
            possible = {one.change(source) for one in mutants_of(path, source)}
            killed = {
                one.mutant.change(source)
                for one in self.outcomes
                if one.mutant and one.mutant.path == path and one.verdict != SURVIVED
            }
            entries = [one for one in EQUIVALENT if one.path == path]
            found += [one for one in entries if (one.before, one.after) not in possible - killed]
        return found

    def write(self, parts: Sequence[Part]) -> None:
        """Return the document. It is generated, not written by hand."""
        target, mutants, seed, processes = self.order
        date = datetime.datetime.now(datetime.UTC)
        command = f"python -m tests.mutation --target {target} --mutants {mutants} --seed {seed}"
        stopped = sum(outcome.verdict == TIMED_OUT for outcome in self.outcomes)
        lines = [
            "# Mutation testing" if target == "certificates" else f"# Mutation testing: {target.replace('_', ' ')}",
            "",
            f"Written by `{command}`",
            f"on {date:%Y-%m-%d}, in {self.seconds / 60.0:.0f} minutes on {processes} processes.",
            "",
            f"{len(self.outcomes)} of {self.possible} mutants were drawn, in proportion to their number in each file.",
            f"{self.killed} were killed ({stopped} of them by their time limit), {len(self.survivors)} survived, and",
            f"{len(self.equivalent)} more survived that are equivalent.",
            "",
            "| score | |",
            "|---|---|",
            f"| killed, of all | {self.score:.1%} |",
            f"| killed, of those that are not equivalent | {self.score_without_equivalent:.1%} |",
            "",
            f"{SURROUNDINGS[target in ON_SERVICE]} What is mutated and how is described in `tests/mutation/`.",
            "",
            "| file | possible | drawn | killed | equivalent | survived |",
            "|---|---:|---:|---:|---:|---:|",
            *(self._row(part) for part in parts),
            "",
            "## Survivors",
            "",
        ]
        for mutant in self.survivors:
            lines += [f"- `{mutant.path}:{mutant.line}`, {mutant.operator}", *_as_diff(mutant), ""]
        lines += [
            "## Equivalent mutants",
            "",
            "They change nothing that is promised; `tests/mutation/equivalent.py` lists them.",
            "",
        ]
        for mutant, known in self.equivalent:
            lines += [f"- `{mutant.path}:{mutant.line}`, {mutant.operator}: {known.reason}", *_as_diff(mutant), ""]
        name = "mutation.md" if target == "certificates" else f"mutation_{target}.md"
        (DOCUMENTS / name).write_text("\n".join(lines).rstrip() + "\n")

    def _row(self, part: Part) -> str:
        here = [outcome for outcome in self.outcomes if outcome.mutant and outcome.mutant.path == part.path]
        possible = len(mutants_of(part.path, (ROOT / part.path).read_bytes(), part.names))
        killed = sum(outcome.verdict != SURVIVED for outcome in here)
        equivalent = sum(mutant.path == part.path for mutant, _ in self.equivalent)
        survived = len(here) - killed - equivalent
        return f"| `{part.path}` | {possible} | {len(here)} | {killed} | {equivalent} | {survived} |"


def _as_diff(mutant: Mutant) -> list[str]:
    before, after = mutant.change((ROOT / mutant.path).read_bytes())
    return ["", "  ```diff", f"  - {before}", f"  + {after}", "  ```"]
