"""`client.datasets`: create datasets from files, frames and arrays, and look at them."""

import json
import time
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import httpx

from hyperplane._async.pages import AsyncPages
from hyperplane._async.transport import AsyncTransport
from hyperplane._async.uploads import AsyncUploads, pieces
from hyperplane._shared.dataset_types import Column, ColumnStatistics, Dataset, DatasetSummary, Deleted, Issues, Preview
from hyperplane._shared.errors import ApiError, UnprocessableEntity, WaitTimeout
from hyperplane._shared.payloads import Payload, payload_of
from hyperplane._shared.progress import UploadProgress
from hyperplane._shared.requests import Request, document_of, id_of, path
from hyperplane._shared.retries import Backoff
from hyperplane._shared.waiting import LONG_POLL_SECONDS, async_call, async_sleep

__all__ = ["AsyncDatasets"]

RESUMABLE_BYTES = 8 << 20
"""Minimum bytes of a file that is sent as a resumable upload. A smaller file is sent in a single request, and as a
resumable upload only after a broken connection. Larger: fewer requests, more bytes to send again. Set by hand; no
measurement is recorded."""


class AsyncDatasets:
    """Datasets."""

    def __init__(self, transport: AsyncTransport, uploads: AsyncUploads) -> None:
        self._transport = transport
        self._uploads = uploads

    async def create(
        self,
        data: Any,
        *,
        name: str | None = None,
        target: str | int | None = None,
        content_type: str | None = None,
        labels: dict[str, str] | None = None,
        wait: bool = True,
        timeout: float | None = None,
        on_progress: Callable[[UploadProgress], object] | None = None,
        **options: Any,
    ) -> Dataset:
        """Upload data and wait until the service has read it.

        `data`: a path, bytes, a file object, a data frame of pandas or polars, an Arrow table, or a pair (X, y) of
        numpy arrays, a scipy matrix or a frame. `target="none"`: the data has no labels. Options are those of `POST
        /v1/datasets` (`weight`, `group`, `ignore`, `header`, `delimiter`, `encoding`, `decimal`, `thousands`,
        `date_order`, `columns`, `on_missing_target`, ...); `columns` can be a dict of names and kinds. With (X, y),
        `weight` and `group` can be arrays. An invalid file raises `UnprocessableEntity`, whose `errors` name the lines.
        A broken connection is resumed.
        """
        arrays = {
            key: options.pop(key)
            for key in ("weight", "group")
            if hasattr(options.get(key), "__len__") and not isinstance(options[key], str)
        }
        payload = await async_call(partial(payload_of, data, content_type, **arrays))
        if isinstance(kinds := options.get("columns"), dict):
            options["columns"] = json.dumps(kinds)
        params = {**payload.options, "name": name, "labels": labels, **options}
        if target is not None:
            params["target"] = target
        dataset = Dataset(await self._sent(payload, params, on_progress))
        return await self.wait(dataset, timeout=timeout) if wait else dataset

    async def wait(self, dataset: Dataset | str, *, timeout: float | None = None) -> Dataset:
        """Wait until the service has read a dataset and return it.

        An invalid file raises `UnprocessableEntity`. After `timeout` seconds `WaitTimeout` is raised, and the service
        continues to read.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        current = await self.get(dataset) if isinstance(dataset, str) else dataset
        while not current.done:
            left = LONG_POLL_SECONDS if deadline is None else deadline - time.monotonic()
            if left <= 0:
                raise WaitTimeout(f"{current.id} is still {current.status} after {timeout:g} s")
            current = await self._get(current, min(left, LONG_POLL_SECONDS), deadline)
        if current.status == "invalid" and current.error is not None:
            problem = {**current["error"], "detail": current.error.message, "errors": current["errors"], "status": 422}
            raise UnprocessableEntity(problem, 422)
        return current

    def list(self, **filters: Any) -> AsyncPages[DatasetSummary]:
        """List datasets, newest first. Filters: `status`, `name`, `task`, `created_after`, `labels`, `limit`."""
        return AsyncPages(self._transport, Request("GET", path("v1", "datasets"), params=filters), DatasetSummary)

    async def get(self, dataset: Dataset | str, *, wait: float | None = None) -> Dataset:
        """Get a dataset. `wait`: seconds to wait until it has been read."""
        return await self._get(dataset, wait, None)

    async def delete(self, dataset: Dataset | str) -> Deleted:
        """Delete a dataset and free its bytes."""
        response = await self._transport.send(Request("DELETE", path("v1", "datasets", id_of(dataset))))
        if not response.content:  # deleted, but the answer was lost
            return Deleted({"id": id_of(dataset), "deleted": True, "bytes_freed": None})
        return Deleted(document_of(response))

    async def reread(self, dataset: Dataset | str, *, wait: bool = True, **options: Any) -> Dataset:
        """Read the stored file again with other options. Creates a new dataset, or returns the existing one with the
        same options."""
        request = Request("POST", path("v1", "datasets", id_of(dataset), "reread"), params=options, repeatable=True)
        made = Dataset(await self._transport.json(request))
        return await self.wait(made) if wait else made

    def columns(self, dataset: Dataset | str, *, limit: int | None = None) -> AsyncPages[Column]:
        """List the columns."""
        request = Request("GET", path("v1", "datasets", id_of(dataset), "columns"), params={"limit": limit})
        return AsyncPages(self._transport, request, Column)

    async def preview(self, dataset: Dataset | str, *, rows: int | None = None) -> Preview:
        """Get the first rows."""
        request = Request("GET", path("v1", "datasets", id_of(dataset), "preview"), params={"rows": rows})
        return Preview(await self._transport.json(request))

    def statistics(self, dataset: Dataset | str, *, limit: int | None = None) -> AsyncPages[ColumnStatistics]:
        """List the statistics of each column."""
        request = Request("GET", path("v1", "datasets", id_of(dataset), "statistics"), params={"limit": limit})
        return AsyncPages(self._transport, request, ColumnStatistics)

    async def issues(self, dataset: Dataset | str) -> Issues:
        """Get what may harm a training: leaks, duplicates, constant columns and more, each with a remedy."""
        return Issues(await self._transport.json(Request("GET", path("v1", "datasets", id_of(dataset), "issues"))))

    async def content(self, dataset: Dataset | str) -> bytes:
        """Download the uploaded file. A file that was uploaded compressed is decompressed."""
        response = await self._transport.send(Request("GET", path("v1", "datasets", id_of(dataset), "content")))
        return response.content

    async def download(self, dataset: Dataset | str, target: str | PathLike[str]) -> Path:
        """Write the uploaded file, as it was uploaded, to a path, without holding it in memory.

        A broken connection is resumed. The file appears when it is complete.
        """
        return await self._transport.download(Request("GET", path("v1", "datasets", id_of(dataset), "content")), target)

    async def _get(self, dataset: Dataset | str, wait: float | None, deadline: float | None) -> Dataset:
        request = Request("GET", path("v1", "datasets", id_of(dataset)), params={"wait": wait})
        return Dataset(await self._transport.json(request, deadline))

    async def _sent(
        self, payload: Payload, params: dict[str, Any], on_progress: Callable[[UploadProgress], object] | None
    ) -> dict[str, Any]:
        """Send a file: a small one in one request, a large one or one whose connection broke in parts."""
        if payload.size >= RESUMABLE_BYTES:
            return await self._uploads.send(payload, params, on_progress)
        request = Request("POST", path("v1", "datasets"), params=params, headers=payload.headers).once()
        request.headers["Content-Length"] = str(payload.size)
        backoff = Backoff(self._transport.max_retries)
        while True:
            try:
                with payload.open() as file:
                    content = pieces(file, 0, payload.size, payload.size, on_progress)
                    arguments = request.arguments() | {"content": content}
                    return document_of(await self._transport.send_once(**arguments))
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                # The service can have stored the file already. The resumed upload then finds it by its content and its
                # options.
                return await self._uploads.send(payload, params, on_progress)
            except (httpx.TransportError, ApiError) as error:
                pause = backoff.pause_after(error, reached=self._transport.reached)
            await async_sleep(pause)
