"""A sample of what `make soak` does for as long as it is given: random kills, many claimers, a stop under load."""

import http.client
import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.soak.claimers import empty_queue
from tests.soak.run import Plan, soak_postgresql, soak_sqlite
from tests.support.serving import Service, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

SAMPLES = {"sqlite": (soak_sqlite, 8), "postgresql": (soak_postgresql, 7)}
KILLS = ("kill_api", "kill_worker", "kill_training", "kill_training")  # a new API or supervisor takes seconds to start


@pytest.mark.parametrize("database", SAMPLES)
def test_random_kills_break_no_promise(database: str) -> None:
    soak, kills = SAMPLES[database]
    plan = Plan(seed=20, seconds=120.0, most_faults=kills, faults=KILLS, pause_seconds=(0.0, 0.5), lets_work=True)
    ledger = soak(plan)
    assert ledger.faults == []
    assert sum(count for what, count in ledger.counts.items() if what.startswith("fault kill")) == kills
    trainings = [job for job in ledger.jobs.values() if job.type == "train"]  # the others are jobs on models
    assert ledger.counts["submitted"] == len(trainings) > 0
    assert ledger.counts["jobs succeeded"] > 0


def test_sixteen_claimers_take_each_of_five_hundred_jobs_once(database_url: str) -> None:
    assert empty_queue(database_url, 500) > 0


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running_service(tmp_path, workers=1) as service:
        yield service


def test_a_stop_under_load_drops_no_request(service: Service) -> None:
    """Each request has a connection of its own: it is answered in full, or the connection is refused."""
    data = service.upload(csv_text(*noisy_rows(200, 4, seed=1)))
    service.wait(service.submit(data["id"], model="m")["id"])
    outcomes: Counter[str] = Counter()
    stopped, lock = threading.Event(), threading.Lock()
    bodies = {
        "/v1/models/m/predict": {"instances": [[0.1, 0.2, 0.3, 0.4]] * 50},
        "/v1/jobs": {"dataset_id": data["id"]},
    }

    def send(path: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
        try:
            connection.connect()
        except ConnectionRefusedError:
            return "refused"
        try:
            connection.request("POST", path, json.dumps(bodies[path]), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            json.loads(answer.read())
            return f"answered {answer.status}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"dropped: {error!r}"
        finally:
            connection.close()

    def load(path: str) -> None:
        refused = 0
        while refused < 3:
            outcome = send(path)
            refused += outcome == "refused"
            with lock:
                outcomes[outcome] += 1
            if refused and not stopped.is_set():
                return

    slow = service.submit(data["id"], solver="dcd", C=1e6, tol=1e-14, priority=1, stop={"seconds": 60})["id"]
    polled: list[int] = []
    poll = threading.Thread(target=lambda: polled.append(service.http.get(f"/v1/jobs/{slow}?wait=60").status_code))
    poll.start()
    threads = [threading.Thread(target=load, args=(path,)) for path in bodies for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: sum(outcomes.values()) > 100, 30, "load")
    stopped.set()
    seconds = service.stop()
    for thread in (*threads, poll):
        thread.join()
    assert polled == [200], "a long poll is answered with what there is"
    assert set(outcomes) <= {"answered 200", "answered 201", "answered 503", "refused"}, outcomes
    assert outcomes["refused"] >= len(threads)
    assert seconds < 10
