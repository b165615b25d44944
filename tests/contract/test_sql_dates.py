"""Dates in SQL exports, on SQLite and PostgreSQL."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from app.main import create_app
from app.tabular.frame import Column, Frame
from tests.support.builders import InProcess, checked_problem, migrated_database, temporary_settings
from tests.support.exported_models import exported, model_document, predicted, send_model

generator = np.random.default_rng(29)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DATED: dict[str, dict[str, Any]] = {
    "all-parts": {"dates": ["days", "weekday", "month", "hour"], "missing": "indicator"},
    "filled": {"dates": ["hour", "month", "days"]},
    "refused": {"dates": ["weekday"], "missing": "error"},
}
MOMENTS = [
    "1970-01-01",
    " 2024-02-29 ",
    "2024-02-29 23:59:59",
    "2024-02-29T23:59:59.999999Z",
    "2024-03-01T01:30:00+02:00",
    "2024-02-29 20:15-0530",
    "1969-12-31T23:59:59.25",
    "1900-03-01",
    "0001-01-01",
    "9999-12-31T23:59",
    "1600-12-31 05:00:00+00",
]
NO_DATES = ["2023-02-29", "2024-13-01", "2024-00-10", "2024-04-31", "2024-01-01T24:00", "yesterday", "2024"]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    settings = temporary_settings(tmp_path_factory.mktemp("data"))
    with migrated_database(settings.resolved_database_url):
        yield InProcess(create_app(settings))


@pytest.mark.parametrize("scores", [1, 3])
@pytest.mark.parametrize("name", DATED)
def test_dates_in_sqlite(http: InProcess, name: str, scores: int, tmp_path: Path) -> None:
    """A date is an ISO text. What is no date has no score, as predict refuses it."""
    ref = f"{name}-{scores}"
    send_model(http, ref, model_document(DATED[name], dated_frame(gaps=name != "refused"), scores, tmp_path))
    days = [one for one in MOMENTS if not one.endswith("+00")]  # only PostgreSQL writes such a zone
    random = generator.integers(-6 * 10**10, 2 * 10**11, 200)
    days += [(EPOCH + timedelta(seconds=int(seconds))).isoformat() for seconds in random]
    rows: list[dict[str, Any]] = [{"size": 0.5, "it's a day": day} for day in days]
    if name != "refused":
        rows += [{"size": 0.5, "it's a day": nothing} for nothing in (None, "", " NA ", "null")]
    expected, labels = predicted(http, ref, rows)
    found = by_sqlite(http, ref, [row["it's a day"] for row in rows])
    best = expected if expected.ndim == 1 else expected.max(axis=1)
    np.testing.assert_allclose([score for score, _ in found], best, rtol=1e-9, atol=1e-9)
    assert [label for _, label in found] == labels
    assert set(by_sqlite(http, ref, NO_DATES)) == {(None, None)}
    for text in NO_DATES:
        body = {"instances": [{"size": 0.5, "it's a day": text}]}
        checked_problem(http.post(f"/v1/models/{ref}/predict", json=body), 422)


def dated_frame(*, gaps: bool) -> Frame:
    moments = generator.integers(-(10**10), 10**10, 80).astype(float)
    if gaps:
        moments[::5] = np.nan
    return Frame(np.column_stack([generator.normal(size=80), moments]), [Column("size"), Column("it's a day", "date")])


def by_sqlite(http: InProcess, ref: str, days: list[str | None]) -> list[tuple[Any, ...]]:
    score, label = (exported(http, ref, "sql", output=output).decode() for output in ("score", "label"))
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute('CREATE TABLE rows (size REAL, "it\'s a day" TEXT)')
        connection.executemany("INSERT INTO rows VALUES (0.5, ?)", [(day,) for day in days])
        return connection.execute(f"SELECT {score}, {label} FROM rows ORDER BY rowid").fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize("kind", ["text", "timestamp", "timestamptz", "date"])
def test_dates_in_postgresql(http: InProcess, postgres_server: str, kind: str, tmp_path: Path) -> None:
    send_model(http, f"pg-{kind}", model_document(DATED["all-parts"], dated_frame(gaps=True), 1, tmp_path))
    score, label = (exported(http, f"pg-{kind}", "sql", output=output).decode() for output in ("score", "label"))
    url = postgres_server.replace("postgresql+psycopg", "postgresql")
    with psycopg.connect(url) as server:
        server.execute("SET TIME ZONE 'America/St_Johns'")  # UTC-3:30
        server.execute(f'CREATE TEMPORARY TABLE rows (number serial, size real, "it\'s a day" {kind})'.encode())
        given = [day for day in MOMENTS if kind != "timestamptz" or not day.startswith("9999")]  # 10000 in UTC
        for day in [*given, None]:
            server.execute('INSERT INTO rows (size, "it\'s a day") VALUES (0.5, %s)', [day])
        written = "to_char(\"it's a day\" AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.USZ')"
        if kind != "timestamptz":
            written = 'CAST("it\'s a day" AS TEXT)'
        query = f"SELECT {score}, {label}, {written} FROM rows ORDER BY number".encode()
        found = server.execute(query).fetchall()
    # the time zone of a text is dropped by a cast to timestamp, so predict gets what the server holds
    days = [None if row[2] is None else row[2] + ":00" * row[2].endswith("+00") for row in found]
    expected, labels = predicted(http, f"pg-{kind}", [{"size": 0.5, "it's a day": day} for day in days])
    np.testing.assert_allclose([row[0] for row in found], expected, rtol=1e-9, atol=1e-9)
    assert [row[1] for row in found] == labels
