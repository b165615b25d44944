"""Imports of one model while its twins are purged, on a real service: `python -m tests.soak.import_purge sqlite 10`.

Four clients import the same model, read its weights and purge it for that many seconds. Every import that was
acknowledged must answer until it is purged; then `verify` must find nothing wrong.
"""

import json
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import httpx

from app.admin.integrity import verify_storage
from tests.support.builders import temporary_settings
from tests.support.postgres import fresh_database, running_server
from tests.support.serving import running_service

CLIENTS = 4
BODY = json.dumps({"task": "binary", "classes": ["no", "yes"], "coef": [1.5, -0.5], "intercept": 0.1}).encode()


class Counts:
    def __init__(self) -> None:
        self.acknowledged: list[str] = []
        self.refused: list[int] = []
        self.lost: list[str] = []


def import_and_purge(url: str, name: str, until: float, counts: Counts) -> None:
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
        while time.monotonic() < until:
            headers = {"Content-Type": "application/json"}
            answer = http.post("/v1/models/import", params={"name": name}, content=BODY, headers=headers)
            if answer.status_code != 201:
                counts.refused.append(answer.status_code)
                continue
            model_id = answer.json()["id"]
            counts.acknowledged.append(model_id)
            if http.get(f"/v1/models/{model_id}/weights").status_code != 200:
                counts.lost.append(model_id)
            if time.monotonic() < until:  # the last one stays, for `verify`
                http.delete(f"/v1/models/{model_id}", params={"purge": "true"})


def run(kind: str, seconds: float) -> bool:
    """Whether nothing was lost."""
    counts = Counts()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(running_server()) if kind == "postgresql" else None
        url = stack.enter_context(fresh_database(server)) if server else f"sqlite:///{folder}/hyperplane.db"
        with running_service(folder, url, workers=0, processes=2) as service:
            until = time.monotonic() + seconds
            threads = [
                threading.Thread(target=import_and_purge, args=(service.url, f"m{number}", until, counts))
                for number in range(CLIENTS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        faults = verify_storage(temporary_settings(folder, database_url=url)).faults
    print(
        f"{kind}: {len(counts.acknowledged)} imports acknowledged, {len(counts.lost)} lost, "
        f"{len(counts.refused)} refused, {len(faults)} faults found by verify"
    )
    return not (counts.lost or counts.refused or faults)


if __name__ == "__main__":
    sys.exit(0 if run(sys.argv[1], float(sys.argv[2])) else 1)
