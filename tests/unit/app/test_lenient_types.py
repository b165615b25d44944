"""What Python takes for the same and JSON does not: 0 and false, 1 and true, a date and a number of seconds."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from app.jobs.types.train_request import TrainRequest
from app.jobs.types.verify_request import VerifyRequest
from app.preprocess.spec import Preprocess
from app.web.validation import CreatedAfter


@pytest.mark.parametrize(
    "said",
    [
        {"text": {"sublinear": 0}},
        {"text": {"idf": "yes"}},
        {"text": {"lowercase": 1}},
        {"text": {"hash": 0}},
        {"text": {"hash": True}},
        {"text": {"min_df": True}},
        {"text": {"max_df": False}},
        {"min_count": True},
        {"columns": {"a": {"ignore": 0}}},
        {"columns": {"a": {"min_count": True}}},
    ],
)
def test_preprocessing_tells_numbers_from_truth_values(said: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Preprocess.model_validate(said)


@pytest.mark.parametrize(
    "said", [{"calibrate": 0}, {"calibrate": 1}, {"split": {"stratify": 1}}, {"split": {"group": 0}}]
)
def test_training_tells_numbers_from_truth_values(said: dict[str, Any]) -> None:
    assert TrainRequest.model_validate({"dataset_id": "ds_1", "calibrate": True, "split": {"stratify": False}})
    with pytest.raises(ValidationError):
        TrainRequest.model_validate({"dataset_id": "ds_1", **said})


def test_verification_tells_numbers_from_truth_values() -> None:
    assert VerifyRequest.model_validate({"type": "verify", "model": "m", "rows": True}).rows
    with pytest.raises(ValidationError):
        VerifyRequest.model_validate({"type": "verify", "model": "m", "rows": 1})


@pytest.mark.parametrize("text", ["0.5", "1700000000", "-1", "1e9"])
def test_a_date_is_not_a_number(text: str) -> None:
    dates = TypeAdapter(CreatedAfter)
    assert dates.validate_python("2030-01-31T12:00:00Z") is not None
    with pytest.raises(ValidationError):
        dates.validate_python(text)
