"""The data doctor finds what is wrong, says where, and is silent about sound data."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.datasets.inspection import doctor, duplicates, statistics, stored_blocks
from app.datasets.inspection.findings import Facts
from tests.support.builders import array_files
from tests.support.tables import noisy_rows

KINDS = ["dense", "sparse"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


def facts(y: Any, **values: Any) -> Facts:
    labels, counts = np.unique(y, return_counts=True)
    classes = [{"label": label, "count": count} for label, count in zip(labels.tolist(), counts.tolist(), strict=True)]
    defaults: dict[str, Any] = {
        "classes": classes,
        "feature_names": None,
        "warnings": [],
        "labels_are_text": False,
    }
    return Facts(**{**defaults, **values})


def examined(folder: Path, X: Any, y: Any, kind: str, group: Any = None, **values: Any) -> dict[str, dict[str, Any]]:
    files = array_files(folder, X, y, kind, group)
    sha256, _ = statistics.compute(files)
    found = doctor.examine(files, facts(y, **values), sha256)
    assert len({finding["code"] for finding in found}) == len(found)
    ranks = [doctor.SEVERITIES.index(finding["severity"]) for finding in found]
    assert ranks == sorted(ranks)
    assert all(finding["detail"] and finding["remedy"] for finding in found)
    return {finding["code"]: finding for finding in found}


def test_sound_data_is_sound(tmp_path: Path, kind: str) -> None:
    assert examined(tmp_path, *noisy_rows(300, 5, seed=0), kind) == {}


@pytest.mark.parametrize("block_entries", [1 << 21, 30])
def test_conflicting_duplicates_are_named_and_plain_ones_told_apart(
    tmp_path: Path, kind: str, block_entries: int, monkeypatch: Any
) -> None:
    monkeypatch.setattr(stored_blocks, "BLOCK_ENTRIES", block_entries)
    X, y = noisy_rows(100, 4, seed=1)
    X[70], y[70] = X[3], -y[3]
    X[80], y[80] = X[5], y[5]
    X[90, 0], X[6, 0] = 0.0, -0.0
    X[90, 1:], y[90] = X[6, 1:], -y[6]
    found = examined(tmp_path, X, y, kind)
    assert set(found) == {"conflicting_duplicates", "duplicate_rows"}
    assert (found["conflicting_duplicates"]["rows"], found["conflicting_duplicates"]["count"]) == ([3, 6, 70, 90], 4)
    assert found["duplicate_rows"]["rows"] == [70, 80, 90]


def test_rows_with_the_same_values_in_other_columns_are_no_duplicates(tmp_path: Path, kind: str) -> None:
    X = np.array([[1.0, 2, 0], [2, 1, 0], [0, 1, 2], [1, 0, 2], [1, 2, 2], [2, 2, 1]])
    found = examined(tmp_path, X, np.array([0, 1, 0, 1, 0, 1.0]), kind)
    assert "duplicate_rows" not in found


def test_real_valued_labels_do_not_conflict(tmp_path: Path, kind: str) -> None:
    X, y = np.ones((4, 1)), np.array([0.1, 0.2, 0.3, 0.4])
    assert "conflicting_duplicates" not in examined(tmp_path, X, y, kind, classes=[])


def test_large_files_are_searched_in_part_and_still_find_pairs(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(duplicates, "HASHED_ROWS", 256)
    X = np.repeat(np.random.default_rng(2).standard_normal((2000, 3)), 2, axis=0)
    y = np.tile([0.0, 1.0], 2000)
    found = examined(tmp_path, X, y, "dense")["conflicting_duplicates"]
    assert 2 <= found["count"] <= 2 * 256
    assert all(row + 1 in found["rows"] for row in found["rows"][:-1:2])
    assert "one in 16" in found["detail"]


def test_constant_columns_are_listed_by_name(tmp_path: Path, kind: str) -> None:
    X, y = noisy_rows(50, 4, seed=3)
    X[:, 1], X[:, 3] = 7.0, 0.0
    found = examined(tmp_path, X, y, kind, feature_names=["a", "b", "c", "d"])
    assert (found["constant_columns"]["columns"], found["constant_columns"]["count"]) == (["b", "d"], 2)
    assert set(found) == {"constant_columns"}


@pytest.mark.parametrize("sign", [1, -1])
def test_a_column_that_parts_the_classes_leaks(tmp_path: Path, kind: str, sign: int) -> None:
    X, y = noisy_rows(60, 3, seed=4)
    X[:, 2] = sign * np.where(y > 0, np.abs(X[:, 2]) + 0.1, 0.0)  # zeros on one side: not stored in a sparse set
    found = examined(tmp_path, X, y, kind, labels_are_text=True)
    assert found["leaking_columns"]["columns"] == ["2"]


def test_a_column_that_nearly_parts_the_classes_does_not_leak(tmp_path: Path, kind: str) -> None:
    X, y = noisy_rows(60, 3, seed=4)
    X[:, 2] = np.where(y > 0, np.abs(X[:, 2]) + 0.1, 0.0)
    X[np.flatnonzero(y > 0)[0], 2] = 0.0
    assert "leaking_columns" not in examined(tmp_path, X, y, kind)


def test_a_column_that_is_the_target_leaks(tmp_path: Path, kind: str) -> None:
    random = np.random.default_rng(5)
    X, y = random.standard_normal((80, 3)), random.standard_normal(80)
    X[:, 1] = 1000 - 3 * y
    assert examined(tmp_path, X, y, kind, classes=[])["leaking_columns"]["columns"] == ["1"]


def test_columns_of_very_different_width_are_named(tmp_path: Path, kind: str) -> None:
    X, y = noisy_rows(50, 3, seed=6)
    X[:, 0] *= 1e5
    found = examined(tmp_path, X, y, kind)
    assert found["scale_disparity"]["columns"][0] == "0"
    assert set(found) == {"scale_disparity"}


def test_one_class_and_tiny_classes(tmp_path: Path, kind: str) -> None:
    X, _ = noisy_rows(20, 2, seed=7)
    assert examined(tmp_path, X, np.ones(20), kind)["one_class"]["severity"] == "error"
    assert examined(tmp_path, X, np.array([0.0] * 17 + [1, 1, 1]), kind)["tiny_class"]["count"] == 3


def test_groups_of_one_row_are_found(tmp_path: Path, kind: str) -> None:
    X, y = noisy_rows(6, 2, seed=8)
    found = examined(tmp_path, X, y, kind, group=np.array([0, 1, 0, 2, 1, 3]), classes=[])
    assert (found["tiny_groups"]["rows"], found["tiny_groups"]["count"]) == ([3, 5], 2)


def test_what_the_reader_guessed_is_told_with_a_remedy(tmp_path: Path) -> None:
    X, y = noisy_rows(30, 2, seed=9)
    warnings = [{"code": "index_base_guessed", "detail": "The first index is taken to be 1."}]
    found = examined(tmp_path, X, y, "sparse", warnings=warnings)
    assert "index_base=" in found["index_base_guessed"]["remedy"]


def described(folder: Path, **values: Any) -> dict[str, dict[str, Any]]:
    """A sound table of every kind; `values` replace columns."""
    random = np.random.default_rng(10)
    n_rows = 200
    y = np.arange(n_rows) % 2
    columns = {
        "number": random.standard_normal(n_rows),
        "date": 1.6e9 + random.integers(0, 10**8, n_rows).astype(float),
        "level": random.integers(0, 3, n_rows).astype(float),
        "text": np.full(n_rows, 7.0),
        **{name: value for name, value in values.items() if name != "texts"},
    }
    texts = values.get("texts", [f"text {number:02}" for number in random.integers(0, 90, n_rows)])
    X = np.column_stack(list(columns.values()))
    levels = {2: ["a", "b", "c"]}
    files = array_files(folder, X, y, levels=levels, texts={3: texts})
    kinds = ["numeric", "date", "categorical", "text"]
    sha256, _ = statistics.compute(files)
    found = doctor.examine(files, facts(y, feature_names=list(columns), kinds=kinds), sha256)
    return {finding["code"]: finding for finding in found}


def test_a_sound_table_of_every_kind_is_sound(tmp_path: Path) -> None:
    assert described(tmp_path) == {}


def test_codes_dates_and_lengths_have_no_scale(tmp_path: Path) -> None:
    assert "scale_disparity" not in described(tmp_path, number=np.random.default_rng(0).standard_normal(200) * 1e-6)


def test_a_level_in_every_row_is_constant_and_texts_of_one_length_are_not(tmp_path: Path) -> None:
    found = described(tmp_path, level=np.zeros(200))
    assert (set(found), found["constant_columns"]["columns"]) == ({"constant_columns"}, ["level"])
    gaps = np.where(np.arange(200) % 3 == 0, np.nan, 0.0)
    assert described(tmp_path, level=gaps) == {}


@pytest.mark.parametrize(("level", "leaks"), [([0, 1], True), ([0, 2], True), ([1, 1], False)])
def test_levels_that_give_the_label_away_leak(tmp_path: Path, level: list[int], leaks: bool) -> None:
    codes = np.array([level[row % 2] for row in range(200)], dtype=np.float64)
    codes[:10] = np.nan
    codes[-2:] = 2 if level == [1, 1] else codes[-2:]
    found = described(tmp_path, level=codes)
    assert found.get("leaking_columns", {}).get("columns") == (["level"] if leaks else None)


def test_a_number_that_parts_the_classes_where_it_is_there_leaks(tmp_path: Path) -> None:
    number = np.where(np.arange(200) % 2 == 0, -1.0, 1.0) * np.random.default_rng(1).uniform(1, 2, 200)
    number[:40] = np.nan
    assert described(tmp_path, number=number)["leaking_columns"]["columns"] == ["number"]
    number[::2] = np.nan  # of one class there is nothing left to compare
    assert "leaking_columns" not in described(tmp_path, number=number)


def test_many_missing_values_are_warned_about(tmp_path: Path) -> None:
    number = np.random.default_rng(2).standard_normal(200)
    number[:100] = np.nan
    assert described(tmp_path, number=number) == {}
    number[100] = np.nan
    assert described(tmp_path, number=number)["missing_values"]["columns"] == ["number"]


def test_rows_repeat_only_if_their_texts_do(tmp_path: Path) -> None:
    same = {"number": np.ones(200), "date": np.ones(200), "level": np.arange(200) % 2.0}
    texts = [f"text {row:03}" for row in range(200)]
    assert set(described(tmp_path, **same, texts=texts)) == {"constant_columns", "leaking_columns"}
    texts[100], texts[101] = texts[0], texts[2]
    found = described(tmp_path, **same, texts=texts)["duplicate_rows"]
    assert (found["count"], found["rows"]) == (1, [100])  # row 101 differs from row 2 in its level
