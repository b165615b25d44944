"""Programs generate clients from the document: every schema has one type, and results are what their schemas say."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from app.jobs.job_types import RESULTS, TYPES, Job
from app.jobs.types.evaluate_request import EvaluateRequest
from app.jobs.types.predict_request import PredictRequest
from app.jobs.types.verify_request import VerifyRequest
from app.keys.guard import OPEN_PATHS
from app.main import create_app
from app.models.metrics.schemas import (
    Baseline,
    BinaryMetrics,
    MulticlassMetrics,
    OrdinalMetrics,
    RegressionMetrics,
    TaskMetrics,
)
from app.models.schemas import Lineage, TrainingRun
from app.webhooks.repository import SUMMARY
from app.webhooks.schemas import JobInMessage
from tests.support.builders import migrated_database, temporary_settings
from tests.support.worker_bench import Bench, noisy, three_words, worker_bench

Json = dict[str, Any]
TYPED = {"type", "$ref", "anyOf", "oneOf", "allOf", "const"}
ANY_TYPE = {"Difference.claimed", "Difference.found"}
"""Values that are copied from documents and can have any type."""


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Json:
    settings = temporary_settings(tmp_path_factory.mktemp("data"))
    with migrated_database(settings.resolved_database_url):
        return create_app(settings).openapi()


def parts(schema: Json, place: str) -> Iterator[tuple[str, Json]]:
    """The schema and all schemas in it."""
    yield place, schema
    for name, inner in schema.get("properties", {}).items():
        yield from parts(inner, f"{place}.{name}")
    for name in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(name), dict):
            yield from parts(schema[name], f"{place}/{name}")
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for number, inner in enumerate(schema.get(name, ())):
            yield from parts(inner, f"{place}/{name}[{number}]")


def schemas(document: Json) -> Iterator[tuple[str, Json]]:
    for name, schema in document["components"]["schemas"].items():
        yield from parts(schema, name)
    yield from _in_operations({"paths": document["paths"], "webhooks": document["webhooks"]}, "")


def _in_operations(part: Any, place: str) -> Iterator[tuple[str, Json]]:
    if isinstance(part, dict):
        for name, inner in part.items():
            if name == "schema":
                yield from parts(inner, place)
            elif name not in ("example", "examples"):
                yield from _in_operations(inner, f"{place}/{name}")
    elif isinstance(part, list):
        for number, inner in enumerate(part):
            yield from _in_operations(inner, f"{place}[{number}]")


def test_every_schema_has_a_type(document: Json) -> None:
    found = dict(schemas(document))
    assert len(found) > 1000
    assert {place for place, one in found.items() if not TYPED & set(one)} == ANY_TYPE
    assert [place for place, one in found.items() if isinstance(one.get("type"), list)] == []


def test_every_array_has_items_and_every_object_says_what_it_holds(document: Json) -> None:
    for place, one in schemas(document):
        if one.get("type") == "array":
            assert "items" in one, place
        if one.get("type") == "object":
            assert {"properties", "additionalProperties"} & set(one) or not one.get("required"), place
        assert not {"prefixItems", "patternProperties"} & set(one), f"{place}: generators ignore it"


def test_no_choice_of_types_has_an_object_as_its_default(document: Json) -> None:
    """openapi-python-client leaves out the whole schema."""
    found = [place for place, one in schemas(document) if "anyOf" in one and isinstance(one.get("default"), dict)]
    assert found == []


def test_the_values_of_an_enum_have_the_type_of_the_enum(document: Json) -> None:
    kinds = {"string": str, "integer": int, "number": float, "boolean": bool}
    listed = [(place, one) for place, one in schemas(document) if "enum" in one]
    assert len(listed) > 20
    for place, one in listed:
        assert {type(value) for value in one["enum"]} == {kinds[one["type"]]}, place


def test_every_operation_takes_a_key_or_a_session(document: Json) -> None:
    schemes = document["components"]["securitySchemes"]
    assert (schemes["key"]["type"], schemes["key"]["scheme"]) == ("http", "bearer")
    assert (schemes["session"]["in"], schemes["session"]["name"]) == ("cookie", "hyperplane_session")
    assert document["security"] == [{"key": []}, {"session": []}, {}]
    open_ones = {
        (method, path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation.get("security") == []
    }
    session = {("get", "/v1/session"), ("post", "/v1/session")}
    assert open_ones == {*session, *(("get", path) for path in OPEN_PATHS)}


def test_every_event_that_can_be_subscribed_to_has_a_message(document: Json) -> None:
    (listed,) = (one["enum"] for place, one in schemas(document) if place == "WebhookRequest.events/items")
    assert set(document["webhooks"]) == {name for name in listed if "*" not in name} | {"webhook.test"}
    for item in document["webhooks"].values():
        headers = {one["name"] for one in item["post"]["parameters"]}
        assert headers == {"webhook-id", "webhook-timestamp", "webhook-signature"}
    assert set(JobInMessage.model_fields) == {*SUMMARY, "done", "event_id", "event"}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with worker_bench(tmp_path_factory.mktemp("bench")) as bench:
        yield bench


def labels_of(task: str, signal: Any) -> Any:
    if task == "multiclass":
        return three_words(signal)
    if task == "ordinal":
        return np.digitize(signal, [-1.0, 1.0]).astype(float)
    return signal if task == "regression" else (signal > 0).astype(float)


TASKS = {
    "binary": BinaryMetrics,
    "multiclass": MulticlassMetrics,
    "ordinal": OrdinalMetrics,
    "regression": RegressionMetrics,
}


@pytest.mark.parametrize("task", TASKS)
def test_results_and_metrics_have_the_fields_of_their_schemas(bench: Bench, task: str) -> None:
    """All fields that are written are described, and all fields that are required are written."""
    X, signal = noisy(120)
    dataset_id = bench.store(X, labels_of(task, signal))
    calibrate = task in ("binary", "multiclass")
    job = bench.run(dataset_id, task=task, split={"test": 0.3}, cross_validation=3, calibrate=calibrate)
    card, _ = bench.model(job)
    check_fields(TYPES["train"].result, job["result"])
    check_fields(TrainingRun, card["training"])
    check_fields(Lineage, {"parent": None, "params": {}, **card["lineage"]})
    measured = dict(job["result"]["metrics"])
    check_fields(Baseline, measured.pop("baseline"))
    assert set(measured) == {"train", "test"}
    for figures in measured.values():
        assert type(TypeAdapter(TaskMetrics).validate_python(figures)) is TASKS[task]
        check_fields(TASKS[task], figures)
    of_model = {"model": job["model_id"], "dataset_id": dataset_id}
    evaluated = bench.run_on_model(EvaluateRequest(type="evaluate", **of_model))["result"]
    check_fields(TYPES["evaluate"].result, evaluated)
    check_fields(TASKS[task], evaluated["metrics"])
    check_fields(TYPES["predict"].result, bench.run_on_model(PredictRequest(type="predict", **of_model))["result"])
    verified = bench.run_on_model(VerifyRequest(type="verify", rows=True, **of_model))["result"]
    check_fields(TYPES["verify"].result, verified)


def check_fields(schema: Any, found: Json) -> None:
    read = schema.model_validate(found)
    assert read.model_extra in (None, {}), f"{schema.__name__} does not describe {list(read.model_extra)}"


@pytest.mark.parametrize("name", TYPES)
def test_a_result_fits_the_schema_of_its_own_type_first(name: str) -> None:
    """A generated client takes the first schema that fits."""
    own = TYPES[name].result
    assert required(own)
    for earlier in RESULTS[: RESULTS.index(own)]:
        assert required(earlier) - set(own.model_fields), (name, earlier.__name__)


def required(schema: Any) -> set[str]:
    return {field for field, fact in schema.model_fields.items() if fact.is_required()}


def test_a_stored_result_is_shown_as_it_was_written() -> None:
    """Rows of older versions lack fields of today, and have others."""
    result = {"status": "converged", "an_old_field": {"a": [1, None, "x"]}}
    fields = dict.fromkeys(Job.model_fields)
    counts = {"attempt": 1, "iterations": 1, "passes": 1, "progress": 1.0, "done": True}
    names = {"id": "job_1", "type": "gone", "status": "succeeded", "dataset_id": "ds_1", "model": "m"}
    maps = {"spec": {}, "labels": {}, "lineage": {"dataset_id": "ds_1"}, "created_at": "2026-01-01T00:00:00Z"}
    shown = Job.model_validate({**fields, **counts, **names, **maps, "result": result})
    assert shown.model_dump(mode="json")["result"] == result
