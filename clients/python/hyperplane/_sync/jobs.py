# Written by `make sync-client` from hyperplane/_async. Do not edit it.
"""`client.jobs`: submit jobs, wait for them, follow and control them."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import httpx

from hyperplane._shared.errors import ApiError, JobFailed, WaitTimeout
from hyperplane._shared.events import EVENT_STREAM, SILENCE_SECONDS, Event, EventParser
from hyperplane._shared.media_types import JSON
from hyperplane._shared.requests import Request, id_of, path
from hyperplane._shared.retries import Backoff
from hyperplane._shared.types import JobState, JobSummary, Trace, Validation
from hyperplane._shared.waiting import LONG_POLL_SECONDS, sleep
from hyperplane._sync.pages import Pages
from hyperplane._sync.predicting import predicted
from hyperplane._sync.transport import Transport

__all__ = ["Job", "Jobs"]

PROGRESS_SECONDS = 0.25
"""Seconds between two reports of a job's progress. Larger: fewer requests, coarser progress. Set by hand; no
measurement is recorded."""


class Job(JobState):
    """A job. It is a snapshot: `refresh` and `wait` return newer ones."""

    def __init__(self, data: dict[str, Any], jobs: "Jobs") -> None:
        super().__init__(data)
        self._jobs = jobs
        self._trace: Trace | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle it as its state alone, without the connections: `JobFailed` crosses processes."""
        return JobState, (self._data,)

    def refresh(self) -> "Job":
        """Get the present state."""
        return self._jobs.get(self.id)

    def wait(
        self,
        timeout: float | None = None,
        on_progress: "Callable[[Job], object] | None" = None,
        *,
        check: bool = True,
    ) -> "Job":
        """Wait until the job is done; see `client.jobs.wait`."""
        return self._jobs.wait(self, timeout=timeout, on_progress=on_progress, check=check)

    def stream(self, after_id: str | None = None) -> Iterator[Event]:
        """Follow the events; see `client.jobs.stream`."""
        return self._jobs.stream(self, after_id=after_id)

    def cancel(self) -> "Job":
        """Stop the job and discard its work."""
        return self._jobs.cancel(self)

    def finish(self) -> "Job":
        """Stop the job and keep its best model so far."""
        return self._jobs.finish(self)

    def pause(self) -> "Job":
        """Pause the job and free its worker."""
        return self._jobs.pause(self)

    def resume(self) -> "Job":
        """Queue the paused job again."""
        return self._jobs.resume(self)

    def trace(self) -> Trace:
        """Get the convergence curve, which notebooks then show with the job."""
        self._trace = self._jobs.trace(self)
        return self._trace

    def _repr_html_(self) -> str:
        from hyperplane._shared.html import job_html

        return job_html(self, self._trace)


class Jobs:
    """Jobs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, *, wait: float | None = None, idempotency_key: str | None = None, **body: Any) -> Job:
        """Submit a job with the fields of `POST /v1/jobs`.

        `wait`: maximum seconds that the service waits for the end of the job before it answers. `idempotency_key`: two
        calls with the same key make one job, from different processes too, such as the attempts of a scheduled task.
        Without it each call makes a job.
        """
        headers = {} if wait is None else {"Prefer": f"wait={wait:g}"}
        request = Request("POST", path("v1", "jobs"), json=body, headers=headers).once(idempotency_key)
        return Job(self._transport.json(request), self)

    def validate(self, **body: Any) -> Validation:
        """Check a job and estimate what it needs, without submitting it."""
        request = Request("POST", path("v1", "jobs"), params={"validate_only": True}, json=body, repeatable=True)
        return Validation(self._transport.json(request))

    def train(self, dataset: Any, *, model: str | None = None, **parameters: Any) -> Job:
        """Train a model on a dataset (an answer or an id). Parameters are those of a job of the type `train`.

        Among them: `C`, `loss`, `p`, `task`, `bias`, `class_weight`, `solver`, `tol`, `split`, `cross_validation`,
        `calibrate`, `preprocess`, `stop`, `warm_start`, `labels`. `wait` and `idempotency_key` as in `create`.
        """
        return self.create(**_body("train", dataset, model, parameters))

    def tune(self, dataset: Any, *, model: str | None = None, **parameters: Any) -> Job:
        """Search the best C, loss, ... by cross-validation. Parameters are those of a job of the type `tune`."""
        return self.create(**_body("tune", dataset, model, parameters))

    def race(self, dataset: Any, *, solvers: Sequence[str], model: str | None = None, **parameters: Any) -> Job:
        """Train with several solvers; the first to reach `tol` wins. Parameters are those of a job of type `race`."""
        return self.create(**_body("race", dataset, model, {"solvers": [*solvers], **parameters}))

    def predict_dataset(self, dataset: Any, model: Any, **parameters: Any) -> Job:
        """Predict the rows of a dataset into a file; `download_output` gets it."""
        return self.create(**_body("predict", dataset, id_of(model), parameters))

    def list(self, **filters: Any) -> Pages[JobSummary]:
        """List jobs, newest first. Filters: `status`, `type`, `name`, `task`, `created_after`, `labels`, `limit`."""
        return Pages(self._transport, Request("GET", path("v1", "jobs"), params=filters), JobSummary)

    def get(self, job: Any, *, wait: float | None = None) -> Job:
        """Get a job. `wait`: seconds to wait for its end."""
        return self._get(job, wait, None)

    def wait(
        self,
        job: Any,
        *,
        timeout: float | None = None,
        on_progress: Callable[[Job], object] | None = None,
        check: bool = True,
    ) -> Job:
        """Wait until a job is done and return it.

        A job that failed or was cancelled raises `JobFailed`, unless `check` is false. After `timeout` seconds
        `WaitTimeout` is raised and the job continues. `on_progress` is called with its state meanwhile.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        poll = PROGRESS_SECONDS if on_progress else LONG_POLL_SECONDS
        while True:
            left = poll if deadline is None else max(0.0, deadline - time.monotonic())
            current = self._get(job, min(poll, left), deadline)
            if on_progress:
                on_progress(current)
            if current.done:
                break
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(f"{current.id} is still {current.status} after {timeout:g} s")
        if check and current.status != "succeeded":
            raise JobFailed(current)
        if "IPython" in sys.modules and current.type == "train":  # a notebook shows the curve
            current.trace()
        return current

    def stream(self, job: Any, *, after_id: str | None = None) -> Iterator[Event]:
        """Yield the events of a job as they happen, each once, until the job is done. The last has the type `done`.

        Reconnects after a broken connection and continues after the last event. Starts after `after_id`, if given.
        """
        for event in self._events(path("v1", "jobs", id_of(job), "events"), after_id):
            yield event
            if event.type == "done":
                return

    def stream_all(self, *, after_id: str | None = None) -> Iterator[Event]:
        """Yield the events of all jobs, without end, from now on or after `after_id`. Each has a `job_id`."""
        for event in self._events(path("v1", "events"), after_id):
            yield event

    def events(self, job: Any, *, limit: int | None = None) -> Pages[Event]:
        """List the events of a job that have happened, oldest first."""
        request = Request("GET", path("v1", "jobs", id_of(job), "events"), params={"limit": limit})
        return Pages(self._transport, request, Event)

    def cancel(self, job: Any) -> Job:
        """Stop a job and discard its work."""
        return self._act(job, "cancel")

    def finish(self, job: Any) -> Job:
        """Stop a job and keep its best model so far."""
        return self._act(job, "finish")

    def pause(self, job: Any) -> Job:
        """Pause a job and free its worker."""
        return self._act(job, "pause")

    def resume(self, job: Any) -> Job:
        """Queue a paused job again. It continues where it was paused."""
        return self._act(job, "resume")

    def trace(self, job: Any) -> Trace:
        """Get the convergence curve."""
        return Trace(self._transport.json(Request("GET", path("v1", "jobs", id_of(job), "trace"))))

    def path(self, job: Any, *, accept: str = JSON) -> bytes:
        """Get the scores and coefficients of a search by C, in the format of `accept`: JSON, CSV, Arrow or SVG."""
        request = Request("GET", path("v1", "jobs", id_of(job), "path"), headers={"Accept": accept})
        return (self._transport.send(request)).content

    def predict(self, job: Any, rows: Any, *, outputs: Any = None, index_base: int | None = None) -> Any:
        """Predict with the current model of a training job; see `client.models.predict`."""
        place = path("v1", "jobs", id_of(job), "predict")
        return predicted(self._transport, place, rows, {"return": outputs, "index_base": index_base})

    def output(self, job: Any) -> bytes:
        """Get the file that a job wrote; `download_output` writes it to a path."""
        return (self._transport.send(Request("GET", path("v1", "jobs", id_of(job), "output")))).content

    def download_output(self, job: Any, target: str | PathLike[str]) -> Path:
        """Write the file that a job wrote to a path, without holding it in memory. A broken connection is resumed."""
        return self._transport.download(Request("GET", path("v1", "jobs", id_of(job), "output")), target)

    def errors(self, job: Any) -> bytes:
        """Download the rows that a batch prediction could not predict."""
        return (self._transport.send(Request("GET", path("v1", "jobs", id_of(job), "errors")))).content

    def delete_output(self, job: Any) -> None:
        """Delete the file that a job wrote."""
        self._transport.send(Request("DELETE", path("v1", "jobs", id_of(job), "output")))

    def _get(self, job: Any, wait: float | None, deadline: float | None) -> Job:
        request = Request("GET", path("v1", "jobs", id_of(job)), params={"wait": wait})
        return Job(self._transport.json(request, deadline), self)

    def _act(self, job: Any, action: str) -> Job:
        request = Request("POST", path("v1", "jobs", id_of(job), action)).once()
        return Job(self._transport.json(request), self)

    def _events(self, place: str, after_id: str | None) -> Iterator[Event]:
        """Yield each event once. Reconnects after a broken connection."""
        backoff = Backoff(self._transport.max_retries)
        while True:
            headers = {"Accept": EVENT_STREAM} | ({"Last-Event-ID": after_id} if after_id else {})
            timeout = httpx.Timeout(self._transport.timeout.connect, read=SILENCE_SECONDS)
            try:
                with self._transport.stream(Request("GET", place, headers=headers), timeout) as response:
                    parser = EventParser()
                    for line in response.iter_lines():
                        event = parser.feed(line)
                        if event is not None or line.startswith(":"):  # a comment: the service has pinged
                            backoff.restart()
                        if event is not None:
                            after_id = event.id or after_id
                            yield event
                raise httpx.RemoteProtocolError("the event stream ended before the job")
            except (httpx.TransportError, ApiError) as error:
                pause = backoff.pause_after(error, reached=self._transport.reached)
            sleep(pause)


def _body(kind: str, dataset: Any, model: str | None, parameters: dict[str, Any]) -> dict[str, Any]:
    named = {} if model is None else {"model": model}
    return {"type": kind, "dataset_id": id_of(dataset), **named, **parameters}
