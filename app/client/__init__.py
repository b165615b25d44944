"""A small Python client of the HTTP API.

with Client("http://127.0.0.1:8000") as client:
    dataset = client.upload(Path("train.csv"))
    job = client.train(dataset["id"], model="spam", C=1.0)
    client.wait(job["id"])
    client.predict("spam", [[0.1, 0.2]])
"""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

__all__ = ["ApiError", "Client"]

MEDIA_TYPES = {".csv": "text/csv", ".libsvm": "text/x-libsvm", ".svm": "text/x-libsvm"}
POLL_SECONDS = 0.25

Json = dict[str, Any]


class ApiError(Exception):
    """The server refused; `problem` is its problem document."""

    def __init__(self, problem: Json) -> None:
        super().__init__(problem.get("detail", "the server refused"))
        self.problem = problem


class Client:
    """One server, one connection pool. Methods return the JSON that the API documents."""

    def __init__(self, url: str, api_key: str | None = None, timeout_seconds: float = 120.0) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout_seconds, trust_env=False)

    def upload(self, path: Path, **options: Any) -> Json:
        """Upload a file; its suffix says the format. Options are the route's query parameters."""
        media_type = MEDIA_TYPES.get(path.suffix)
        if media_type is None:
            raise ValueError(f"{path.name}: the suffix must be one of {', '.join(MEDIA_TYPES)}")
        with path.open("rb") as file:
            headers = {"Content-Type": media_type}
            return self._send("POST", "/v1/datasets", params=options, content=file, headers=headers)

    def train(self, dataset_id: str, **parameters: Any) -> Json:
        """Queue a training job."""
        return self._send("POST", "/v1/jobs", json={"type": "train", "dataset_id": dataset_id, **parameters})

    def wait(self, job_id: str, on_progress: Callable[[Json], None] | None = None) -> Json:
        """Wait until a job is done, telling of its progress on the way."""
        while True:
            job = self._send("GET", f"/v1/jobs/{job_id}", params={"wait": POLL_SECONDS})
            if on_progress:
                on_progress(job)
            if job["done"]:
                return job

    def model(self, reference: str) -> Json:
        return self._send("GET", f"/v1/models/{reference}")

    def predict(self, reference: str, instances: list[Any]) -> Json:
        return self._send("POST", f"/v1/models/{reference}/predict", json={"instances": instances})

    def _send(self, method: str, path: str, **arguments: Any) -> Json:
        response = self._http.request(method, path, **arguments)
        body: Json = response.json()
        if response.is_error:
            raise ApiError(body)
        return body

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()
