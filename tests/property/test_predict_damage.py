"""Bodies of predict that were damaged on the way: refused with a reason or answered, and nothing else."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import AppError
from app.predictions.model_cache import ServedModel
from app.predictions.response_formats import OFFERED
from app.predictions.service import predict_with
from app.preprocess.fit import fit
from app.preprocess.pipeline_document import to_document
from app.preprocess.spec import Preprocess
from app.tabular.frame import Column, Frame, Strings
from tests.support.builders import SOAK, served_model
from tests.support.prediction_bodies import BODIES, NAMES

SPLICES = [
    *(b"\x00", b"\xff", b"\n", b'"', b",", b"[", b"{", b"}", b"]", b":", b"-", b"nan", b"1e999", b"null", b"\r"),
    *(b"\xff" * 8, b"\x00" * 8, b"9" * 400, b"[" * 2000, b'{"instances":', b"\xc3", "\u0661".encode(), b"0x1p3"),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[ServedModel]:
    folders: list[Path] = [tmp_path_factory.mktemp("model") for _ in range(4)]
    weights = [0.5, -2.0, 1e-3, 7.0]
    return [
        served_model(folders[0], weights, -0.75, feature_names=NAMES),
        served_model(folders[1], weights, -0.75),
        served_model(
            folders[2], [weights, weights[::-1], [0.0] * 4], [0.0, 1.0, 2.0], task="multiclass", classes=["a", 2, 2.5]
        ),
        prepared(folders[3]),
    ]


def prepared(folder: Path) -> ServedModel:
    """Numbers, some of them missing in training, a category and a text."""
    X = np.array([[1.0, 0.0, 5.0, 3.0], [np.nan, 1.0, 7.0, 2.0], [3.0, 0.0, 0.0, 9.0]])
    kinds: list[Any] = ["numeric", "categorical", "text", "numeric"]
    levels = {1: Strings.of(["7.0", "b"])}
    columns = [Column(name, kind, levels.get(j)) for j, (name, kind) in enumerate(zip(NAMES, kinds, strict=True))]
    frame = Frame(X, columns, {2: Strings.of(["alpha", "beta 3.25", ""])})
    pipeline = fit(Preprocess.model_validate({"missing": "indicator", "text": {"min_df": 1}}), frame).pipeline
    document, arrays = to_document(pipeline)
    return served_model(folder, np.ones(pipeline.n_features), 0.5, preprocess=document, arrays=arrays)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, bytes]:
    content_type, body = BODIES[draw(st.sampled_from(sorted(BODIES)))]
    content = bytearray(body)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(content)))
        kind = draw(st.sampled_from(["cut", "flip", "insert", "remove", "repeat"]))
        if kind == "cut":
            del content[place:]
        elif kind == "flip" and place < len(content):
            content[place] ^= draw(st.integers(1, 255))
        elif kind == "insert":
            content[place:place] = draw(st.sampled_from(SPLICES))
        elif kind == "remove":
            del content[place : place + draw(st.integers(1, 40))]
        else:
            content[place:place] = content[place : place + draw(st.integers(1, 60))]
    other = draw(st.sampled_from(sorted({kind for kind, _ in BODIES.values()})))
    return (other if draw(st.integers(0, 9)) == 0 else content_type), bytes(content)


@settings(max_examples=400 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(sent=damaged(), number=st.integers(0, 3), accept=st.sampled_from(OFFERED))
def test_a_damaged_body_is_refused_or_answered(
    models: list[ServedModel], sent: tuple[str, bytes], number: int, accept: str
) -> None:
    content_type, body = sent
    wanted = ",".join(models[number].outputs) if accept.endswith("json") else None
    refusal: AppError | None = None
    try:
        reply = predict_with(models[number], body, content_type, accept, wanted=wanted)
    except AppError as error:
        refusal = error
    if refusal is not None:
        assert 400 <= refusal.status < 500
        assert len(refusal.detail) < 500
    elif accept == "application/json":
        for one in json.loads(reply.content, parse_constant=lambda word: pytest.fail(word))["predictions"]:
            assert all(math.isfinite(value) for value in numbers_in(one))


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers_in(part)]
    if isinstance(value, list):
        return [number for part in value for number in numbers_in(part)]
    return [value] if isinstance(value, int | float) else []
