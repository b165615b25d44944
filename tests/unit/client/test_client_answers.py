"""Answers have typed attributes and keep what they do not know; errors have a class for each status."""

import pickle
from datetime import UTC, datetime

import hyperplane
import pytest
from hyperplane._shared.dataset_types import Dataset
from hyperplane._shared.errors import STATUS_ERRORS, error_of
from hyperplane._shared.types import JobState, Model

DATASET = {
    "id": "ds_1",
    "n_rows": 3,
    "created_at": "2026-01-02T03:04:05.5Z",
    "classes": [{"label": "a", "count": 2}],
    "expires_at": None,
    "labels": {"k": "v"},
    "new_field": {"inner": [{"deep": 1}]},
}


def test_declared_fields_have_their_types() -> None:
    dataset = Dataset(DATASET)
    assert dataset.created_at == datetime(2026, 1, 2, 3, 4, 5, 500_000, tzinfo=UTC)
    assert [(one.label, one.count) for one in dataset.classes] == [("a", 2)]
    assert (dataset.expires_at, dataset.labels) == (None, {"k": "v"})


def test_unknown_fields_are_kept() -> None:
    dataset = Dataset(DATASET)
    assert dataset.new_field.inner[0].deep == 1
    assert (dataset["new_field"], dict(dataset)) == (DATASET["new_field"], DATASET)
    assert dataset == Dataset(DATASET) == DATASET
    assert "new_field" in dir(dataset)
    assert pickle.loads(pickle.dumps(dataset)) == dataset


def test_a_missing_field_names_those_that_are_there() -> None:
    with pytest.raises(AttributeError, match="no field 'n_row'; its fields are id, n_rows"):
        _ = Dataset(DATASET).n_row
    assert not hasattr(Dataset(DATASET), "sha256")


def test_a_job_shows_the_certificate_and_the_metrics_of_its_result() -> None:
    job = JobState({"result": {"certificate": {"primal": 2.0, "relative_gap": 1e-4}, "metrics": {"test": {"f1": 0.5}}}})
    assert str(job.certificate) == "objective 2, at most 1.0e-04 (relative) above the optimum"
    assert job.metrics is not None
    assert job.metrics.test.f1 == 0.5
    assert JobState({"result": None}).certificate is None
    assert Model({"certificate": {"primal": 1.0, "relative_gap": None}}).certificate is not None


@pytest.mark.parametrize("status", STATUS_ERRORS)
def test_an_error_has_the_class_of_its_status(status: int) -> None:
    problem = {"code": "bad", "detail": "wrong", "errors": [{"line": 3}, {"field": "C"}], "request_id": "req_1"}
    error = error_of(status, problem, {"Retry-After": "2", "X-Request-Id": "req_2"})
    assert type(error) is STATUS_ERRORS[status]
    assert getattr(hyperplane, type(error).__name__) is type(error)
    assert (error.code, error.param, error.request_id, str(error)) == ("bad", "C", "req_1", "wrong")
    assert (error.status, error.retry_after, len(error.errors)) == (status, 2.0, 2)
    assert type(pickle.loads(pickle.dumps(error))) is type(error)


def test_an_answer_that_is_not_a_problem_document_is_an_error_too() -> None:
    error = error_of(502, "<html>Bad Gateway</html>", {"x-request-id": "req_3"})
    assert isinstance(error, hyperplane.ServerError)
    assert (str(error), error.request_id, error.param) == ("HTTP 502: <html>Bad Gateway</html>", "req_3", None)
    assert type(error_of(418, {}, {})) is hyperplane.ApiError
