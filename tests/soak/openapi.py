"""`python -m tests.soak.openapi [--cases N] [--seed S] [--database sqlite|postgresql] [--examples N]`

Sends requests that schemathesis makes from the OpenAPI document, all checks on, to a service that holds a dataset, a
model, jobs and all else that a path can name. Rounds with new seeds follow each other until there were N cases; each
has a service of its own. Prints the counts, and exits with 1 if a check failed that nothing explains.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak.openapi_explained import ENTRIES
from tests.support.postgres import fresh_database, running_server
from tests.support.serving import Service, checked, running_service
from tests.support.tables import csv_text, noisy_rows

PHASES = "examples,coverage,fuzzing,stateful"
MOST_FAILURES = 200
"""After this many no further round begins."""
ROUND_EXAMPLES = 100
"""Cases of each operation in a round, beside those that cover every keyword of its schema."""

EVENT_STREAM = """
[[operations]]
include-name = "GET /v1/events"
request-timeout = 0.5
request-retries = 5
"""
"""Settings of schemathesis: how long to read a stream that does not end by itself; without them it would be 10 s. The
same time limits the wait for the stream's head, which can take longer on a busy machine: then it asks again. A stream
that never begins fails all six attempts.
"""


@dataclass
class Found:
    """What the rounds came to."""

    cases: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def is_hopeless(self) -> bool:
        return len(self.failures) > MOST_FAILURES


def make_things(service: Service) -> dict[str, Any]:
    """One of everything that a path or a body can name."""
    dataset = service.upload(csv_text(*noisy_rows(200, 4, seed=1)))["id"]
    checked(service.http.get(f"/v1/datasets/{dataset}", params={"wait": 60}))  # a busy machine is still reading it
    trained = service.wait(service.submit(dataset, model="m")["id"])
    batch = service.submit(dataset, type="predict", model="m")["id"]
    judged = service.wait(service.submit(dataset, type="evaluate", model="m")["id"])
    service.wait(batch)
    # It keeps the dataset from being deleted, and the alias the model.
    held = service.submit(dataset, solver="dcd", C=1000.0, tol=1e-14, stop={"seconds": 3600})["id"]
    checked(service.http.post(f"/v1/jobs/{held}/pause"))
    checked(service.http.put("/v1/models/m/aliases/live", json={"version": 1}))
    webhook = checked(service.http.post("/v1/webhooks", json={"url": "https://example.invalid/hook"}))["id"]
    upload = checked(service.http.post("/v1/uploads", headers={"Content-Type": "text/csv"}))["id"]
    return {
        **{"dataset_id": dataset, "job_id": batch, "model": "m", "ref": "m", "name": "m", "alias": "live"},
        **{"version": 1, "upload_id": upload, "webhook_id": webhook},
        "evaluation_id": judged["result"]["evaluation_id"],
        "model_id": trained["model_id"],
    }


def make_key(service: Service) -> str:
    command = [sys.executable, "-m", "app.cli", "keys", "create", "--admin"]
    made = subprocess.run(command, env=service.environment, check=True, capture_output=True, text=True)
    return next(word for word in made.stdout.split() if word.startswith("key_"))


def run_round(folder: Path, database_url: str | None, seed: int, examples: int, phases: str, found: Found) -> None:
    """One run of schemathesis against a new service."""
    data, report, explained = folder / "data", folder / "report.json", folder / "explained.jsonl"
    data.mkdir()
    explained.touch()
    with running_service(data, database_url, workers=1, log_dir=folder, free_space_bytes=0) as service:
        (folder / "things.json").write_text(json.dumps(make_things(service)))
        (folder / "schemathesis.toml").write_text(EVENT_STREAM)
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(folder / "schemathesis.toml")]
        command += ["run", f"{service.url}/openapi.json"]
        command += ["--header", f"Authorization: Bearer {make_key(service)}", "--checks", "all", "--phases", phases]
        command += ["--max-examples", str(examples), "--seed", str(seed), "--generation-database", "none"]
        command += ["--continue-on-failure", "--no-shrink", "--no-color", "--suppress-health-check", "all"]
        command += ["--report", "json", "--report-json-path", str(report)]
        files = {"HYPERPLANE_SOAK_THINGS": folder / "things.json", "HYPERPLANE_SOAK_EXPLAINED": explained}
        hooks = {"SCHEMATHESIS_HOOKS": "tests.soak.openapi_hooks", **{name: str(path) for name, path in files.items()}}
        ended = subprocess.run(command, env={**os.environ, **hooks}, check=False, capture_output=True, text=True)
    if not report.exists():
        said = ended.stdout[-2000:] + ended.stderr[-2000:]
        found.failures.append(f"schemathesis ended with {ended.returncode}: {said}")
        return
    result = json.loads(report.read_text())
    found.cases += result["test_cases"]["generated"]
    judged = [json.loads(line) for line in explained.read_text().splitlines()]
    found.explained.update(entry for one in judged if one["explained"] for entry in one["entries"])
    found.failures += [json.dumps(one) for one in judged if not one["explained"]]
    if result["errors"] or not result["complete"]:
        said = ended.stdout.partition("= ERRORS =")[2] or ended.stdout[-2000:]
        found.failures.append(f"{result['errors']}: {said[:4000]}")


def run(cases: int, seed: int, database: str, examples: int = ROUND_EXAMPLES, phases: str = PHASES) -> Found:
    """Rounds until there were as many cases."""
    found = Found()
    with ExitStack() as stack:
        server = stack.enter_context(running_server()) if database == "postgresql" else None
        while found.cases < cases and not found.is_hopeless:
            with ExitStack() as round_stack:
                folder = Path(round_stack.enter_context(tempfile.TemporaryDirectory(prefix="hyperplane-openapi-")))
                url = None if server is None else round_stack.enter_context(fresh_database(server))
                run_round(folder, url, seed, examples, phases, found)
            print(f"== seed {seed}: {found.cases} cases", flush=True)
            seed += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.openapi")
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--examples", type=int, default=ROUND_EXAMPLES, help="of each operation in a round")
    wanted = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the service and schemathesis end too
    replay = f"--seed {wanted.seed} --database {wanted.database} --examples {wanted.examples}"
    print(f"== again with: python -m tests.soak.openapi --cases {wanted.cases} {replay}", flush=True)
    found = run(wanted.cases, wanted.seed, wanted.database, wanted.examples)
    for entry, count in sorted(found.explained.items()):
        print(f"  {count:7d}  explained: {entry}")
    for entry in sorted(ENTRIES.keys() - found.explained.keys()):
        print(f"           not needed: {entry}")
    for failure in found.failures:
        print(failure)
    print(f"== {found.cases} cases on {wanted.database}: {'FAILED' if found.failures else 'no check failed'}")
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
