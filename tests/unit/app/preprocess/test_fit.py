"""What each kind of column becomes, what is refused and with which words, and what a damaged file does."""

from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pydantic import ValidationError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from app.errors import CorruptModel
from app.preprocess.column_figures import SINGLE_FROM_BYTES
from app.preprocess.fit import Fitted, fit, scale_warning, solver_rows, transform
from app.preprocess.measure_columns import measure
from app.preprocess.pipeline_document import from_document, to_document
from app.preprocess.preprocess_error import PreprocessError
from app.preprocess.spec import Preprocess
from app.tabular.frame import Frame, let_go
from tests.support.frames import Table, frame_of

NAN = float("nan")
PEOPLE: Table = {
    "age": ("numeric", [39.0, 50.0, None, 53.0, 28.0]),
    "work": ("categorical", ["Private", "Gov", "Private", None, "Private"]),
    "member": ("boolean", [1.0, 0.0, 1.0, 1.0, None]),
    "joined": ("date", [0.0, 86400.0 * 31 + 3600 * 5, 1e9, None, 1.7e9]),
    "about": ("text", ["likes tea", "likes coffee and tea", "", None, "coffee"]),
}


def fitted(table: Table, **asked: Any) -> Fitted:
    return fit(Preprocess.model_validate(asked), frame_of(table))


def names(one: Fitted) -> list[str]:
    return [one.pipeline.feature(number).name for number in range(one.pipeline.n_features)]


def row(one: Fitted, **values: Any) -> dict[str, float]:
    """The features of one raw row that are not zero."""
    features, _ = one.pipeline.apply({name: [value] for name, value in values.items()}, 1)
    dense = np.asarray(features.toarray() if sp.issparse(features) else features)[0]
    return {name: value for name, value in zip(names(one), dense.tolist(), strict=True) if value}


def test_a_row_is_what_one_gets_by_hand() -> None:
    one = fitted(PEOPLE, missing="indicator")
    given = {"age": 41, "work": "Gov", "member": True, "joined": "2001-09-09T01:46:40Z", "about": "Tea and more TEA"}
    by_hand = {"age": 41.0, "member": 1.0, "joined": 1e9 / 86400, "joined=Sunday": 1.0, "joined=September": 1.0}
    by_hand |= {"joined=01h": 1.0, "work=Gov": 1.0}
    tfidf = TfidfVectorizer(sublinear_tf=True).fit(["likes tea", "likes coffee and tea", "", "", "coffee"])
    words = dict(zip(tfidf.get_feature_names_out(), tfidf.transform([given["about"]]).toarray()[0], strict=True))
    by_hand |= {f"about:{word}": value for word, value in words.items() if value}
    assert row(one, **given) == pytest.approx(by_hand, rel=1e-12)
    assert row(one)["age"] == 42.5
    assert {"age=(missing)", "member=(missing)", "work=(missing)", "joined=(missing)", "about=(missing)"} <= set(
        row(one)
    )


@pytest.mark.parametrize(
    ("scale", "peer"), [("standard", StandardScaler()), ("maxabs", MaxAbsScaler()), ("minmax", MinMaxScaler())]
)
@pytest.mark.parametrize("sparse", [False, True])
def test_scales_are_those_of_scikit_learn(scale: str, peer: Any, sparse: bool) -> None:
    random = np.random.default_rng(0)
    X = random.normal(50, 20, (40, 3)) * (random.random((40, 3)) < 0.5)
    X[:, 2] = 7.0 if scale == "standard" else X[:, 2]
    rows: Any = sp.csr_array(X) if sparse else X
    learnt = fit(Preprocess(scale=scale), Frame(rows))
    seen = solver_rows(learnt.pipeline, Frame(rows))
    if sparse:
        assert sp.issparse(seen)
        divisor = {"standard": X.std(axis=0), "maxabs": np.abs(X).max(axis=0), "minmax": np.ptp(X, axis=0)}[scale]
        np.testing.assert_allclose(seen.toarray(), X / np.where(divisor == 0, 1, divisor), rtol=1e-12)
        codes = {warning["code"] for warning in learnt.warnings}
        assert ("not_centred" in codes) is (scale != "maxabs")
    else:
        np.testing.assert_allclose(seen, peer.fit_transform(X), rtol=1e-12, atol=1e-12)
    assert transform(learnt.pipeline, Frame(rows)) is rows  # raw rows are not copied
    assert learnt.pipeline.is_plain


def test_auto_says_what_it_chose_and_why() -> None:
    wide = Frame(np.array([[1.0, 1000.0], [2.0, 4000.0]]))
    even = Frame(np.array([[1.0, -1.0], [2.0, 4.0]]))
    for frame, scale in ((wide, "standard"), (even, "none"), (Frame(sp.csr_array(wide.X)), "maxabs")):
        _, report, warnings = fit(Preprocess(), frame)
        assert report["settings"]["scale"] == scale
        assert warnings[0]["code"] == "scale_chosen"
        assert f"auto is {scale}: " in warnings[0]["detail"]
    assert '"preprocess": {}' in scale_warning(wide)[0]["detail"]
    assert scale_warning(even) == []


def test_huge_and_tiny_numbers_stay_finite() -> None:
    X = np.array([[1e308, 1e-300, 5.0], [-1e308, 2e-300, 5.0], [1e308, 0.0, 5.0]])
    for scale in ("standard", "maxabs"):
        seen = solver_rows(fit(Preprocess(scale=scale), Frame(X)).pipeline, Frame(X))
        assert np.isfinite(seen).all()
        assert np.abs(seen[:, 0]).max() < 2


def test_rare_levels_are_pooled_and_unseen_ones_join_them() -> None:
    table: Table = {"city": ("categorical", ["Oslo"] * 3 + ["Rome"] * 2 + ["Bonn", "Kyiv"])}
    pooled = fitted(table, min_count=2)
    assert names(pooled) == ["city=Oslo", "city=Rome", "city=(other)"]
    assert row(pooled, city="Bonn") == row(pooled, city="Lima") == {"city=(other)": 1.0}
    plain = fitted(table)
    assert names(plain) == ["city=Bonn", "city=Kyiv", "city=Oslo", "city=Rome"]
    assert row(plain, city="Lima") == row(plain, city=None) == {}
    strict = fitted(table, unknown="error")
    with pytest.raises(PreprocessError, match="row 0, column 'city': the category did not occur in training") as caught:
        row(strict, city="Lima")
    assert (caught.value.code, caught.value.row, caught.value.column) == ("unknown_level", 0, "city")


def test_kinds_can_be_set() -> None:
    table: Table = {
        "zip": ("numeric", [12345.0, 99.5, 12345.0]),
        "flag": ("boolean", [1.0, 0.0, None]),
        "word": ("categorical", ["two words", "one", None]),
        "note": ("text", ["a b", "c d", "a b"]),
        "day": ("date", [0.0, 86400.0, None]),
        "id": ("numeric", [1.0, 2.0, 3.0]),
    }
    kinds = {"zip": "categorical", "flag": "numeric", "word": "text", "note": "categorical", "day": "numeric"}
    asked = {name: {"kind": kind} for name, kind in kinds.items()} | {"id": {"ignore": True}}
    one = fitted(table, columns=asked, scale="none")
    assert names(one) == [
        *("zip=12345", "zip=99.5", "flag", "word:one", "word:two", "word:words", "note=a b", "note=c d", "day"),
    ]
    for spelled in (12345, 12345.0, "12345", "12345.0"):
        assert row(one, zip=spelled, flag=False, day=date(1970, 1, 3)) == {"zip=12345": 1.0, "day": 2.0}
    assert one.report["ignored"] == ["id"]
    _, warnings = one.pipeline.apply({name: [None] for name in table} | {"x": [1]}, 1)
    assert warnings == [{"code": "unknown_columns", "detail": "columns that the model does not have were ignored: 'x'"}]
    for name, kind in (("word", "numeric"), ("zip", "date"), ("note", "boolean")):
        with pytest.raises(PreprocessError, match=f"column '{name}' is .* and cannot be used as {kind}"):
            fitted(table, columns={name: {"kind": kind}})
    with pytest.raises(PreprocessError, match="no feature column 'agee'"):
        fitted(table, columns={"agee": {"ignore": True}})


def test_values_as_arrays_of_numpy_and_arrow() -> None:
    one = fitted(PEOPLE).pipeline
    plain = {
        "age": [30, None],
        "work": ["Gov", None],
        "member": [True, None],
        "joined": [datetime(2020, 2, 29, 13), None],
        "about": ["tea", None],
    }
    expected = one.apply(plain, 2)[0]
    arrow = {name: pa.array(values) for name, values in plain.items()}
    numpy = {**plain, "age": np.array([30.0, NAN]), "member": np.array([1.0, NAN])}
    numpy |= {"joined": np.array(["2020-02-29T13:00", "NaT"], dtype="datetime64[ms]")}
    text = {"age": ["30", "?"], "work": ["Gov", ""], "member": ["Yes", "NA"], "joined": ["2020-02-29 13:00", ""]}
    for given in (arrow, numpy, {**text, "about": ["tea", ""]}):
        np.testing.assert_array_equal(_dense(one.apply(given, 2)[0]), _dense(expected))


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("age", "old", "a finite number"),
        ("age", 1e400, "a finite number"),
        ("age", 10**400, "a finite number"),
        ("age", "1_000", "a finite number"),
        ("age", [1], "a finite number"),
        ("member", 2, "true or false"),
        ("joined", "yesterday", "a date such as"),
        ("joined", 5, "a date such as"),
        ("work", {"a": 1}, "text"),
        ("about", float("inf"), "text"),
    ],
)
def test_a_value_that_cannot_be_is_named_by_row_and_column(column: str, value: Any, expected: str) -> None:
    one = fitted(PEOPLE)
    with pytest.raises(PreprocessError, match=f"row 1, column '{column}': must be {expected}") as caught:
        one.pipeline.apply({column: [None, value]}, 2)
    assert (caught.value.code, caught.value.column, caught.value.row) == ("bad_value", column, 1)


@pytest.mark.parametrize("column", list(PEOPLE))
def test_missing_values_can_be_refused(column: str) -> None:
    with pytest.raises(
        PreprocessError, match=f"column '{column}' has 1 missing values .* first in training row"
    ) as caught:
        fitted(PEOPLE, columns={column: {"missing": "error"}})
    assert caught.value.code == "missing_values"
    whole = {
        name: (kind, [value if value is not None else values[0] for value in values])
        for name, (kind, values) in PEOPLE.items()
    }
    one = fitted(whole, missing="error")
    given = {name: [one] for name, one in zip(PEOPLE, (1, "Gov", True, "2020-01-01", "tea"), strict=True)}
    one.pipeline.apply(given, 1)
    with pytest.raises(PreprocessError, match=f"row 0, column '{column}': a value is missing"):
        one.pipeline.apply({**given, column: [None]}, 1)
    with pytest.raises(PreprocessError, match=f"column '{column}'"):
        one.pipeline.apply({name: values for name, values in given.items() if name != column}, 1)


def test_other_rows_are_read_by_name_and_their_kinds_may_differ() -> None:
    one = fitted({"zip": ("categorical", ["7", "x"]), "age": ("numeric", [1.0, 3.0])}, scale="none")
    other: Table = {"age": ("boolean", [1.0, 0.0]), "extra": ("numeric", [1.0, 1.0]), "zip": ("numeric", [7.0, 8.0])}
    np.testing.assert_array_equal(_dense(transform(one.pipeline, frame_of(other))), [[1, 0, 1], [0, 0, 0]])
    with pytest.raises(PreprocessError, match="the rows have no column 'age'"):
        transform(one.pipeline, frame_of({"zip": other["zip"]}))
    with pytest.raises(PreprocessError, match="column 'age' is categorical here and numeric in the model"):
        transform(one.pipeline, frame_of({**other, "age": ("categorical", ["a", "b"])}))
    absent: Table = {"age": ("numeric", [None, None]), "zip": ("numeric", [None, None])}
    np.testing.assert_array_equal(_dense(transform(one.pipeline, frame_of(absent))), [[0, 0, 2], [0, 0, 2]])


@pytest.mark.parametrize(
    "asked",
    [
        {"scale": "log"},
        {"text": {"ngrams": [2, 1]}},
        {"text": {"ngrams": [0, 1]}},
        {"text": {"min_df": -1}},
        {"text": {"min_df": 1.5}},
        {"text": {"hash": 1}},
        {"text": {"hash": True}},
        {"text": {"token_pattern": "(a+)+"}},
        {"columns": {"a": {"kind": "picture"}}},
        {"columns": {"a": {"colour": 1}}},
        {"min_count": 0},
        {"dates": []},
        {"unknown_field": 1},
    ],
)
def test_settings_that_cannot_be(asked: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Preprocess.model_validate(asked)


def test_a_damaged_document_is_refused() -> None:
    document, arrays = to_document(fitted(PEOPLE, missing="indicator").pipeline)
    assert from_document(document, arrays).n_features
    for name, array in arrays.items():
        rest = {other: value for other, value in arrays.items() if other != name}
        for damaged in ({**rest, name: array[:-1]}, {**rest, name: array.reshape(1, -1)}):
            with pytest.raises(CorruptModel):
                from_document(document, damaged)
    first = document["encoders"][0]
    for change in (
        {"version": 2},
        {"n_columns": 4},
        {"encoders": [{**first, "type": "pickle"}, *document["encoders"][1:]]},
        {"encoders": [{**first, "column": 0}, *document["encoders"][1:]]},
        {"ignored": [0]},
        {"sparse": None},
    ):
        with pytest.raises(CorruptModel):
            from_document({**document, **change}, arrays)
    twice = next(name for name in arrays if name.endswith("levels.bytes"))
    with pytest.raises(CorruptModel):
        from_document(document, {**arrays, twice: np.full_like(arrays[twice], 0xFF)})


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if sp.issparse(matrix) else matrix


def test_mapped_rows_that_were_scaled_need_no_memory(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(40_000, 25))
    np.save(tmp_path / "X.npy", values)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    spec = Preprocess(scale="standard")
    np.testing.assert_array_equal(mapped, values)
    assert resident_file_pages(tmp_path / "X.npy") > values.nbytes / 2
    pipeline, _, _ = fit(spec, Frame(mapped))
    assert resident_file_pages(tmp_path / "X.npy") < 100_000, "measured"
    np.testing.assert_array_equal(mapped, values)
    scaled = solver_rows(pipeline, Frame(mapped))
    np.testing.assert_array_equal(scaled, (values - pipeline.numbers.shift) / pipeline.numbers.scale)
    assert resident_file_pages(tmp_path / "X.npy") < 100_000, "scaled"
    np.testing.assert_array_equal(mapped, values)
    let_go(values[1:3])  # nothing to let go of


def test_many_scaled_rows_are_kept_in_single_precision_where_that_does_no_harm() -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(3.0, 2.0, size=(SINGLE_FROM_BYTES // 8 // 64, 64))
    spec = Preprocess(scale="standard")
    pipeline = fit(spec, Frame(X), 1e-3).pipeline
    seen = solver_rows(pipeline, Frame(X))
    exact = (X - pipeline.numbers.shift) / pipeline.numbers.scale
    assert seen.dtype == np.float32
    np.testing.assert_array_equal(seen, exact.astype(np.float32))  # rounded once
    stored, arrays = to_document(pipeline)
    assert solver_rows(from_document(stored, arrays), Frame(X[:100])).dtype == np.float32, "it is part of the model"
    del stored["single"]
    assert not from_document(stored, arrays).single, "a model of before"

    def kept(X: Any, tol: float = 1e-3, **asked: Any) -> Any:
        return solver_rows(fit(Preprocess(**asked), Frame(X), tol).pipeline, Frame(X)).dtype

    assert kept(X, tol=1e-6, scale="standard") == np.float64, "the rounding might show"
    assert kept(X[1:], scale="standard") == np.float64, "it is small"
    X[:, 7] += 1e6
    assert kept(X, scale="standard") == np.float32, "what is centred is near zero"
    assert kept(X, scale="maxabs") == np.float64, "it would differ in its last digits only"


def resident_file_pages(path: Path) -> int:
    """Bytes of a mapped file that this process holds in memory."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.endswith(str(path)):
            return next(int(found.split()[1]) << 10 for found in lines if found.startswith("Rss:"))
    raise AssertionError(f"{path} is not mapped")


def test_columns_too_large_to_be_added_up_have_a_mean_and_a_deviation() -> None:
    values = np.array([[1e308, 1.0, np.nan], [1.5e308, 2.0, -1e308], [1.7e308, 6.0, -1.2e308], [1e307, 3.0, np.nan]])
    found = measure(values, np.arange(3))
    units = np.array([2.0**1000, 1.0, 2.0**1000])
    np.testing.assert_allclose(found.mean / units, np.nanmean(values / units, axis=0), rtol=1e-15)
    np.testing.assert_allclose(found.std / units, np.nanstd(values / units, axis=0), rtol=1e-14)
    assert found.missing.tolist() == [0, 0, 2]
    assert found.first_missing.tolist() == [-1, -1, 0]
    np.testing.assert_array_equal(found.low, np.nanmin(values, axis=0))
    np.testing.assert_array_equal(found.high, np.nanmax(values, axis=0))
