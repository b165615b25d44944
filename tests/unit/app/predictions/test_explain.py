"""Explanations relative to the training mean: an average row explains nothing, and everything adds up to the score."""

import json
from collections.abc import Iterator
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.models.file import MEANS
from app.models.repository import Location
from app.predictions.explain import explain_with
from app.predictions.model_cache import ServedModel
from app.predictions.service import predict_with
from tests.support.builders import NOBODY, served_model
from tests.support.frames import Table, frame_of
from tests.support.worker_bench import Bench, noisy, three_words, worker_bench

Json = dict[str, Any]
JSON = "application/json"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def served(bench: Bench, job: Json) -> ServedModel:
    return ServedModel.opened(Location(f"mdl_{NOBODY}", "m", 1, ""), bench.model(job)[1])


def explained(model: ServedModel, rows: list[Any], top: int = 3) -> Json:
    body = json.dumps({"instances": rows}).encode()
    found: Json = json.loads(explain_with(model, body, JSON, top).content)
    return found


def predicted(model: ServedModel, rows: list[Any]) -> Json:
    body = json.dumps({"instances": rows, "return": ["score", "contributions"]}).encode()
    found: Json = json.loads(predict_with(model, body, JSON, None).content)
    return found


def check_sums(model: ServedModel, rows: list[Any]) -> None:
    for top in (1, 2, 50):
        for one in explained(model, rows, top)["explanations"]:
            parts = [part["contribution"] for part in one["contributions"]]
            assert len(parts) <= top
            total = fsum([*parts, one["others"]["contribution"], one["base_score"]])
            assert total == pytest.approx(one["score"], rel=1e-12, abs=1e-12)
            assert one["intercept"] == one["base_score"]
    for one in predicted(model, rows)["predictions"]:
        found = one["contributions"]
        values = found if isinstance(found, list) else found["values"] if "values" in found else list(found.values())
        total = 0.0
        for value in values:
            total += value
        size = max(abs(total), abs(one["intercept"]))
        assert abs(total + one["intercept"] - one["score"]) <= 2.0**-52 * size, "one rounding"


@pytest.mark.parametrize("kind", ["two", "three", "number"])
def test_an_average_row_explains_nothing(bench: Bench, kind: str) -> None:
    X, signal = noisy(150)
    X += [5.0, -3.0, 100.0, 0.0]
    y = {"two": np.where(signal > 0, "up", "down"), "three": three_words(signal), "number": signal}[kind]
    model = served(bench, bench.run(bench.store(X, y), C=1.0, split={"test": 0.3}))
    means = model.file.means
    assert means is not None
    (average,) = explained(model, [means.tolist()])["explanations"]
    assert (average["contributions"], average["others"]) == ([], {"count": 0, "contribution": 0.0})
    assert average["base_score"] == average["score"]
    assert "average row" in average["text"]
    rows = X[:20].tolist()
    answer = explained(model, rows, top=4)
    assert answer["relative_to"] == "training_mean"
    coef = np.atleast_2d(model.file.coef)
    for row, one in zip(X[:20], answer["explanations"], strict=True):
        place = model.file.header.classes.index(one["label"]) if kind == "three" else 0
        expected = coef[place] * (row - means)
        for part in one["contributions"]:
            assert part["contribution"] == pytest.approx(expected[int(part["feature"])])
        sizes = [abs(part["contribution"]) for part in one["contributions"]]
        assert sizes == sorted(sizes, reverse=True)
    check_sums(model, rows)


def test_the_means_are_those_of_the_training_rows_by_weight(bench: Bench) -> None:
    X, signal = noisy(100)
    weight = np.random.default_rng(1).exponential(size=100)
    plain = served(bench, bench.run(bench.store(X, signal), C=1.0))
    np.testing.assert_allclose(plain.file.means, X.mean(axis=0), rtol=1e-12)
    weighted = served(bench, bench.run(bench.store(X, signal, weight=weight), C=1.0, preprocess={"scale": "standard"}))
    np.testing.assert_allclose(weighted.file.means, np.average(X, axis=0, weights=weight), rtol=1e-9)


def test_words_and_texts_are_explained_from_their_shares(bench: Bench) -> None:
    random = np.random.default_rng(2)
    city = random.choice(["ulm", "bonn", "kiel"], 120)
    text = [" ".join(random.choice(["good", "bad", "fine", "slow", "warm"], 3)) for _ in city]
    y = np.where((city == "ulm") | np.array(["good" in one for one in text]), "yes", "no")
    table: Table = {
        "age": ("numeric", (random.normal(40, 9, 120)).tolist()),
        "city": ("categorical", city.tolist()),
        "text": ("text", text),
    }
    model = served(bench, bench.run(bench.store_frame(frame_of(table), y), preprocess={}, C=1.0))
    pipeline = model.features
    assert model.file.means is not None
    names = [pipeline.feature_name(number) for number in range(model.file.header.n_features)]
    for name in ("ulm", "bonn", "kiel"):
        assert model.file.means[names.index(f"city={name}")] == pytest.approx((city == name).mean())
    rows = [{"age": 40.0, "city": city[number], "text": text[number]} for number in range(10)]
    check_sums(model, rows)
    (one,) = explained(model, [{"age": 40.0, "city": "bonn", "text": "bad slow"}], top=50)["explanations"]
    parts = {part["feature"]: part["contribution"] for part in one["contributions"]}
    place = names.index("city=ulm")
    assert parts["city=ulm"] == pytest.approx(-model.file.coef[place] * model.file.means[place]), "it is left out"
    by_column = predicted(model, rows)
    assert by_column["relative_to"] == "training_mean"
    scores = [one["score"] for one in predicted(model, [dict(row) for row in rows])["predictions"]]
    for row in by_column["predictions"]:
        assert set(row["contributions"]) == {"age", "city", "text"}
        assert sum(row["contributions"].values()) + row["base_score"] == pytest.approx(row["score"])
    assert len(set(scores)) > 1


def test_what_a_sparse_row_leaves_out_counts(tmp_path: Path) -> None:
    coef, means = np.array([1.0, -2.0, 4.0, 0.0, 3.0]), np.array([0.5, 0.25, 0.0, 9.0, 1.0])
    model = served_model(tmp_path, coef, 0.25, arrays={MEANS: means})
    base = float(coef @ means + 0.25)
    row = {"indices": [1, 2], "values": [1.0, 2.0]}
    (one,) = explained(model, [row], top=2)["explanations"]
    # 4 * 2 = 8; left out: 3 * (0 - 1) = -3, 1 * (0 - 0.5) = -0.5; -2 * (1 - 0.25) = -1.5
    assert one["contributions"] == [
        {"feature": "2", "contribution": 8.0},
        {"feature": "4", "contribution": -3.0},
    ]
    assert one["others"] == {"count": 2, "contribution": -2.0}
    assert one["base_score"] == base
    assert one["score"] == 8.0 - 2.0 + 0.25
    (told,) = predicted(model, [row])["predictions"]
    assert told["contributions"] == {"indices": [1, 2], "values": [-1.5, 8.0]}
    assert told["intercept"] == base - 3.5
    check_sums(model, [row, {"indices": [], "values": []}, {"indices": [0, 4], "values": [0.5, 1.0]}])


def test_a_model_without_means_is_explained_from_zero_and_says_so(tmp_path: Path) -> None:
    model = served_model(tmp_path, [2.0, -1.0], 0.25)
    answer = explained(model, [[1.0, 3.0]])
    (one,) = answer["explanations"]
    assert answer["relative_to"] == "zero"
    assert (one["base_score"], one["intercept"]) == (0.25, 0.25)
    assert [part["contribution"] for part in one["contributions"]] == [-3.0, 2.0]
    assert one["text"].endswith("intercept +0.25")
    told = predicted(model, [[1.0, 3.0]])
    assert told["relative_to"] == "zero"
    assert told["predictions"] == [{"score": -0.75, "contributions": [2.0, -3.0], "intercept": 0.25}]
