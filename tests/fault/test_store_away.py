"""The volume of the data folder is unmounted for a while: nothing fails for good, and nothing is lost."""

import time
from pathlib import Path

from tests.support.serving import Service, checked, running_service, wait_until
from tests.support.tables import csv_text, noisy_rows

JOBS = 6
AWAY_SECONDS = 4.0


def send(service: Service, seed: int) -> int:
    content = csv_text(*noisy_rows(60, 3, seed=seed))
    return service.http.post("/v1/datasets", content=content, headers={"Content-Type": "text/csv"}).status_code


def test_jobs_wait_for_a_volume_that_comes_back(tmp_path: Path) -> None:
    folder, unmounted = tmp_path / "volume", tmp_path / "unmounted"
    folder.mkdir()
    with running_service(folder, f"sqlite:///{tmp_path / 'test.sqlite3'}", workers=1, log_dir=tmp_path) as service:
        dataset = service.upload(csv_text(*noisy_rows(60, 3, seed=1)))["id"]
        folder.rename(unmounted)
        folder.mkdir()
        jobs = [service.submit(dataset, seed=seed)["id"] for seed in range(JOBS)]
        answer = service.http.get("/readyz")
        refused = send(service, seed=2)
        time.sleep(AWAY_SECONDS)
        waiting = [service.job(job_id)["status"] for job_id in jobs]
        written = sorted(path.name for path in folder.rglob("*") if path.is_file())
        for path in sorted(folder.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        folder.rmdir()
        unmounted.rename(folder)
        wait_until(service.is_ready, 30, "the service to be ready again")
        ended = [service.wait(job_id) for job_id in jobs]
        print(f"readyz {answer.status_code}, upload {refused}, {waiting}, {[job['status'] for job in ended]}")
        assert (answer.status_code, refused) == (503, 503)
        assert "has no store.id" in answer.json()["checks"]["storage"]
        assert (waiting, written) == (["queued"] * JOBS, [])
        assert [(job["status"], job["attempt"]) for job in ended] == [("succeeded", 1)] * JOBS
        assert send(service, seed=2) == 201
        assert checked(service.http.get(f"/v1/datasets/{dataset}"))["status"] == "ready"
