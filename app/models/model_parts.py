"""The parts of a model before it is written to a file, with strict checks for imported models."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from app.errors import Invalid, invalid_field
from app.models.file import MEANS, Header
from app.names import check_text
from app.tabular.types import Array

MAX_CLASSES = 65_536
"""Maximum classes of an imported model: the limit for datasets. Larger: more memory per import."""
MAX_TEXT = 4096
"""Maximum characters of a label or a feature name of an imported model. Larger: larger files and responses. Set by
hand; no measurement is recorded."""
MAX_LABEL = 2**53
"""Largest numeric label: float64 represents all integers up to it exactly."""
MAX_NUMBER = 1e300
"""Largest number in the card: all databases and JSON readers can represent it."""
EXTRA = ("preprocess.", "calibration.", "sets.", MEANS)


@dataclass(frozen=True)
class Parts:
    """Header and arrays for `file.encode`."""

    header: Header
    arrays: dict[str, Array]

    def __post_init__(self) -> None:
        header, arrays = self.header, self.arrays
        several = header.task == "multiclass"
        count, width = len(header.classes), header.n_features
        _expect_shape("coef", arrays, (count, width) if several else (width,))
        _expect_shape("intercept", arrays, (count,) if several else (1,))
        if header.task == "ordinal" and count:
            _expect_shape("thresholds", arrays, (count - 1,))
            _check_order("thresholds", arrays["thresholds"].tolist(), strictly=False)
            _check_order("classes", header.classes, strictly=True)
        elif "thresholds" in arrays:
            if header.task != "binary":
                detail = "only binary models and ordinal models with classes have thresholds; remove them"
                raise invalid_field("thresholds", "unexpected", detail)
            _expect_shape("thresholds", arrays, (1,))
        if MEANS in arrays:
            _expect_shape(MEANS, arrays, (width,))
        for name, array in arrays.items():
            if name not in ("coef", "intercept", "thresholds") and not name.startswith(EXTRA):
                raise invalid_field(name[:64], "unknown_array", "is not an array of a model")
            if not np.isfinite(array).all():
                raise invalid_field(name[:64], "not_finite", "contains a value that is not finite")


def checked_header(**fields: Any) -> Header:
    """Build the header of an imported model. Checks that databases and JSON can store all of its texts."""
    _check_classes(fields["classes"])
    if fields["n_features"] < 1:
        raise invalid_field("coef", "empty", "the model has no features")
    if (names := fields["feature_names"]) is not None:
        _check_names(names, fields["n_features"])
    if len(fields["strategy"] or "") > 32:
        raise invalid_field("strategy", "too_long", "exceeds the limit of 32 characters")
    try:
        return Header(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "classes"
        raise invalid_field(field[:64], str(first["type"]), first["msg"].removeprefix("Value error, ")) from error


def check_claims(value: Any, depth: int = 12) -> None:
    """Raise ValueError unless databases and JSON can store the value: no NUL, no NaN, not nested too deeply."""
    if depth == 0:
        raise ValueError("is nested too deeply")
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            check_text(key)
            check_claims(inner, depth - 1)
    elif isinstance(value, list):
        for inner in value:
            check_claims(inner, depth - 1)
    elif isinstance(value, int | float) and not abs(value) < MAX_NUMBER:
        raise ValueError("contains a number above 1e300")


def _check_classes(classes: list[Any]) -> None:
    if len(classes) > MAX_CLASSES:
        raise invalid_field("classes", "too_many", f"{len(classes)} classes; the limit is {MAX_CLASSES}")
    for number, label in enumerate(classes):
        field = f"classes[{number}]"
        if isinstance(label, str):
            _check_word(field, label)
        elif not abs(label) <= MAX_LABEL:
            raise invalid_field(field, "out_of_range", "numeric labels must be between -2^53 and 2^53")
    if len(set(classes)) != len(classes):
        raise invalid_field("classes", "duplicate", "a class occurs twice")


def _check_names(names: list[str], width: int) -> None:
    if len(names) != width:
        raise invalid_field("feature_names", "wrong_width", f"has {len(names)} names; the model has {width} features")
    for number, name in enumerate(names):
        _check_word(f"feature_names[{number}]", name)
    if len(set(names)) != width:
        raise invalid_field("feature_names", "duplicate", "a name occurs twice")


def _check_word(field: str, text: str) -> None:
    if len(text) > MAX_TEXT:
        raise invalid_field(field, "too_long", f"exceeds the limit of {MAX_TEXT} characters")
    try:
        check_text(text)
    except ValueError as error:
        raise invalid_field(field, "invalid_text", str(error)) from error


def _expect_shape(name: str, arrays: dict[str, Array], shape: tuple[int, ...]) -> None:
    found = arrays.get(name)
    if found is None or found.shape != shape or found.dtype != np.float64:
        told = "nothing" if found is None else f"{found.dtype} of shape {list(found.shape)}"
        raise invalid_field(name, "wrong_shape", f"must be float64 of shape {list(shape)}; found {told}")


def _check_order(field: str, values: list[Any], *, strictly: bool) -> None:
    steps = np.diff(np.array(values, dtype=np.float64))
    if (steps <= 0).any() if strictly else (steps < 0).any():
        raise Invalid(f"{field}: must be in ascending order", code="not_in_order")
