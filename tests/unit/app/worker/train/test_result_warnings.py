"""Warnings about a trained model: each has its cure, and a sound model has none."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.tabular.frame import Column, Frame
from app.worker.train.result_warnings import codes_as_numbers
from tests.support.documents import ROOT
from tests.support.frames import Table, frame_of
from tests.support.worker_bench import Bench, noisy, three_words, worker_bench

Array = np.ndarray[Any, Any]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def warned(bench: Bench, dataset: str, **fields: Any) -> dict[str, dict[str, Any]]:
    job = bench.run(dataset, **fields)
    card, _ = bench.model(job)
    assert job["result"]["warnings"] == card["warnings"]
    return {one["code"]: one for one in card["warnings"]}


def test_a_sound_model_has_no_warning(bench: Bench) -> None:
    X, signal = noisy(200)
    for y in (np.where(signal > 0, "up", "down"), three_words(signal), signal):
        assert warned(bench, bench.store(X, y), split={"test": 0.3}, C=1.0) == {}
        assert warned(bench, bench.store(X, y), cross_validation=3, C=1.0) == {}


def test_a_rare_class_that_is_never_predicted(bench: Bench) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(800, 3))
    y = np.where(np.arange(800) % 50, "usual", "rare")
    dataset = bench.store(X, y)
    found = warned(bench, dataset, split={"test": 0.25}, C=0.01, loss="hinge")
    assert set(found) >= {"imbalanced", "predicts_one_class"}
    assert found["imbalanced"]["class"] == "rare"
    assert "12 of 600 training rows (2.0%)" in found["imbalanced"]["detail"]
    for code in ("imbalanced", "predicts_one_class"):
        assert '"class_weight": "balanced"' in found[code]["detail"]
        assert '"threshold": {"metric": "balanced_accuracy"}' in found[code]["detail"]
    cured = warned(bench, dataset, split={"test": 0.25}, class_weight="balanced", C=1.0)
    assert not {"imbalanced", "predicts_one_class"} & set(cured)


def test_worse_than_the_mean_on_unseen_rows(bench: Bench) -> None:
    """30 columns of noise and 36 training rows: the model fits noise."""
    random = np.random.default_rng(1)
    X, y = random.normal(size=(60, 30)), random.normal(size=60)
    found = warned(bench, bench.store(X, y), split={"test": 0.4}, C=100.0)
    assert "always predicting" in found["worse_than_baseline"]["detail"]
    labels = np.where(random.random(60) < 0.5, "a", "b")
    labels[:40] = "a"
    assert "worse_than_baseline" in warned(bench, bench.store(X, labels), split={"test": 0.4, "seed": 3}, C=100.0)


@pytest.mark.parametrize("kind", ["two", "three", "number"])
def test_weights_near_zero(bench: Bench, kind: str) -> None:
    X, signal = noisy(120)
    y = {"two": np.where(signal > 0, "up", "down"), "three": three_words(signal), "number": 1e3 * signal}[kind]
    found = warned(bench, bench.store(X, y), C=1e-8)
    assert "raise C" in found["near_zero_weights"]["detail"]
    assert "near_zero_weights" not in warned(bench, bench.store(X, y), C=10.0)


def test_figures_of_training_rows_only(bench: Bench) -> None:
    X, signal = noisy(80)
    dataset = bench.store(X, signal)
    for fields, expected in (({}, True), ({"cross_validation": 2}, False), ({"split": {"test": 0.5}}, False)):
        assert ("training_figures_only" in warned(bench, dataset, C=1.0, **fields)) is expected


def test_codes_are_told_apart_from_numbers(bench: Bench) -> None:
    random = np.random.default_rng(3)
    values = {
        "district": random.integers(1, 8, 200).astype(float),
        "age": random.integers(18, 90, 200).astype(float),
        "height": random.normal(size=200),
        "twice": random.integers(0, 2, 200).astype(float),
    }
    table: Table = {name: ("numeric", column.tolist()) for name, column in values.items()}
    y = np.where(random.random(200) < 0.5, "a", "b")
    dataset = bench.store_frame(frame_of(table), y)
    for fields in ({}, {"preprocess": {}}):
        found = warned(bench, dataset, C=1.0, **fields)["codes_as_numbers"]
        assert found["columns"] == ["district"]
        assert '"preprocess": {"columns": {"district": {"kind": "categorical"}}}' in found["detail"]
    cure = {"columns": {"district": {"kind": "categorical"}}}
    assert "codes_as_numbers" not in warned(bench, dataset, C=1.0, preprocess=cure)


def test_codes_with_gaps_and_many_columns() -> None:
    X = np.tile(np.arange(5.0).repeat(6)[:, None], 40)
    X[3, 0] = np.nan
    columns = [Column(f"c{number}") for number in range(40)]
    (found,) = codes_as_numbers(Frame(X, columns), None)
    assert len(found["columns"]) == 40
    assert "and 35 more" in found["detail"]
    assert codes_as_numbers(Frame(X[::2], columns), None) == [], "three rows for each value are too few"
    assert codes_as_numbers(Frame(X + 0.5, columns), None) == []
    assert codes_as_numbers(Frame(X), None) == [], "columns without names cannot be set"


def test_the_baseline_is_beside_the_metrics(bench: Bench) -> None:
    X, signal = noisy(100)
    card, _ = bench.model(bench.run(bench.store(X, three_words(signal)), split={"test": 0.3}))
    baseline, test = card["metrics"]["baseline"], card["metrics"]["test"]
    assert (baseline["measured_on"], baseline["rows"]) == ("test", 30)
    counts = {one["label"]: one["rows"] for one in test["per_class"]}
    assert baseline["accuracy"] == pytest.approx(counts[baseline["prediction"]] / 30)
    card, _ = bench.model(bench.run(bench.store(X, signal)))
    assert card["metrics"]["baseline"]["prediction"] == pytest.approx(signal.mean())
    assert card["metrics"]["baseline"]["r2"] == pytest.approx(0.0, abs=1e-12)
    ranks = np.digitize(signal, [-1.0, 1.0]).astype(float)
    card, _ = bench.model(bench.run(bench.store(X, ranks), task="ordinal"))
    assert card["metrics"]["baseline"]["swapped_pairs"] == 0.5
    assert card["metrics"]["baseline"]["accuracy"] == pytest.approx(np.bincount(ranks.astype(int)).max() / 100)


def test_every_code_is_in_the_reference() -> None:
    sources = ["app/worker/train/result_warnings.py", "app/preprocess/fit.py"]
    codes = {code for path in sources for code in re.findall(r'"code": "(\w+)"', (ROOT / path).read_text())}
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    assert len(codes) >= 9
    assert codes <= set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
