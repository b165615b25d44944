"""A model reads the numbers and dates of a request as its training file writes them."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from app.datasets.formats import ReadOptions, read
from app.errors import Invalid
from app.predictions.model_cache import ServedModel
from app.predictions.service import predict_with
from app.preprocess.fit import fit
from app.preprocess.pipeline_document import from_document, to_document
from app.preprocess.spec import Preprocess
from app.tabular.cell_format import PLAIN, STYLES, CellFormat, read_number
from app.tabular.frame import Column, Frame
from app.web.media_types import CSV, JSON
from tests.support.builders import served_model

DAY = 86_400.0


def german_model(folder: Path) -> ServedModel:
    """A model of an amount such as 1.234,5 and of a day such as 31.01.1970, whose score is amount + days."""
    columns = [
        Column("amount", "numeric", None, CellFormat(",", ".", "EUR")),
        Column("day", "date", None, CellFormat(date_order="dmy")),
    ]
    frame = Frame(np.array([[1.0, 0.0], [2.0, DAY], [3.0, 2 * DAY]]), columns)
    spec = Preprocess.model_validate({"scale": "none", "columns": {"day": {"dates": ["days"]}}})
    document, arrays = to_document(fit(spec, frame).pipeline)
    return served_model(folder, np.ones(2), preprocess=document, arrays=arrays)


def score(model: ServedModel, body: str, content_type: str) -> list[float]:
    answer: Any = predict_with(model, body.encode(), content_type, None)
    return [one["score"] for one in msgspec.json.decode(answer[0])["predictions"]]


def test_a_csv_body_and_json_strings_are_read_as_the_training_file(tmp_path: Path) -> None:
    model = german_model(tmp_path)
    bias = score(model, '{"instances": [{"amount": 0, "day": "1970-01-01"}]}', JSON)[0]
    expected = [1234.5 + 30 + bias, -7 + bias]
    rows = '"1.234,5",31.01.1970\n"-7 €",01.01.1970\n'
    assert score(model, f"amount,day\n{rows}", CSV) == pytest.approx(expected)
    named = '{"instances": [{"amount": "1.234,5", "day": "31.01.1970"}, {"amount": "-7 €", "day": "01.01.1970"}]}'
    assert score(model, named, JSON) == pytest.approx(expected)
    numbers = '{"instances": [{"amount": 1234.5, "day": "1970-01-31"}, {"amount": -7, "day": "1970-01-01"}]}'
    assert score(model, numbers, JSON) == pytest.approx(expected)


@pytest.mark.parametrize("cell", ["1.5", "1,234.5", "twelve"])
def test_another_format_is_refused_with_an_example(tmp_path: Path, cell: str) -> None:
    with pytest.raises(Invalid, match=r"amount.*such as '1\.234,5'"):
        score(german_model(tmp_path), f'{{"instances": [{{"amount": "{cell}", "day": "1970-01-01"}}]}}', JSON)


def test_formats_are_stored_only_where_they_are_not_plain() -> None:
    frame = Frame(np.array([[1.0, 2.0], [2.0, 1.0]]), [Column("a"), Column("b", format=CellFormat(","))])
    document, arrays = to_document(fit(Preprocess(), frame).pipeline)
    assert document["formats"] == {"1": {"decimal": ","}}
    assert from_document(document, arrays).formats == {1: CellFormat(",")}
    plain, _ = to_document(fit(Preprocess(), Frame(frame.X, [Column("a"), Column("b")])).pipeline)
    assert "formats" not in plain


def test_one_cell_and_a_column_are_read_alike(tmp_path: Path) -> None:
    """Predict reads single cells in Python, uploads read columns with Arrow."""
    cells = ["1", "-2,5", "1.234", "1,234", "12.345,6", "1,234.5", "1 234,5", "1'234.5", "$5", "(7)", "5 %", "EUR 3"]
    cells += ["- 4", "+4", "--4", "1..2", ",5", ".5", "5,", "1.23,4", "1e3", "1e400", "€", "-", "\u22128", "1 2", "0x1"]
    for decimal, thousands in STYLES:
        path = tmp_path / "data.csv"
        rows = "".join(f'"{cell}",{k % 2}.5,{k % 2}\n' for k, cell in enumerate(cells))
        path.write_text(f"x,other,label\n{rows}")
        named = {"": "none", " ": "space", "'": "apostrophe"}.get(thousands, thousands)
        options: Any = {"decimal": decimal, "thousands": named, "columns": (("x", "numeric"),)}
        table = read(path, "csv", ReadOptions(**options))
        used = CellFormat.of(table.columns[0].format)
        found = table.arrays["X"][:, 0].tolist()
        expected = [read_number(cell, used) for cell in cells]
        finite = [None if one is None or not np.isfinite(one) else one for one in expected]
        assert [None if np.isnan(one) else one for one in found] == finite, used
    assert read_number("1" * 100, PLAIN) is None
