"""`python -m tests.soak [--seconds N] [--kills N] [--seed S] [--database sqlite|postgresql|both] [--jobs N]`

Runs random faults on each database for that many seconds, or until that many processes were killed, then 16 claimers on
that many jobs. Prints the seed first and the counts at the end, and exits with 1 if any promise was broken. The same
command with the same seed draws the same faults and the same requests again; how they interleave is up to the machine.
SIGTERM ends the faults and compares what there was until then; a second one ends everything.
"""

import argparse
import random
import signal
import sys
import time

from tests.soak.claimers import claims_a_second
from tests.soak.run import Plan, enough, kills, soak_postgresql, soak_sqlite

SOAKS = {"sqlite": soak_sqlite, "postgresql": soak_postgresql}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--seconds", type=float, default=300.0, help="of random faults on each database, at most")
    parser.add_argument("--kills", type=int, help="of processes on each database, at most")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--database", choices=[*SOAKS, "both"], default="both")
    parser.add_argument("--jobs", type=int, default=10_000, help="for 16 claimers on each database; 0: none")
    wanted = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    names = list(SOAKS) if wanted.database == "both" else [wanted.database]
    limit = "" if wanted.kills is None else f" --kills {wanted.kills}"
    broken = 0
    for name in names:
        if enough.is_set():
            break
        replay = f"python -m tests.soak --database {name} --seconds {wanted.seconds:g}{limit} --seed {wanted.seed}"
        print(f"== {name}, seed {wanted.seed}; again with: {replay}", flush=True)
        began = time.monotonic()
        ledger = SOAKS[name](Plan(wanted.seed, wanted.seconds, most_kills=wanted.kills))
        for what, count in sorted(ledger.counts.items()):
            print(f"  {count:7d}  {what}")
        for fault in ledger.faults:
            print(f"  BROKEN  {fault}")
        broken += len(ledger.faults)
        seconds = time.monotonic() - began
        print(
            f"== {name}: {kills(ledger)} kills, {len(ledger.faults)} broken promises after {seconds:.0f} s", flush=True
        )
        if wanted.jobs and not enough.is_set():
            speed = claims_a_second(name, wanted.jobs)
            print(
                f"== {name}: 16 claimers, {wanted.jobs} jobs, each claimed once: {speed:.0f} claims a second",
                flush=True,
            )
    return 1 if broken else 0


def _end(*_: object) -> None:
    if enough.is_set():
        sys.exit("stopped")  # the service ends too
    enough.set()


if __name__ == "__main__":
    sys.exit(main())
