"""`python -m tests.soak.stops [--stops N] [--seed S]`: a service is stopped N times at random moments.

Each stop sends one to five signals (SIGTERM or SIGINT) to the process group of a `hyperplane serve` as a terminal does,
while it starts, while it is idle, or while a job runs. It passes when every process of the service is gone within the
drain time and the launcher had to kill none. The same seed draws the same moments and signals again.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support.serving import Service, wait_until
from tests.support.tables import csv_text, noisy_rows

DRAIN_SECONDS = 10.0
"""The bound of each stop: the default drain time of 8 s and the 2 s after which the launcher kills."""
STARTING_SHARE = 0.4
"""Share of the stops that come while the service starts."""
LATEST_START_SECONDS = 3.0
"""Until when a stop of a starting service comes: about the time until it is ready on two cores."""
GONE_SECONDS = 30.0
KILLED = "did not stop in time; killing it"


@dataclass(frozen=True)
class Stop:
    """What one stop was and how it went."""

    moment: str
    signals: int
    seconds: float
    """From the first signal until the last process of the service was gone."""
    killed: bool
    """Whether the launcher killed a child, or we had to kill what was left."""

    @property
    def sound(self) -> bool:
        return not self.killed and self.seconds <= DRAIN_SECONDS


def stop_once(chance: random.Random, folder: Path) -> Stop:
    """Start a service in the folder, stop it at a random moment, and see all of it end."""
    folder.mkdir()
    service = Service(folder, workers=1)
    with service.log_file.open("ab") as log:
        command = [sys.executable, "-m", "app.cli", "serve"]
        service.process = subprocess.Popen(
            command, env=service.environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        moment = _let_come(chance, service)
        service.http.close()
        signals = chance.randint(1, 5)
        began = time.monotonic()
        for _ in range(signals):
            with suppress(ProcessLookupError):
                os.killpg(service.process.pid, chance.choice([signal.SIGTERM, signal.SIGINT]))
            time.sleep(chance.choice([0.0, 0.0, chance.uniform(0.0, 0.002), chance.uniform(0.0, 0.3)]))
        left = _wait_until_gone(service, folder)
        return Stop(moment, signals, time.monotonic() - began, bool(left) or KILLED in service.log())
    finally:
        for pid in _processes(folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        service.process.wait()


def _let_come(chance: random.Random, service: Service) -> str:
    """Wait for the moment of the stop; returns what the service is doing then."""
    if chance.random() < STARTING_SHARE:
        time.sleep(chance.uniform(0.0, LATEST_START_SECONDS))
        return "starting"
    wait_until(service.is_ready, 120, "the service to be ready")
    if chance.random() < 0.5:
        time.sleep(chance.uniform(0.0, 0.3))
        return "idle"
    with suppress(httpx.TransportError):
        data = service.upload(csv_text(*noisy_rows(500, 4, seed=1)))
        service.submit(data["id"], solver="dcd", C=1e6, tol=1e-14, stop={"seconds": 60})
    time.sleep(chance.uniform(0.0, 1.0))
    return "training"


def _wait_until_gone(service: Service, folder: Path) -> list[int]:
    """Processes of the service that are left, after much more than the drain time."""
    deadline = time.monotonic() + GONE_SECONDS
    assert service.process is not None
    while time.monotonic() < deadline:
        if service.process.poll() is not None and not _processes(folder):
            return []
        time.sleep(0.01)
    return _processes(folder)


def _processes(folder: Path) -> list[int]:
    """Those with the data folder in their environment: the service, its children and theirs."""
    mark = f"HYPERPLANE_DATA_DIR={folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.stops")
    parser.add_argument("--stops", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    wanted = parser.parse_args()
    print(f"seed {wanted.seed}; again with: python -m tests.soak.stops --stops {wanted.stops} --seed {wanted.seed}")
    chance = random.Random(wanted.seed)
    stops = []
    with tempfile.TemporaryDirectory(prefix="hyperplane-stops-") as parent:
        for number in range(wanted.stops):
            stops.append(stop_once(chance, Path(parent) / str(number)))
            if not stops[-1].sound:
                print(f"  BROKEN  stop {number}: {stops[-1]}", flush=True)
    for moment in sorted({one.moment for one in stops}):
        these = sorted(one.seconds for one in stops if one.moment == moment)
        print(f"  {len(these):4d}  {moment}: median {these[len(these) // 2]:.2f} s, slowest {these[-1]:.2f} s")
    broken = sum(not one.sound for one in stops)
    slowest = max(one.seconds for one in stops)
    killed = sum(one.killed for one in stops)
    print(f"{len(stops)} stops: slowest {slowest:.2f} s, {killed} killed, {broken} broken", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
