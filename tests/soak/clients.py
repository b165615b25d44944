"""Clients of a soak: each sends what it wants until it is answered, and writes into the ledger what it was told."""

import random
import threading
from typing import Any
from uuid import UUID

import httpx

from tests.soak.ledger import Json, Ledger
from tests.support.tables import csv_text, noisy_rows

PATIENT = {408, 409, 423, 425, 429, 503, 507}
"""Answers after which one tries again, or lets it be."""
RETRY_SECONDS = 0.1


class Client:
    """Works until it is told to stop; then it still gets an answer to what it has begun."""

    def __init__(self, url: str, ledger: Ledger, seed: str, stopping: threading.Event) -> None:
        self._ledger = ledger
        self._random = random.Random(seed)
        self._stopping = stopping
        self._give_up = threading.Event()
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False)
        self._thread = threading.Thread(target=self._work, name=f"client {seed}")
        self._thread.start()

    def _work(self) -> None:
        acts = {self._submit: 5, self._look: 3, self._predict: 3, self._change: 2, self._upload: 1, self._delete: 1}
        self._upload()
        while not self._stopping.is_set():
            (act,) = self._random.choices(list(acts), weights=list(acts.values()))
            act()
            self._stopping.wait(self._random.uniform(0.0, 0.1))
        self._http.close()

    def give_up(self) -> None:
        self._give_up.set()
        self._thread.join()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _submit(self) -> None:
        if not (datasets := self._ledger.some("datasets")):
            return
        body: Json = {"dataset_id": self._random.choice(datasets), "model": f"m{self._random.randrange(5)}"}
        body |= {"priority": self._random.randrange(3), "seed": self._random.randrange(1000)}
        if self._random.random() < 0.3:
            slow = {"solver": "dcd", "C": 1000.0, "tol": 1e-12}
            body |= {**slow, "stop": {"seconds": self._random.uniform(0.2, 2.0)}}
        if self._random.random() < 0.3:
            body["split"] = {"test": 0.3}
        key = self._key()
        answer = self._insist("POST", "/v1/jobs", key, json=body)
        if answer is not None and answer.status_code == 201:
            self._ledger.acknowledge_job(key, answer.json()["id"])
            self._ledger.count("submitted")

    def _look(self) -> None:
        if jobs := self._ledger.some("jobs"):
            answer = self._try("GET", f"/v1/jobs/{self._random.choice(jobs)}")
            if answer is not None and answer.status_code == 404:
                self._ledger.blame(f"{answer.url.path}: acknowledged, and now 404")

    def _predict(self) -> None:
        rows = [[self._random.gauss(0, 1) for _ in range(4)]]
        self._try("POST", f"/v1/models/m{self._random.randrange(5)}/predict", json={"instances": rows})

    def _change(self) -> None:
        if not (jobs := self._ledger.some("jobs")):
            return
        job_id, verb = self._random.choice(jobs), self._random.choice(["cancel", "finish", "pause", "resume"])
        if verb == "cancel":
            self._ledger.cancelled.add(job_id)
        self._try("POST", f"/v1/jobs/{job_id}/{verb}")

    def _upload(self) -> None:
        rows = self._random.choice([100, 400, 3000])
        content = csv_text(*noisy_rows(rows, 4, seed=self._random.randrange(10**6)))
        headers = {"Content-Type": "text/csv"}
        answer = self._insist("POST", "/v1/datasets", self._key(), content=content, headers=headers)
        if answer is not None and answer.is_success:
            self._ledger.acknowledge_dataset(answer.json()["id"], content)
            self._ledger.count("uploaded")

    def _delete(self) -> None:
        datasets = [one for one in self._ledger.some("datasets") if one not in self._ledger.deleted]
        if len(datasets) > 6:
            dataset_id = self._random.choice(datasets)
            self._ledger.deleted.add(dataset_id)
            self._try("DELETE", f"/v1/datasets/{dataset_id}")

    def _key(self) -> str:
        return str(UUID(int=self._random.getrandbits(128)))

    def _insist(self, method: str, path: str, key: str, **arguments: Any) -> httpx.Response | None:
        """The answer to a request that is sent again, under the same key, until there is one; None: given up."""
        arguments["headers"] = {**arguments.get("headers", {}), "Idempotency-Key": key}
        while not self._give_up.is_set():
            answer = self._try(method, path, **arguments)
            if answer is not None and answer.status_code not in PATIENT:
                return answer
            if answer is not None and answer.status_code == 409 and answer.json()["code"] == "dataset_not_ready":
                return answer
            self._give_up.wait(RETRY_SECONDS)
        return None

    def _try(self, method: str, path: str, **arguments: Any) -> httpx.Response | None:
        """One attempt; None if there was no answer. An answer that blames the server is a fault."""
        try:
            answer = self._http.request(method, path, **arguments)
        except httpx.TransportError:
            self._ledger.count("no answer")
            return None
        self._ledger.count(f"answered {answer.status_code // 100}xx")
        if answer.status_code >= 500 and answer.status_code not in PATIENT:
            self._ledger.blame(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer
