"""Races over HTTP: what is refused, what is estimated, and the curve of one solver."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.db.tables import JobRow
from app.main import create_app
from app.storage import ownership
from app.web.context import context_of
from tests.support.builders import (
    ANY_BLOBS,
    InProcess,
    checked_problem,
    dataset_row,
    migrated_database,
    temporary_settings,
)

Json = dict[str, Any]


class Api:
    def __init__(self, folder: Path, database_url: str) -> None:
        self.app = create_app(temporary_settings(folder, database_url=database_url, memory_budget_bytes=1 << 30))
        self.http = InProcess(self.app)
        context = context_of(self.app)
        self.database = context.database
        X = np.random.default_rng(0).standard_normal((400, 3))
        arrays = {"X": context.blobs.put_array(X), "y": context.blobs.put_array(np.repeat([-1.0, 1.0], 200))}
        classes = [{"label": -1, "count": 200}, {"label": 1, "count": 200}]
        row = dataset_row(n_rows=400, n_features=3, nnz=1200, arrays=arrays, classes=classes, columns=[])
        with self.database.write() as session:
            session.add(row)
            sizes = {sha256: context.blobs.size(sha256) for sha256 in arrays.values()}
            ownership.own(session, ANY_BLOBS, row.id, sizes)
        self.dataset = row.id

    def post(self, **fields: Any) -> Any:
        body = {"type": "race", "dataset_id": self.dataset, "solvers": ["dcd", "newton"], **fields}
        return self.http.post("/v1/jobs", json={"loss": "squared_hinge", **body})

    def judged(self, **fields: Any) -> Json:
        answer = self.http.post(
            "/v1/jobs", params={"validate_only": "true"}, json={"dataset_id": self.dataset, **fields}
        )
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found


@pytest.fixture
def api(tmp_path: Path, database_url: str) -> Iterator[Api]:
    with migrated_database(database_url):
        api = Api(tmp_path, database_url)
        yield api
        api.database.close()


def test_a_bad_request_names_its_field(api: Api) -> None:
    cases: list[tuple[Json, str, str | None]] = [
        ({"solvers": ["dcd", "quick"]}, "solvers.1", "unknown_solver"),
        ({"solvers": ["dcd", "newton", "dcd"]}, "solvers.2", "duplicate_solver"),
        ({"solvers": ["dcd"]}, "solvers", None),
        ({"solvers": ["dcd", "pegasos"]}, "solvers.1", "unsupported_problem"),
        ({"solver": "dcd"}, "solver", "extra_forbidden"),
        ({"solver_options": {"tron": {}}}, "solver_options.tron", "unknown_solver"),
        ({"solver_options": {"dcd": {"speed": 1}}}, "solver_options.dcd", "invalid_options"),
        ({"loss": "absolute"}, "loss", "invalid_problem"),
        ({"cross_validation": 300}, "cross_validation", None),
    ]
    for fields, field, code in cases:
        problem = checked_problem(api.post(**fields), 422)
        assert [one["field"] for one in problem["errors"]] == [field], fields
        assert code is None or problem["errors"][0]["code"] == code


def test_a_race_needs_the_memory_of_all_its_solvers(api: Api) -> None:
    race = {"type": "race", "loss": "squared_hinge"}
    both = api.judged(**race, solvers=["dcd", "newton"])
    three = api.judged(**race, solvers=["dcd", "newton", "tron"])
    alone = api.judged(loss="squared_hinge", solver="newton")
    assert both["valid"]
    assert three["estimate"]["peak_bytes"] > both["estimate"]["peak_bytes"] > alone["estimate"]["peak_bytes"]
    bad = api.judged(**race, solvers=["quick", "pegasos"])
    assert [one["field"] for one in bad["errors"]] == ["solvers.0", "solvers.1"]


def test_the_curve_of_one_solver(api: Api) -> None:
    job = api.post().json()
    assert (job["type"], job["spec"]["solvers"]) == ("race", ["dcd", "newton"])
    point = {"seconds": 0.1, "iterations": 1, "passes": 1, "primal": 1.0, "dual_bound": 0.5, "relative_gap": 0.5}
    with api.database.write() as session:
        points = [{**point, "solver": name} for name in ("dcd", "newton", "dcd")]
        session.get_one(JobRow, job["id"]).trace = points
    every = api.http.get(f"/v1/jobs/{job['id']}/trace").json()["data"]
    one = api.http.get(f"/v1/jobs/{job['id']}/trace", params={"solver": "dcd"}).json()["data"]
    assert [point["solver"] for point in every] == ["dcd", "newton", "dcd"]
    assert len(one) == 2
