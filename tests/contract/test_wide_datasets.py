"""Datasets of many columns: what is answered is bounded, and all columns can be paged through."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event

from app.datasets.inspection.inspector import SHOWN_COLUMNS
from app.db import Database
from app.ids import new_id
from app.main import create_app
from app.storage import BlobStore
from app.web.context import context_of
from tests.support.builders import InProcess, checked_problem, dataset_row, temporary_settings

WIDTH = SHOWN_COLUMNS + 450


@pytest.fixture
def http(database: Database, tmp_path: Path) -> Iterator[InProcess]:
    settings = temporary_settings(tmp_path, database_url=database.url.render_as_string(hide_password=False))
    app = create_app(settings)
    yield InProcess(app)
    context_of(app).database.close()


def stored(database: Database, folder: Path, width: int) -> str:
    """A dataset with a target and this many features."""
    store = BlobStore(folder)
    X = np.arange(2.0 * width).reshape(2, width)
    arrays = {"X": store.put_array(X), "y": store.put_array(np.array([0.0, 1.0]))}
    columns: list[dict[str, Any]] = [{"name": f"c{j}", "role": "feature", "kind": "numeric"} for j in range(width)]
    columns.append({"name": "y", "role": "target"})
    row = dataset_row(n_rows=2, n_features=width, nnz=2 * width, arrays=arrays, columns=columns)
    dataset_id = row.id
    with database.write() as session:
        session.add(row)
    return dataset_id


def test_a_wide_dataset_is_answered_with_its_first_columns(http: InProcess, database: Database, tmp_path: Path) -> None:
    wide, narrow = stored(database, tmp_path, WIDTH), stored(database, tmp_path, 3)
    shown = http.get(f"/v1/datasets/{wide}").json()
    assert [column["name"] for column in shown["columns"]] == [f"c{j}" for j in range(SHOWN_COLUMNS)]
    assert shown["n_columns"] == WIDTH + 1
    shown = http.get(f"/v1/datasets/{narrow}").json()
    assert [column["name"] for column in shown["columns"]] == ["c0", "c1", "c2", "y"]
    assert shown["n_columns"] == 4
    listed = http.get("/v1/datasets").json()["data"]
    assert {one["id"] for one in listed} == {wide, narrow}
    assert "columns" not in listed[0]


def test_all_columns_can_be_paged_through(http: InProcess, database: Database, tmp_path: Path) -> None:
    wide = stored(database, tmp_path, WIDTH)
    found, query = [], {"limit": "200"}
    while True:
        page = http.get(f"/v1/datasets/{wide}/columns", params=query).json()
        found += page["data"]
        if not page["has_more"]:
            break
        query["cursor"] = page["next_cursor"]
    assert [column["name"] for column in found] == [*(f"c{j}" for j in range(WIDTH)), "y"]
    assert found[-1]["role"] == "target"
    for cursor in (b"xx", b"9" * 17, b"2147483647", b"9" * 40):
        named = base64.urlsafe_b64encode(cursor).decode().rstrip("=")
        checked_problem(http.get(f"/v1/datasets/{wide}/columns", params={"cursor": named}), 422)
    behind = base64.urlsafe_b64encode(b"2000000000").decode().rstrip("=")
    assert http.get(f"/v1/datasets/{wide}/columns", params={"cursor": behind}).json()["data"] == []
    checked_problem(http.get(f"/v1/datasets/{new_id('ds')}/columns"), 404)


def test_a_preview_has_the_first_columns_and_the_target(http: InProcess, database: Database, tmp_path: Path) -> None:
    shown = http.get(f"/v1/datasets/{stored(database, tmp_path, WIDTH)}/preview").json()
    assert shown["columns"] == [f"c{j}" for j in range(SHOWN_COLUMNS)]
    assert shown["target"] == "y"
    assert shown["data"][1]["values"] == [WIDTH + j for j in range(SHOWN_COLUMNS)]


def test_the_database_cuts_out_the_columns(http: InProcess, database: Database, tmp_path: Path) -> None:
    """Not this process: JSON of 300,000 columns takes 0.4 s to read, in which no other thread runs."""
    dataset_id = stored(database, tmp_path, WIDTH)
    statements: list[str] = []
    engine = context_of(http.app).database.engine
    event.listen(engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    for path in ("", "/columns", "/preview"):
        assert http.get(f"/v1/datasets/{dataset_id}{path}").status_code == 200
    assert http.get("/v1/datasets").status_code == 200
    assert any("datasets" in statement for statement in statements)
    selected = re.compile(r"datasets\.columns(?! AS columns_text)(?:,| )")  # as text it is not parsed here
    assert [statement for statement in statements if selected.search(statement)] == []
