"""A model file gives back exactly the model that was written, or says that it is damaged. Nothing in between."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.errors import CorruptModel
from app.models import file
from app.models.file import ALIGNMENT, PREFIX, ModelFile
from tests.support.builders import SOAK, model_bytes, model_header

COEF = [1.5, -0.0, 5e-324]
SMALL = model_bytes(COEF, intercept=-2.25, feature_names=["a", "b", "ü"], classes=["no", 1])
HEADER_BYTES = PREFIX.unpack_from(SMALL)[1]
ARRAYS_START = -(-(PREFIX.size + HEADER_BYTES) // ALIGNMENT) * ALIGNMENT


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("model") / "model"


def read(path: Path, content: bytes) -> ModelFile:
    path.write_bytes(content)
    return file.read(path)


def is_the_small_one(stored: ModelFile) -> bool:
    header = stored.header.model_dump(exclude={"arrays"})
    expected = model_header(3, feature_names=["a", "b", "ü"], classes=["no", 1]).model_dump(exclude={"arrays"})
    return header == expected and stored.coef.tobytes() == np.array(COEF).tobytes() and stored.intercept == -2.25


def sealed(header: bytes, arrays: bytes) -> bytes:
    """A file whose checksum is right, whatever its header says: what a forger would write."""
    start = -(-(PREFIX.size + len(header)) // ALIGNMENT) * ALIGNMENT
    body = header.ljust(start - PREFIX.size, b"\0") + arrays
    return PREFIX.pack(file.MAGIC, len(header), hashlib.sha256(body).digest()) + body


def forged(changes: dict[str, Any], arrays: bytes = SMALL[ARRAYS_START:]) -> bytes:
    described = json.loads(SMALL[PREFIX.size : PREFIX.size + HEADER_BYTES])
    return sealed(json.dumps({**described, **changes}).encode(), arrays)


def test_a_model_comes_back_bit_for_bit(path: Path) -> None:
    stored = read(path, SMALL)
    assert is_the_small_one(stored)
    assert stored.bytes == len(SMALL)
    assert math.copysign(1, stored.coef[1]) == -1, "the sign of a zero was lost"


def test_the_same_model_is_the_same_bytes() -> None:
    again = model_bytes(COEF, intercept=-2.25, feature_names=["a", "b", "ü"], classes=["no", 1])
    assert again == SMALL


def test_arrays_are_aligned_views_of_the_map(path: Path) -> None:
    stored = read(path, SMALL)
    assert not stored.coef.flags.writeable
    assert not stored.coef.flags.owndata
    assert stored.coef.ctypes.data % ALIGNMENT == 0


@settings(max_examples=50 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(
    coef=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=40),
    intercept=st.floats(allow_nan=False, allow_infinity=False),
    classes=st.lists(st.text() | st.integers(-(2**60), 2**60) | st.floats(-1e9, 1e9), min_size=2, max_size=2),
)
def test_any_model_comes_back(path: Path, coef: list[float], intercept: float, classes: list[Any]) -> None:
    stored = read(path, model_bytes(coef, intercept, classes=classes))
    assert stored.coef.tobytes() == np.array(coef).tobytes()
    assert np.float64(stored.intercept).tobytes() == np.float64(intercept).tobytes()
    assert stored.header.classes == classes


OTHER_TASKS = {
    "multiclass": model_bytes(
        [[1.5, -2.0], [0.0, 3.0], [7.0, 5e-324]], [0.5, -1.0, 2.0], task="multiclass", classes=[1, 2, 3]
    ),
    "ordinal": model_bytes([1.5, 2.0], 0.0, [-1.0, 0.5, 0.5], task="ordinal", classes=[1, 2, 2.5, 7]),
    "order": model_bytes([1.5, 2.0], 0.0, task="ordinal", classes=[]),
    "regression": model_bytes([1.5, 2.0], -3.0, task="regression", classes=[]),
}


def test_the_arrays_of_every_task_come_back(path: Path) -> None:
    stored = read(path, OTHER_TASKS["multiclass"])
    assert stored.coef.tolist() == [[1.5, -2.0], [0.0, 3.0], [7.0, 5e-324]]
    assert np.asarray(stored.intercept).tolist() == [0.5, -1.0, 2.0]
    stored = read(path, OTHER_TASKS["ordinal"])
    assert stored.thresholds is not None
    assert (stored.thresholds.tolist(), stored.header.classes) == ([-1.0, 0.5, 0.5], [1, 2, 2.5, 7])
    stored = read(path, OTHER_TASKS["order"])
    assert (stored.thresholds, stored.coef.tolist()) == (None, [1.5, 2.0])
    stored = read(path, OTHER_TASKS["regression"])
    assert (stored.coef.tolist(), stored.intercept) == ([1.5, 2.0], -3.0)


def test_a_file_of_the_first_release_is_read(path: Path) -> None:
    """Its header knew no strategy."""
    described = json.loads(SMALL[PREFIX.size : PREFIX.size + HEADER_BYTES])
    del described["strategy"]
    stored = read(path, sealed(json.dumps(described).encode(), SMALL[ARRAYS_START:]))
    assert is_the_small_one(stored)
    assert stored.header.strategy is None


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        ("multiclass", {"classes": [1, 2]}, "wrong shape"),
        ("multiclass", {"classes": [1]}, "header has .* invalid field"),
        ("multiclass", {"n_features": 2**62}, "wrong shape"),
        ("ordinal", {"classes": [1, 2, 3]}, "wrong shape"),
        ("ordinal", {"classes": ["a", "b", "c", "d"]}, "header has .* invalid field"),
        ("ordinal", {"classes": [1]}, "header has .* invalid field"),
        ("regression", {"classes": [1, 2]}, "header has .* invalid field"),
        ("regression", {"task": "ordinal", "classes": [1, 2]}, "thresholds is missing"),
        ("regression", {"task": "multiclass", "classes": [1, 2]}, "wrong shape"),
    ],
)
def test_classes_and_arrays_must_fit_the_task(path: Path, task: str, changes: dict[str, Any], message: str) -> None:
    content = OTHER_TASKS[task]
    length = PREFIX.unpack_from(content)[1]
    described = {**json.loads(content[PREFIX.size : PREFIX.size + length]), **changes}
    start = -(-(PREFIX.size + length) // ALIGNMENT) * ALIGNMENT
    with pytest.raises(CorruptModel, match=message):
        read(path, sealed(json.dumps(described).encode(), content[start:]))


def test_thresholds_out_of_order_are_refused(path: Path) -> None:
    with pytest.raises(CorruptModel, match="not in order"):
        read(path, model_bytes([1.0], 0.0, [1.0, 0.0], task="ordinal", classes=[1, 2, 3]))


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_card_that_is_not_json_is_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        model_bytes(COEF, card={"primal": number})


def test_every_truncation_is_found(path: Path) -> None:
    for length in range(len(SMALL)):
        with pytest.raises(CorruptModel):
            read(path, SMALL[:length])


def test_every_flipped_bit_is_found(path: Path) -> None:
    for position in range(len(SMALL)):
        content = bytearray(SMALL)
        content[position] ^= 1 << position % 8
        with pytest.raises(CorruptModel):
            read(path, bytes(content))


@settings(max_examples=200 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(
    start=st.integers(0, len(SMALL)),
    removed=st.integers(0, 80),
    inserted=st.binary(max_size=80),
)
@example(start=len(SMALL), removed=0, inserted=b"\0" * 64)
def test_replaced_bytes_give_an_equal_model_or_a_clear_error(
    path: Path, start: int, removed: int, inserted: bytes
) -> None:
    content = SMALL[:start] + inserted + SMALL[start + removed :]
    try:
        stored = read(path, content)
    except CorruptModel:
        assert content != SMALL
    else:
        assert is_the_small_one(stored)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=200 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(
    changes=st.dictionaries(
        st.sampled_from(["n_features", "classes", "arrays", "task", "card", "version", "feature_names", "x"]),
        JSON_VALUES,
        min_size=1,
        max_size=3,
    ),
    arrays=st.binary(max_size=128) | st.just(SMALL[ARRAYS_START:]),
)
def test_a_lying_header_under_a_right_checksum_is_refused_or_harmless(
    path: Path, changes: dict[str, Any], arrays: bytes
) -> None:
    try:
        stored = read(path, forged(changes, arrays))
    except CorruptModel:
        return
    assert stored.header.task != "multiclass"
    assert stored.coef.shape == (stored.header.n_features,)
    assert np.isfinite(stored.coef).all()
    assert math.isfinite(stored.intercept)


def entry(shape: list[int], offset: int = 0) -> dict[str, Any]:
    return {"dtype": "<f8", "shape": shape, "offset": offset}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"n_features": -1, "arrays": {"coef": entry([-1]), "intercept": entry([1], 64)}},
            "header has .* invalid field",
        ),
        ({"n_features": 0, "arrays": {"coef": entry([0]), "intercept": entry([1], 64)}}, "header has .* invalid field"),
        ({"n_features": 2**70, "arrays": {"coef": entry([2**70]), "intercept": entry([1], 64)}}, "exceeds the file"),
        ({"n_features": 17, "arrays": {"coef": entry([17]), "intercept": entry([1], 64)}}, "exceeds the file"),
        ({"arrays": {"coef": entry([3], -8), "intercept": entry([1], 64)}}, "exceeds the file"),
        ({"arrays": {"coef": entry([3], 2**80), "intercept": entry([1], 64)}}, "exceeds the file"),
        ({"arrays": {"coef": entry([1, 3]), "intercept": entry([1], 64)}}, "wrong shape"),
        ({"arrays": {"coef": entry([3])}}, "intercept is missing"),
        (
            {"arrays": {"coef": {**entry([3]), "dtype": "|O"}, "intercept": entry([1], 64)}},
            "header has .* invalid field",
        ),
        ({"version": 2}, "header has .* invalid field"),
        ({"task": "regression"}, "header has .* invalid field"),
        ({"surprise": 1}, "header has .* invalid field"),
    ],
)
def test_what_a_forged_header_says_is_checked(path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CorruptModel, match=message):
        read(path, forged(changes))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 64])
def test_a_weight_that_is_not_finite_is_refused(path: Path, number: float, place: int) -> None:
    arrays = bytearray(SMALL[ARRAYS_START:])
    arrays[place : place + 8] = np.float64(number).tobytes()
    with pytest.raises(CorruptModel, match="not finite"):
        read(path, forged({}, bytes(arrays)))


@pytest.mark.parametrize("header", [b"", b"null", b"[]", b"\xff", b"{", b"[" * 10_000, b'{"a":' * 10_000])
def test_a_header_that_is_no_header_is_refused(path: Path, header: bytes) -> None:
    with pytest.raises(CorruptModel):
        read(path, sealed(header, SMALL[ARRAYS_START:]))
