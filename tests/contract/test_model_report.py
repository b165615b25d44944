"""The report of a model: one page that loads nothing, for every task, with texts of users as text."""

import json
import shlex
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from app.main import create_app
from app.models.schemas import ClassWeights, Model, NamedWeight
from app.reports.facts import Facts
from app.reports.page import write_page
from tests.support.builders import InProcess, checked_problem, migrated_database, temporary_settings

VOID = {"meta", "line", "rect", "circle", "polyline", "br"}
LOADING = {
    "script",
    "link",
    "img",
    "iframe",
    "object",
    "embed",
    "audio",
    "video",
    "source",
    "base",
    "form",
    "image",
    "use",
}
HOSTILE = '</title><script>alert(1)</script><img src=x onerror="x">\u202e\u05e2\u05d1' + "x" * 10_000
CURVES = {
    "rows": "test",
    "roc": {"fpr": [0.0, 0.5, 1.0], "tpr": [0.0, 0.9, 1.0], "threshold": [None, 0.1, -1.0]},
    "pr": {"precision": [1.0, 0.8], "recall": [0.5, 1.0], "threshold": [0.3, -1.0]},
}
BINARY = {
    "rows": 100,
    "accuracy": 0.9,
    "per_class": [],
    "confusion": {"labels": ["a", "b"], "matrix": [[40, 10], [0, 50]]},
}


class Page(HTMLParser):
    """Collects tags, ids and the text of a page, and checks that tags are closed in order."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(content)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def ids(self) -> set[str | None]:
        return {value for name, value in self.attributes if name == "id"}


def facts(**changes: Any) -> Facts:
    """A report's facts; the fields of the model and of `Facts` can be changed."""
    described = {
        "id": "mdl_x",
        "name": "radar",
        "version": 3,
        "task": "binary",
        "solver": "dcd",
        "converged": True,
        "relative_gap": 1e-4,
        "headline": None,
        "created_at": "2026-11-18T10:00:00Z",
        "deleted_at": None,
        "purged_at": None,
        "classes": ["a", "b"],
        "n_features": 2,
        "params": {"C": 1.0, "loss": "hinge", "webhook": {"url": "https://hooks.example/secret"}, "p": None},
        "certificate": {"primal": 2.0, "dual_bound": 1.5, "gap": 0.5, "relative_gap": 0.25, "method": "dual point"},
        "metrics": {"test": BINARY, "baseline": {"prediction": "b", "measured_on": "test", "accuracy": 0.5}},
        "curves": CURVES,
        "training": {"status": "converged", "rows": 100, "seconds": 0.5},
        "lineage": {"parent": None, "sha256": "0" * 64, "job_id": "job_x", "dataset_id": "ds_x"},
        "aliases": [],
    }
    weight = {"column": "size", "level": None, "word": None, "unit": "1", "weight": -1.5, "strength": -1.5}
    whole = {
        "weights": [ClassWeights(label="b", weights=[NamedWeight(feature="size", **weight)])],
        "trace": [
            {"seconds": s, "passes": 1, "primal": 5.0 - s, "dual_bound": s, "relative_gap": 0.9 / s} for s in (1, 2, 3)
        ],
        "dataset": None,
        "sent": None,
    }
    own = {name: value for name, value in changes.items() if name in whole}
    model = Model.model_validate(described | {name: value for name, value in changes.items() if name not in whole})
    return Facts(model, **{**whole, **own})


def test_a_full_report_has_every_section_and_a_table_behind_every_chart() -> None:
    calibration = {"held_out": {"calibration_curve": {"predicted": [0.2, 0.8], "observed": [0.1, 0.9], "rows": [5, 5]}}}
    page = Page(write_page(facts(calibration=calibration)))
    sections = {
        "certificate",
        "metrics",
        "curves",
        "confusion",
        "weights",
        "convergence",
        "data",
        "lineage",
        "reproduce",
    }
    assert sections <= page.ids
    assert page.tags.count("figure") == page.tags.count("details") == 5
    assert page.tags.count("h1") == 1
    assert "No weights can have an objective below 1.5. These have at most 2." in page.text
    assert "The constant model always predicts b, on the test rows." in page.text
    assert "secret" not in page.text


def test_it_loads_nothing_and_its_policy_allows_its_style_only() -> None:
    page = Page(write_page(facts()))
    assert LOADING.isdisjoint(page.tags)
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")} | (names & {"src", "style"})
    assert all(value and value.startswith("#") for name, value in page.attributes if name == "href")


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "multiclass", "classes": [0, 1, 2], "curves": None},
        {
            "task": "regression",
            "classes": [],
            "curves": None,
            "metrics": {"train": {"rows": 9, "mae": 1.0, "r2": None}},
        },
        {"task": "ordinal", "classes": [1, 2.5], "metrics": {"train": {"rows": 9, "ndcg": {"5": 1.0}, "groups": 2}}},
        {
            "certificate": None,
            "metrics": {},
            "curves": None,
            "trace": [],
            "weights": [],
            "training": {"status": "imported"},
        },
        {"trace": [{"seconds": 0.0, "passes": 1, "primal": 1.0, "dual_bound": 1.0, "relative_gap": 0.0}]},
        {"trace": [{"seconds": 1.0, "passes": 1, "primal": 1.0, "dual_bound": 1.0, "relative_gap": 0.0}] * 3},
    ],
    ids=["multiclass", "regression", "ordinal", "bare", "one_point", "flat"],
)
def test_every_task_and_a_model_with_little(changes: dict[str, Any]) -> None:
    page = Page(write_page(facts(**changes)))
    assert {"certificate", "metrics", "lineage"} <= page.ids
    for wrong in ("None", "nan", "NaN", "inf "):
        assert wrong not in page.text


def test_texts_of_users_stay_text_and_the_page_stays_small() -> None:
    weight = {"column": HOSTILE, "level": None, "word": None, "unit": "1", "weight": 1.0, "strength": 1.0}
    named = NamedWeight(feature=HOSTILE, **weight)
    labels = [f"{k}{HOSTILE}" for k in range(100)]
    confusion = {"labels": labels, "matrix": [[1] * 100 for _ in labels]}
    per_class = [{"label": one, "rows": 1, "precision": 1.0, "recall": 1.0, "f1": 1.0} for one in labels]
    column = {"name": HOSTILE, "role": "feature", "kind": "text", "missing": 5, "levels": None, "reason": HOSTILE}
    dataset = {
        **dict.fromkeys(("name", "id", "format", "storage"), HOSTILE),
        "sha256": "0" * 64,
        **{
            "bytes": 1,
            "n_rows": 10,
            "n_features": 1,
            "task_hint": "binary",
            "warnings": [{"code": "x", "detail": HOSTILE}],
        },
        "classes": [{"label": one, "count": 1} for one in labels],
        "columns": [column] * 10_000,
    }
    content = write_page(
        facts(
            classes=labels,
            task="multiclass",
            metrics={"test": {**BINARY, "confusion": confusion, "per_class": per_class}},
            weights=[ClassWeights(label=one, weights=[named] * 15) for one in labels],
            dataset=dataset,
            params={"class_weight": {HOSTILE: 2.0}},
        )
    )
    assert len(content.encode()) < 1_000_000
    page = Page(content)
    assert {"script", "img"}.isdisjoint(page.tags)
    assert "<script>alert(1)</script>" in page.text
    assert "\u202e" not in page.text


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    settings = temporary_settings(tmp_path_factory.mktemp("data"))
    with migrated_database(settings.resolved_database_url):
        yield InProcess(create_app(settings))


def test_an_imported_model_has_a_report(http: InProcess, tmp_path: Path) -> None:
    document = {"task": "binary", "classes": ["a", "b"], "coef": [1.0, -2.0]}
    assert http.post("/v1/models/import", params={"name": "bare"}, json=document).status_code == 201
    response = http.get("/v1/models/bare/report")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert response.headers["content-disposition"] == 'inline; filename="bare-1.html"'
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "The model was imported" in Page(response.text).text
    checked_problem(http.get("/v1/models/absent/report"), 404)


def test_the_request_is_the_one_of_the_training() -> None:
    text = Page(write_page(facts(sent={"C": 2.0, "positive_class": "it's", "solver": "auto", "p": None}))).text
    line = next(line for line in text.split("curl ") if "/v1/jobs" in line).split("Python")[0]
    body = json.loads(shlex.split("curl " + line)[-1])
    sent = {"C": 2.0, "positive_class": "it's", "solver": "auto"}
    assert body == {"dataset_id": "ds_x", "model": "radar", **sent, "type": "train"}
