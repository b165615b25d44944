"""The registry of models over HTTP, in process, with versions to point at."""

from pathlib import Path
from typing import Any

import httpx

from app.db import Database
from app.main import create_app, serve_from
from app.models import service as models
from app.predictions.model_cache import ModelCache
from app.storage import BlobStore
from app.web.context import context_of
from tests.support.builders import ANY_BLOBS, InProcess, model_bytes, model_row, queued_jobs, temporary_settings

Json = dict[str, Any]
CARD: Json = {
    "classes": ["no", "yes"],
    "n_features": 1,
    "params": {},
    "certificate": {"primal": 1.0, "dual_bound": 1.0, "gap": 0.0, "relative_gap": 0.0, "method": "m"},
    "metrics": {},
    "training": {},
    "lineage": {},
}


class Registry:
    """The service in process, with versions of models to point at; version v scores a row x as v x."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.settings = temporary_settings(folder, database_url=database.url.render_as_string(hide_password=False))
        self.database, self.blobs = database, BlobStore(folder)
        self.http = InProcess(create_app(self.settings))

    def begin(self) -> None:
        """Four versions, and a server that remembers nothing of earlier ones."""
        serve_from(context_of(self.http.app), ModelCache(self.database, self.blobs, 1 << 20))
        job_ids = queued_jobs(self.database, [0] * 4)
        with self.database.write() as session:
            for version, job_id in enumerate(job_ids, 1):
                content = model_bytes([float(version)], 0.0, card=CARD)
                row = model_row(job_id, name="m", card=CARD, blob=self.blobs.put(content))
                models.register(session, ANY_BLOBS, row, len(content))

    def put(self, path: str, status: int = 200, headers: Any = None, **body: Any) -> httpx.Response:
        response = self.http.request("PUT", f"/v1/models/{path}", json=body, headers=headers)
        assert response.status_code == status, response.text
        return response

    def get(self, path: str) -> Json:
        response = self.http.get(f"/v1/models/{path}")
        assert response.status_code == 200, response.text
        body: Json = response.json()
        return body

    def delete(self, path: str, status: int = 204, headers: Any = None) -> httpx.Response:
        response = self.http.request("DELETE", f"/v1/models/{path}", headers=headers)
        assert response.status_code == status, response.text
        return response

    def post(self, path: str, status: int = 200, **arguments: Any) -> httpx.Response:
        response = self.http.post(f"/v1/models/{path}", **arguments)
        assert response.status_code == status, response.text
        return response

    def answered_by(self, ref: str, **headers: str) -> int:
        body: Json = self.post(f"{ref}/predict", json={"instances": [[1.0]]}, headers=headers).json()
        assert body["predictions"][0]["score"] == body["version"], "another version's weights answered"
        version: int = body["version"]
        return version
