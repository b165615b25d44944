"""Preprocessing against itself and by hand: stored rows, a client's raw rows and a restored model agree to the bit."""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from app.preprocess.fit import fit, solver_rows, transform
from app.preprocess.pipeline import Pipeline
from app.preprocess.pipeline_document import from_document, to_document
from app.preprocess.preprocess_error import PreprocessError
from app.preprocess.spec import Preprocess
from app.tabular.frame import Kind
from tests.support.builders import SOAK
from tests.support.frames import Table, frame_of, raw_columns

Array = np.ndarray[Any, Any]

WORDS = [
    "on",
    "off",
    "Straße",
    "İstanbul",
    "ΣΊΣΥΦΟΣ",
    "naïve",
    "a",
    "x_1",
    "日本語",
    "été",
    "e\u0301te",
    "42",
    "don't",
    "😀",
    "ﬁn",
]
CELLS: dict[Kind, Any] = {
    "numeric": st.floats(-1e6, 1e6, allow_subnormal=False) | st.integers(-3, 3).map(float),
    "boolean": st.sampled_from([0.0, 1.0]),
    "date": st.integers(-(10**9), 4 * 10**9).map(float),
    "categorical": st.sampled_from(["Private", "State gov", "", "été", "7"]),
    "text": st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
}


@st.composite
def tables(draw: Any) -> tuple[Table, Table, Preprocess]:
    """Training rows, other rows of the same columns, and what to do with them."""
    kinds = draw(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=4))
    n, m = draw(st.integers(1, 12)), draw(st.integers(0, 5))
    rows = {}
    for j, kind in enumerate(kinds):
        cells = st.none() | CELLS[kind] if draw(st.booleans()) else CELLS[kind]
        rows[f"c{j}"] = kind, draw(st.lists(cells, min_size=n + m, max_size=n + m))
    asked = {
        "scale": draw(st.sampled_from(["auto", "none", "standard", "maxabs", "minmax"])),
        "missing": draw(st.sampled_from(["mean", "zero", "indicator"])),
        "categorical": draw(st.sampled_from(["onehot", "hash"])),
        "min_count": draw(st.integers(1, 3)),
        "hash_dims": 5,
        "text": {
            "ngrams": draw(st.sampled_from([(1, 1), (1, 2), (2, 3)])),
            "sublinear": draw(st.booleans()),
            "idf": draw(st.booleans()),
            "norm": draw(st.sampled_from(["l2", "none"])),
            "lowercase": draw(st.booleans()),
            "hash": draw(st.sampled_from([False, 7])),
        },
    }
    training = {name: (kind, values[:n]) for name, (kind, values) in rows.items()}
    others = {name: (kind, values[n:]) for name, (kind, values) in rows.items()} if m else training
    return training, others, Preprocess.model_validate(asked)


@settings(max_examples=150 * SOAK, deadline=None)
@given(tables())
def test_stored_rows_raw_rows_and_a_restored_model_agree(case: tuple[Table, Table, Preprocess]) -> None:
    training, others, spec = case
    try:
        pipeline = fit(spec, frame_of(training)).pipeline
    except PreprocessError:  # texts that contain no words leave nothing to learn from
        assert {kind for kind, _ in training.values()} == {"text"}
        return
    stored = dense(transform(pipeline, frame_of(others)))
    assert stored.shape[1] == pipeline.n_features
    assert np.isfinite(stored).all()
    restored = from_document(*to_document(pipeline))
    for one in (pipeline, restored):
        features, warnings = one.apply(raw_columns(others), len(stored))
        np.testing.assert_array_equal(dense(features), stored)
        assert warnings == []
    check_folding(pipeline, frame_of(others))
    names = [pipeline.feature(number).name for number in range(pipeline.n_features)]
    assert names == [restored.feature(number).name for number in range(pipeline.n_features)]
    assert [pipeline.feature(number).column for number in range(pipeline.n_features)] == [
        pipeline.name(column) for column in pipeline.column_of_features.tolist()
    ]


def check_folding(pipeline: Pipeline, frame: Any) -> None:
    """The solver's score of what it saw is the folded weights' score of raw features; |x| is that of what it saw."""
    random = np.random.default_rng(0)
    raw, seen = transform(pipeline, frame), solver_rows(pipeline, frame)
    for shape in ((pipeline.n_features,), (3, pipeline.n_features)):
        coef, intercept = random.standard_normal(shape), random.standard_normal(shape[:-1])
        folded = pipeline.fold(coef, intercept)
        scores = np.asarray(raw @ folded[0].T) + folded[1]
        expected = np.asarray(seen @ coef.T) + intercept
        size = np.abs(dense(raw)) @ np.abs(folded[0]).T + np.abs(expected) + np.abs(folded[1])
        assert (np.abs(scores - expected) <= 1e-12 * size).all()
        np.testing.assert_allclose(pipeline.unfold(*folded)[0], coef, rtol=1e-12)
    norms = [math.hypot(*row) for row in dense(seen).tolist()]  # numpy's squares vanish below 1e-162
    for features in (raw, dense(raw), sp.csr_array(dense(raw))):
        np.testing.assert_allclose(pipeline.solver_norms(features), norms, rtol=1e-10, atol=1e-300)


def dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)
