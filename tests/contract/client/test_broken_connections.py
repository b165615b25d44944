"""Connections break in every place, and the client still makes one dataset and one job and sees each event once."""

import uuid
from typing import Any

import numpy as np
import pytest
from hyperplane import Event

from tests.support.both_clients import BOTH, caller
from tests.support.cutting_proxy import cutting_proxy
from tests.support.serving import Service
from tests.support.tables import csv_text, noisy_rows

CUT_BYTES = 64 * 1024


def rows(n_rows: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 20))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n_rows) > 0, 1, -1)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("delay_seconds", [0.05, 0.0], ids=["bytes arrive", "bytes in flight are lost"])
def test_an_upload_that_breaks_every_64_kilobytes_makes_one_dataset(
    sqlite_service: Service, kind: str, delay_seconds: float
) -> None:
    name = f"cut-{uuid.uuid4().hex}"
    X, y = rows(3000, seed=len(kind) + round(100 * delay_seconds))
    sent: list[int] = []
    with (
        cutting_proxy(sqlite_service.port, body_bytes=CUT_BYTES, delay_seconds=delay_seconds) as proxy,
        caller(kind, proxy.url, keep_alive=False) as by,
    ):
        made = by.client.datasets.create((X, y), name=name, on_progress=lambda state: sent.append(state.sent_bytes))
        dataset = by.call(made)
    listed = sqlite_service.get("/v1/datasets", name=name)["data"]
    assert [one["id"] for one in listed] == [dataset.id]
    assert (dataset.n_rows, dataset.status) == (3000, "ready")
    assert dataset.bytes > 7 * CUT_BYTES
    assert proxy.cuts >= (dataset.bytes // CUT_BYTES if delay_seconds else 2)
    assert sent[-1] == dataset.bytes


@pytest.mark.parametrize("kind", BOTH)
def test_every_answer_is_lost_once_and_nothing_happens_twice(sqlite_service: Service, kind: str) -> None:
    name = f"lost-{uuid.uuid4().hex}"
    with (
        cutting_proxy(sqlite_service.port, first_answers=True) as proxy,
        caller(kind, proxy.url, keep_alive=False) as by,
    ):
        dataset = by.call(by.client.datasets.create(rows(300, seed=7 + len(kind)), name=name))
        job = by.call(by.client.jobs.train(dataset, model=name, labels={"case": name}))
        done = by.call(by.client.jobs.wait(job))
        predicted = by.call(by.client.models.predict(name, rows(2, seed=1)[0]))
        alias = by.call(by.client.aliases.set(name, "prod", 1))
    assert proxy.cuts >= 5
    assert [one["id"] for one in sqlite_service.get("/v1/datasets", name=name)["data"]] == [dataset.id]
    assert [one["id"] for one in sqlite_service.get("/v1/jobs", **{"label.case": name})["data"]] == [job.id]
    assert [one["id"] for one in sqlite_service.get("/v1/models", name=name)["data"]] == [done.model_id]
    assert (predicted.version, len(predicted.labels), alias.version) == (1, 2, 1)


@pytest.mark.parametrize("kind", BOTH)
def test_a_stream_that_breaks_after_every_event_has_no_gap_and_no_event_twice(
    sqlite_service: Service, kind: str
) -> None:
    dataset = sqlite_service.upload(csv_text(*noisy_rows(20_000, 30, seed=1, flipped=0.3)))
    job_id = sqlite_service.submit(dataset["id"], model="streamed", solver="dcd", C=1000.0, tol=1e-12)["id"]
    seen: list[Event] = []

    def note(event: Event) -> None:
        seen.append(event)
        if len(seen) == 6:
            sqlite_service.http.post(f"/v1/jobs/{job_id}/cancel")

    with cutting_proxy(sqlite_service.port, events=True) as proxy, caller(kind, proxy.url, keep_alive=False) as by:
        by.for_each(by.client.jobs.stream(job_id), note)
    *events, end = seen
    stored = sqlite_service.get(f"/v1/jobs/{job_id}/events", limit=200)["data"]
    assert [event.id for event in events] == [one["id"] for one in stored]
    assert (end.type, end.data.status) == ("done", "cancelled")
    assert proxy.cuts == len(stored) >= 6
