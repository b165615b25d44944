"""A small Python client of the HTTP API.

with Client("http://127.0.0.1:8000") as client:
    dataset = client.upload(Path("train.csv"))
    job = client.train(dataset["id"], model="spam", C=1.0)
    for event in client.jobs.watch(job["id"]):
        print(event["type"], event["data"])
    client.predict("spam", [[0.1, 0.2]])
"""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from app.client.api_errors import ApiError, Json, checked
from app.client.jobs import Jobs
from app.client.part_upload import upload_in_parts
from app.web.media_types import CSV, ENCODING_SUFFIXES, NPY, NPZ, SUFFIXES, guess_type

__all__ = ["ApiError", "Client"]

POLL_SECONDS = 0.25
"""Seconds between two polls of a job while its progress is shown. Larger: fewer requests, coarser progress."""
LONG_POLL_SECONDS = 30.0
"""Seconds that one request waits for the end of a job. Larger: fewer requests; proxies may cut it off."""
RESUMABLE_BYTES = 64 << 20
"""Bytes above which a file is sent as a resumable upload. Smaller: more requests for files of medium size."""


class Client:
    """A client for one server, with one connection pool. Methods return the documented JSON."""

    def __init__(self, url: str, api_key: str | None = None, timeout_seconds: float = 120.0) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout_seconds, trust_env=False)
        self.jobs = Jobs(self._http)

    def upload(self, path: Path, **options: Any) -> Json:
        """Upload a file and wait until it has been read. Its suffixes determine format and compression.

        Options are the query parameters of the route. A large file continues after a broken connection.
        """
        headers = _file_headers(path)
        if path.stat().st_size > RESUMABLE_BYTES:
            dataset = upload_in_parts(self._http, path, headers, options)
        else:
            with path.open("rb") as file:
                dataset = self._send("POST", "/v1/datasets", params=options, content=file, headers=headers)
        while not dataset["done"]:
            dataset = self._send("GET", f"/v1/datasets/{dataset['id']}", params={"wait": LONG_POLL_SECONDS})
        if dataset["status"] == "invalid":
            raise ApiError({**dataset["error"], "detail": dataset["error"]["message"], "errors": dataset["errors"]})
        return dataset

    def train(self, dataset_id: str, **parameters: Any) -> Json:
        """Queue a training job."""
        return self._send("POST", "/v1/jobs", json={"type": "train", "dataset_id": dataset_id, **parameters})

    def wait(self, job_id: str, on_progress: Callable[[Json], None] | None = None) -> Json:
        """Wait until a job is done. `on_progress` is called with its state meanwhile."""
        while True:
            job = self._send("GET", f"/v1/jobs/{job_id}", params={"wait": POLL_SECONDS})
            if on_progress:
                on_progress(job)
            if job["done"]:
                return job

    def cancel(self, job_id: str) -> Json:
        """Stop a job and discard its work."""
        return self._send("POST", f"/v1/jobs/{job_id}/cancel")

    def finish(self, job_id: str) -> Json:
        """Stop a job and keep its best model so far."""
        return self._send("POST", f"/v1/jobs/{job_id}/finish")

    def pause(self, job_id: str) -> Json:
        """Pause a job and free its worker."""
        return self._send("POST", f"/v1/jobs/{job_id}/pause")

    def resume(self, job_id: str) -> Json:
        """Queue a paused job again. It continues where it was paused."""
        return self._send("POST", f"/v1/jobs/{job_id}/resume")

    def model(self, reference: str) -> Json:
        return self._send("GET", f"/v1/models/{reference}")

    def predict(self, reference: str, rows: Any, outputs: Sequence[str] | None = None) -> Json:
        """Predict rows: lists, {name: value} or {indices, values}, a numpy array, a sparse matrix, a data frame.

        A pandas or polars Series is one row.
        """
        params = {} if outputs is None else {"return": ",".join(outputs)}
        return self._send("POST", f"/v1/models/{reference}/predict", params=params, **_body_of(rows))

    def _send(self, method: str, path: str, **arguments: Any) -> Json:
        return checked(self._http.request(method, path, **arguments))

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()


def _file_headers(path: Path) -> dict[str, str]:
    media_type, encoding = guess_type(path.name)
    if media_type is None:
        known = f"{', '.join(SUFFIXES)}, each with {' or '.join(ENCODING_SUFFIXES)} or without"
        raise ValueError(f"{path.name}: the suffix must be one of {known}")
    headers = {"Content-Type": media_type}
    return headers if encoding == "identity" else {**headers, "Content-Encoding": encoding}


def _body_of(rows: Any) -> dict[str, Any]:
    """Build the body of a predict request: lists as JSON, arrays as npy, sparse matrices as CSR, frames as CSV."""
    if hasattr(rows, "to_frame") and hasattr(rows, "to_list"):
        return {"json": {"instances": [_row_of(rows)]}}
    if hasattr(rows, "write_csv"):  # polars
        return _content(rows.write_csv().encode(), f"{CSV}; header=present")
    if hasattr(rows, "to_csv"):
        return _content(rows.to_csv(index=False).encode(), f"{CSV}; header=present")
    if hasattr(rows, "tocsr"):
        import numpy as np

        matrix, file = rows.tocsr(), io.BytesIO()
        np.savez(file, data=matrix.data, indices=matrix.indices, indptr=matrix.indptr, shape=matrix.shape)
        return _content(file.getvalue(), NPZ)
    if hasattr(rows, "__array_interface__"):
        import numpy as np

        file = io.BytesIO()
        np.save(file, rows, allow_pickle=False)
        return _content(file.getvalue(), NPY)
    return {"json": {"instances": rows}}


def _row_of(series: Any) -> list[Any] | dict[str, Any]:
    """Convert a Series to a row: by the names of its index (pandas), else in the order of the features."""
    values = [_plain(value) for value in series.to_list()]
    names = list(getattr(series, "index", ()))
    return dict(zip(names, values, strict=True)) if names and all(isinstance(name, str) for name in names) else values


def _plain(value: Any) -> Any:
    """Convert a value to JSON: numpy numbers to Python numbers, missing values to None."""
    value = value.item() if hasattr(value, "item") else value
    try:
        return value if value == value else None  # false for NaN
    except TypeError:  # pandas.NA
        return None


def _content(content: bytes, media_type: str) -> dict[str, Any]:
    return {"content": content, "headers": {"Content-Type": media_type}}
