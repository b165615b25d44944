"""Real tables and real texts through HTTP alone: one upload, one job, raw rows in, names out."""

import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.serving import Service, checked

ADULT = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
]
CODED = {"workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country"}


@pytest.fixture(scope="session")
def service(sqlite_service: Service) -> Service:
    return sqlite_service


def csv_of(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    return text.getvalue().encode()


def small_table(rows: int) -> tuple[list[str], list[list[Any]]]:
    """Blanks, words, dates, truth values and texts, of which income and the note decide."""
    random = np.random.default_rng(0)
    table = []
    for _ in range(rows):
        rich = random.random() < 0.5
        income = random.normal(60_000 if rich else 40_000, 8_000)
        note = " ".join(
            random.choice(["likes", "golf", "yachts", "and", "wine"] if rich else ["likes", "tea", "bus"], 6)
        )
        cells = [
            f"{income:.2f}",
            random.choice(["Oslo", "Rome"]),
            f"20{random.integers(10, 24)}-0{random.integers(1, 9)}-11",
        ]
        cells += [random.choice(["yes", "no"]), note]
        table.append([*("" if random.random() < 0.05 else cell for cell in cells), "rich" if rich else "poor"])
    return ["income", "city", "joined", "member", "note", "label"], table


def test_a_small_table_from_upload_to_a_raw_row(service: Service) -> None:
    header, rows = small_table(300)
    dataset = service.upload(csv_of(header, rows), name="people")
    kinds = {column["name"]: column["kind"] for column in dataset["columns"] if column["role"] == "feature"}
    assert kinds == {"income": "numeric", "city": "categorical", "joined": "date", "member": "boolean", "note": "text"}
    job = service.wait(service.submit(dataset["id"], split={"test": 0.3})["id"])
    assert job["status"] == "succeeded", job
    assert job["result"]["metrics"]["test"]["accuracy"] > 0.95
    assert {"scale_chosen", "missing_values", "date_parts"} <= {one["code"] for one in job["result"]["warnings"]}
    model = service.get("/v1/models/people")
    assert {column["name"] for column in model["preprocess"]["columns"]} == set(header[:-1])
    given = [
        {"income": 90_000, "city": "Atlantis", "joined": "2024-05-31", "member": True, "note": "golf and yachts"},
        {"income": "15000", "note": "the bus, and tea"},
        {"income": None, "city": None, "joined": None, "member": None, "note": None, "label": "rich"},
    ]
    answer = checked(service.http.post("/v1/models/people/predict", json={"instances": given}))
    assert [one["label"] for one in answer["predictions"]][:2] == ["rich", "poor"]
    refused = service.http.post("/v1/models/people/predict", json={"instances": [given[0], {"income": "much"}]})
    assert refused.status_code == 422
    assert "income" in refused.text


def test_weights_come_back_in_the_users_own_names(service: Service) -> None:
    header, rows = small_table(200)
    dataset = service.upload(csv_of(header, rows), name="named")
    service.wait(service.submit(dataset["id"])["id"])
    shown = service.get("/v1/models/named/weights", top=30)
    (only,) = shown["classes"]
    assert only["label"] == "rich"
    by_name = {one["feature"]: one for one in only["weights"]}
    sizes = [abs(one["strength"]) for one in only["weights"]]
    assert sizes == sorted(sizes, reverse=True)
    assert by_name["note:golf"]["word"] == "golf"
    assert by_name["note:golf"]["weight"] > 0 > by_name["note:tea"]["weight"]
    assert {one["level"] for one in only["weights"] if one["column"] == "city"} <= {"Oslo", "Rome", None}
    assert (
        0 < by_name["income"]["weight"] < 1e-3 < by_name["income"]["strength"]
    )  # a dollar is little, a deviation much
    whole = service.get("/v1/models/named/weights")
    assert by_name["income"]["weight"] in whole["coef"]
    assert len(service.get("/v1/models/named/weights", top=3)["classes"][0]["weights"]) == 3
    for asked in ({"params": {"format": "npy"}}, {"headers": {"Accept": "application/octet-stream"}}):
        array = np.load(io.BytesIO(service.http.get("/v1/models/named/weights", **asked).content))
        np.testing.assert_array_equal(array, [[*whole["coef"], whole["intercept"]]])


def test_adult_with_words_and_blanks(service: Service, shared_data: Path) -> None:
    with np.load(shared_data / "adult_pmlb" / "train.npz", allow_pickle=False) as stored:
        chosen = np.random.default_rng(0).permutation(len(stored["y"]))[:16_000]
        X, y = stored["X"][chosen], stored["y"][chosen]
    blank = np.random.default_rng(1).random(X.shape) < 0.03

    def cell(row: int, j: int) -> Any:
        if blank[row, j]:
            return ""
        return f"{ADULT[j]} {X[row, j]}" if ADULT[j] in CODED else X[row, j]

    rows = [[*(cell(i, j) for j in range(14)), y[i]] for i in range(len(y))]
    dataset = service.upload(csv_of([*ADULT, "income"], rows), name="adult")
    job = service.wait(service.submit(dataset["id"], split={"test": 0.25})["id"], 120)
    assert job["status"] == "succeeded", job
    assert job["result"]["metrics"]["test"]["accuracy"] > 0.83
    raw = {name: cell(7, j) for j, name in enumerate(ADULT)}
    raw = {name: value.item() if hasattr(value, "item") else value for name, value in raw.items()}
    unseen = {**raw, "native-country": "Atlantis", "favourite colour": "green"}
    body = {"instances": [raw, unseen], "return": ["label", "score"]}
    answer = checked(service.http.post("/v1/models/adult/predict", json=body))
    assert all(one["label"] in (0, 1) for one in answer["predictions"])
    assert any(warning["code"] == "unknown_columns" for warning in answer["warnings"])


def test_short_messages_from_raw_text(service: Service, shared_data: Path) -> None:
    dataset = service.upload(
        lines(shared_data / "sms_spam_text" / "train.jsonl.gz"), "application/x-ndjson", name="sms"
    )
    job = service.wait(
        service.submit(dataset["id"], split={"test": 0.2}, preprocess={"text": {"ngrams": [1, 2]}})["id"]
    )
    assert job["status"] == "succeeded", job
    assert job["result"]["metrics"]["test"]["accuracy"] > 0.97
    texts = ["Free entry! Text WIN to 80082 to claim your prize now", "are you home for dinner tonight"]
    body = {"instances": [{"text": text} for text in texts]}
    answer = checked(service.http.post("/v1/models/sms/predict", json=body))
    assert [one["label"] for one in answer["predictions"]] == [1, -1]


def test_newsgroups_from_raw_text(service: Service, shared_data: Path) -> None:
    folder = shared_data / "news20_text"
    ids = [
        service.upload(lines(folder / f"{part}.jsonl.gz"), "application/x-ndjson", name=f"news-{part}")["id"]
        for part in ("train", "test")
    ]
    job = service.wait(service.submit(ids[0], model="news", split={"test_dataset_id": ids[1]}, tol=1e-2)["id"], 300)
    assert job["status"] == "succeeded", job
    assert job["result"]["metrics"]["test"]["accuracy"] > 0.84
    groups = {one["label"]: [w["word"] for w in one["weights"]] for one in _top(service)}
    assert len(groups) == 20


def _top(service: Service) -> list[dict[str, Any]]:
    refused = service.http.get("/v1/models/news/weights")
    assert (refused.status_code, refused.json()["code"]) == (422, "too_many_weights")
    classes: list[dict[str, Any]] = service.get("/v1/models/news/weights", top=5)["classes"]
    return classes


def lines(path: Path) -> bytes:
    """A row a line, as a client would write it."""
    with gzip.open(path, "rt") as file:
        pairs = [json.loads(line) for line in file]
    return "\n".join(json.dumps({"text": text, "label": label}) for label, text in pairs).encode()
