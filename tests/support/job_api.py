"""An API in the test's process with a dataset of two classes, for tests of what `POST /v1/jobs` says."""

from pathlib import Path
from typing import Any

import numpy as np

from app.main import create_app
from app.storage import ownership
from app.web.context import context_of
from tests.support.builders import ANY_BLOBS, InProcess, checked_problem, dataset_row, temporary_settings

Json = dict[str, Any]


class Api:
    def __init__(self, folder: Path, database_url: str) -> None:
        settings = temporary_settings(folder, database_url=database_url, memory_budget_bytes=1 << 30)
        self.app = create_app(settings)
        self.http = InProcess(self.app)
        context = context_of(self.app)
        random = np.random.default_rng(0)
        self.database = context.database
        X, y = random.standard_normal((400, 3)).astype(np.float32), np.repeat([-1.0, 1.0], 200)
        arrays = {"X": context.blobs.put_array(X), "y": context.blobs.put_array(y)}
        classes = [{"label": -1, "count": 200}, {"label": 1, "count": 200}]
        row = dataset_row(n_rows=400, n_features=3, nnz=1200, arrays=arrays, classes=classes, columns=[])
        reading = dataset_row(status="processing")
        with self.database.write() as session:
            session.add_all([row, reading])
            ownership.own(
                session, ANY_BLOBS, row.id, {sha256: context.blobs.size(sha256) for sha256 in arrays.values()}
            )
        self.dataset, self.reading = row.id, reading.id

    def ask(self, **fields: Any) -> Json:
        body = {"dataset_id": self.dataset, **fields}
        answer = self.http.post("/v1/jobs", params={"validate_only": "true"}, json=body)
        assert answer.status_code == 200, answer.text
        judged: Json = answer.json()
        assert set(judged) == {"valid", "estimate", "errors"}
        return judged

    def refusal(self, **fields: Any) -> Json:
        answer = self.http.post("/v1/jobs", json={"dataset_id": self.dataset, **fields})
        return checked_problem(answer, answer.status_code)
