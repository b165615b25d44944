"""Bounds of scores at the ends of what numbers can be: never wrong, never infinite, the same in every format."""

import csv
import io
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp

from app.errors import Invalid
from app.models.file import Header
from app.predictions.model_cache import ServedModel
from app.predictions.open_inference.service import infer_with
from app.predictions.score_error import Certainty, RowErrors
from app.predictions.service import predict_with
from app.preprocess.fit import fit
from app.preprocess.norms import row_norms
from app.preprocess.spec import Preprocess
from app.storage import BlobStore
from app.tabular.frame import Column, Frame
from app.worker.predict_files import batch_file
from tests.support.builders import served_model

LARGEST = np.finfo(np.float64).max
ROWS = np.array(
    [
        [3.0, 4.0, 0.0],
        [0.0, 0.0, 0.0],
        [3e200, -4e200, 0.0],
        [3e307, 0.0, 4e307],
        [1e154, 1e154, 1e154],
        [3e-200, 4e-200, 0.0],
        [5e-324, 0.0, 0.0],
        [1e-150, 1e150, 1e300],
        [0.0, LARGEST, 0.0],
    ]
)
CARD = {"params": {"bias": "regularized", "bias_scale": 1.0}, "certificate": {"gap": 0.5}}  # sqrt(2 gap) = 1


def exact_norm(row: Any) -> float:
    """By integers: the square root of a fraction, to 60 digits."""
    squares = sum((Fraction(float(value)) ** 2 for value in row), Fraction(0))
    scaled = math.isqrt(squares.numerator * 10**1400 // squares.denominator)
    return float(Fraction(scaled, 10**700))


@pytest.mark.parametrize("as_matrix", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_lengths_are_right_wherever_they_are_numbers(as_matrix: Any) -> None:
    for rows in (ROWS, ROWS[:1], ROWS[2:3], np.zeros((4, 3))):
        expected = [exact_norm(row) for row in rows]
        np.testing.assert_allclose(row_norms(as_matrix(rows)), expected, rtol=4e-16, atol=0.0)
    assert row_norms(as_matrix(np.full((1, 3), LARGEST))).tolist() == [math.inf]


def test_a_row_has_its_length_in_any_company() -> None:
    together = row_norms(ROWS)
    assert [row_norms(row[None])[0] for row in ROWS] == together.tolist()


def test_scaled_rows_of_any_size_have_lengths() -> None:
    frame = Frame(np.array([[0.0, 1.0], [2.0, 3.0]]), [Column("a"), Column("b")])
    for scale in ("standard", "none"):
        pipeline = fit(Preprocess(scale=scale), frame).pipeline
        rows = np.array([[1e200, 0.0], [1.5, 1e300], [1.0, 2.0]])
        shift, divisor = pipeline.solver_units
        expected = [exact_norm(row) for row in (rows - shift) / divisor]
        np.testing.assert_allclose(pipeline.solver_norms(rows), expected, rtol=1e-15)
        np.testing.assert_allclose(pipeline.solver_norms(sp.csr_array(rows)), expected, rtol=1e-15)


def test_bounds_are_finite_where_they_are_numbers_and_nothing_is_certain_beyond() -> None:
    certainty = Certainty.of(Header(task="binary", classes=[0, 1], n_features=1, feature_names=None, card=CARD))
    assert certainty is not None
    lengths = RowErrors(np.array([0.0, 3e200, 1e308]), np.zeros(3))
    np.testing.assert_allclose(certainty.bounds(lengths), [1.0, 3e200, 1e308], rtol=1e-14)
    rows = RowErrors(np.array([3e200, np.inf, 0.0]), np.array([0.0, 0.0, np.inf]))
    assert certainty.is_label_certain(rows, np.array([4e200, LARGEST, LARGEST])).tolist() == [True, False, False]
    exact = Certainty(radius=0.0, beta=1.0)
    assert not exact.is_label_certain(RowErrors(np.array([np.inf]), np.zeros(1)), np.array([1.0])).any()


@pytest.fixture
def model(tmp_path: Path) -> ServedModel:
    return served_model(tmp_path, [1e-300, 0.0, 0.0], 0.0, card=CARD)


HUGE = [[3e200, 4e200, 0.0], [LARGEST] * 3, [3.0, 4.0, 0.0]]


def ask(model: ServedModel, rows: Any, accept: str) -> bytes:
    body = {"instances": rows, "return": ["score_error_bound", "label_certain"]}
    if accept == "application/x-npy":
        body["return"] = ["score_error_bound"]
    return predict_with(model, json.dumps(body).encode(), "application/json", accept).content


def test_what_is_no_number_is_null_in_every_format(model: ServedModel, tmp_path: Path) -> None:
    expected = [5e200, None, math.sqrt(26.0)]
    found = [one["score_error_bound"] for one in json.loads(ask(model, HUGE, "application/json"))["predictions"]]
    assert found == pytest.approx(expected)
    lines = ask(model, HUGE, "application/x-ndjson").splitlines()
    assert [json.loads(line)["score_error_bound"] for line in lines] == found
    table = csv.DictReader(io.StringIO(ask(model, HUGE, "text/csv").decode()))
    assert [cell and float(cell) for cell in (row["score_error_bound"] for row in table)] == [found[0], "", found[2]]
    with pa.ipc.open_stream(ask(model, HUGE, "application/vnd.apache.arrow.stream")) as stream:
        arrow = stream.read_all()
    assert arrow["score_error_bound"].to_pylist() == found
    assert arrow["label_certain"].to_pylist() == [False, False, False]


def test_formats_without_a_null_refuse_it_and_name_the_place(model: ServedModel) -> None:
    with pytest.raises(Invalid, match="without nulls"):
        ask(model, HUGE, "application/x-npy")
    fine = [HUGE[0], HUGE[2]]
    assert np.load(io.BytesIO(ask(model, fine, "application/x-npy"))) == pytest.approx([5e200, math.sqrt(26.0)])

    def infer(rows: list[list[float]]) -> Any:
        tensor = {"name": "X", "datatype": "FP64", "shape": [len(rows), 3], "data": rows}
        request = {"inputs": [tensor], "outputs": [{"name": "score_error_bound"}]}
        return json.loads(infer_with(model, json.dumps(request).encode(), None).content)

    assert infer(fine)["outputs"][0]["data"] == pytest.approx([5e200, math.sqrt(26.0)])
    with pytest.raises(Invalid) as caught:
        infer(HUGE)
    assert (caught.value.code, caught.value.errors[0].field) == ("overflow", "X[1]")


@pytest.mark.parametrize("format", ["csv", "ndjson", "parquet", "arrow"])
def test_files_of_batch_predictions_have_the_same_nulls(model: ServedModel, tmp_path: Path, format: str) -> None:
    bounds = [one["score_error_bound"] for one in json.loads(ask(model, HUGE, "application/json"))["predictions"]]
    blobs = BlobStore(tmp_path)
    with blobs.stage() as staged:
        written = batch_file(format, staged, model.file.header, ["score_error_bound"])
        written.append({"row": np.arange(3), "score_error_bound": bounds})
        written.finish()
        content = blobs.path(staged.commit()).read_bytes()
    if format == "csv":
        found = [cell.split(",")[1] for cell in content.decode().splitlines()[1:]]
        assert [cell and float(cell) for cell in found] == [bounds[0], "", bounds[2]]
    elif format == "ndjson":
        assert [json.loads(line)["score_error_bound"] for line in content.splitlines()] == bounds
    else:
        reader = pa.parquet.read_table if format == "parquet" else lambda source: pa.ipc.open_stream(source).read_all()
        assert reader(io.BytesIO(content))["score_error_bound"].to_pylist() == bounds
