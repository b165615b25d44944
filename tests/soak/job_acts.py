"""What the clients of a soak do with jobs: train, predict in batch, evaluate, cancel, pause; and with webhooks."""

from typing import Any

import httpx

from tests.soak.ledger import AskedJob, Json, Subscription
from tests.soak.talking import Talker
from tests.support.receiver import Receiver

OPEN_JOBS = 40
"""Jobs that may be unfinished at once; beyond it clients look before they submit, so that a soak can end."""
NAMES = 5
"""Names of trained models."""
RECENT = 5
"""Batch predictions use one of this many newest datasets, so that equal files are written and deleted at once."""


class JobActs(Talker):
    receiver: Receiver
    _webhooks: list[str]

    def submit(self) -> None:
        if not (datasets := self.ledger.known_datasets()) or self._is_crowded():
            return
        body: Json = {"dataset_id": self.random.choice(datasets), "model": f"m{self.random.randrange(NAMES)}"}
        body |= {"priority": self.random.randrange(3), "seed": self.random.randrange(1000)}
        if self.chance(0.3):
            slow = {"solver": "dcd", "C": 1000.0, "tol": 1e-12}
            body |= {**slow, "stop": {"seconds": self.random.uniform(0.2, 2.0)}}
        if self.chance(0.3):
            body["split"] = {"test": 0.3}
        self._queue(body, "submitted")

    def batch(self) -> None:
        """Predict every row of a dataset into a file."""
        model_id = self._some_model()
        if model_id is None or not (datasets := self.ledger.known_datasets()) or self._is_crowded():
            return
        body = {"type": "predict", "dataset_id": self.random.choice(datasets[-RECENT:]), "model": model_id}
        self._queue(body, "batch predictions")

    def judge(self) -> None:
        """Evaluate a model, or verify its certificate."""
        model_id = self._some_model()
        if model_id is None or not (datasets := self.ledger.known_datasets()) or self._is_crowded():
            return
        body = {"type": "evaluate", "dataset_id": self.random.choice(datasets), "model": model_id}
        if self.chance(0.5):
            body = {"type": "verify", "model": model_id}
        self._queue(body, "evaluations and verifications")

    def look(self) -> None:
        """At a job that is not known to be done, or at any."""
        unfinished = self.ledger.unfinished()
        if jobs := unfinished or list(self.ledger.jobs.values()):
            self._look_at(self.random.choice(jobs))

    def change(self) -> None:
        if not (jobs := self.ledger.unfinished()):
            return
        job, verb = self.random.choice(jobs), self.random.choice(["cancel", "finish", "pause", "resume"])
        if verb == "cancel":
            self.ledger.cancel_asked.add(job.id)
        self.attempt("POST", f"/v1/jobs/{job.id}/{verb}")
        self.ledger.count(f"asked to {verb}")

    def read_output(self) -> None:
        """The file of a batch prediction has a line for each row."""
        if jobs := self.ledger.with_output():
            job = self.random.choice(jobs)
            answer = self.attempt("GET", f"/v1/jobs/{job.id}/output")
            if answer is not None:
                self.ledger.check_output(job, answer.status_code, answer.content)

    def delete_output(self) -> None:
        jobs = [job for job in self.ledger.with_output() if job.id not in self.ledger.output_delete_asked]
        if jobs:
            job = self.random.choice(jobs)
            self.ledger.output_delete_asked.add(job.id)
            self.insist("DELETE", f"/v1/jobs/{job.id}/output")
            self.ledger.count("deleted outputs")

    def replace_webhook(self) -> None:
        """Register an address for the ends of all jobs; delete the one before it."""
        path = f"/all/{self.number}/{self.key()}"
        body = {"url": self.receiver.url + path}
        answer = self.insist("POST", "/v1/webhooks", self.key(), json=body)
        if answer is None or answer.status_code != 201:
            return
        self.ledger.subscribe(Subscription(path, answer.json()["id"], answer.json()["secret"], job_id=None))
        own = self.__dict__.setdefault("_webhooks", [])
        own.append(answer.json()["id"])
        if len(own) > 1:
            old = own.pop(0)
            self.ledger.unsubscribe(old)
            self.insist("DELETE", f"/v1/webhooks/{old}")

    def _queue(self, body: Json, what: str) -> None:
        key = self.key()
        path = f"/job/{key}"
        wants_webhook = self.chance(0.15)
        if wants_webhook:
            body = {**body, "webhook": {"url": self.receiver.url + path, "events": ["*"]}}
        answer = self.insist("POST", "/v1/jobs", key, json=body)
        if answer is None or answer.status_code != 201:
            return
        job = answer.json()
        if wants_webhook:
            hook = job["webhook"]
            self.ledger.subscribe(Subscription(path, hook["id"], hook["secret"], job["id"]))
        asked = AskedJob(job["id"], job["type"], body.get("dataset_id"), body["model"])
        self.ledger.acknowledge_job(key, asked)
        self.ledger.count(what)

    def _look_at(self, job: AskedJob) -> None:
        answer = self.attempt("GET", f"/v1/jobs/{job.id}")
        if answer is None or answer.status_code in (503, 507):
            return
        if answer.status_code != 200:
            self.ledger.blame(f"{answer.url.path}: acknowledged, and now {answer.status_code}")
            return
        self._learn(job, answer)

    def _learn(self, job: AskedJob, answer: httpx.Response) -> None:
        shown: dict[str, Any] = answer.json()
        if shown["done"]:
            self.ledger.end(job, shown)
        elif shown["status"] == "paused" and self.chance(0.3):
            self.attempt("POST", f"/v1/jobs/{job.id}/resume")

    def _is_crowded(self) -> bool:
        """Whether enough jobs wait; then one of them is looked at instead."""
        if len(self.ledger.unfinished()) < OPEN_JOBS:
            return False
        self.look()
        return True

    def _some_model(self) -> str | None:
        models = self.ledger.usable_models()
        return self.random.choice(models) if models else None
