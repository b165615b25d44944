"""`POST /v1/jobs` of type tune: what is refused, with the field; and what `GET …/path` says of other jobs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import checked_problem, migrated_database
from tests.support.job_api import Api


@pytest.fixture(scope="module")
def api(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder: Path = tmp_path_factory.mktemp("tune")
    with migrated_database(module_database_url):
        api = Api(folder, module_database_url)
        yield api
        api.database.close()


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"C": {"min": 10, "max": 1}}, "C", "min must be smaller"),
        ({"C": 0}, "C.0", "greater than 0"),
        ({"C": [1.0, -1.0]}, "C.1", "greater than 0"),
        ({"C": []}, "C", "at least 1"),
        ({"C": "all"}, "C", "'auto'"),
        ({"metric": "beauty"}, "metric", "use error, accuracy"),
        ({"metric": "mae"}, "metric", "not a metric of task binary"),
        ({"metric": "error", "task": "AAA"}, "task", "must be"),
        ({"cross_validation": 1}, "cross_validation.folds", "2"),
        ({"cross_validation": {"folds": 5, "fold_column": "f"}}, "cross_validation", "leave out folds"),
        ({"cross_validation": {"fold_column": "f"}}, "cross_validation.fold_column", "no such group column"),
        ({"cross_validation": {"group": True}}, "cross_validation.group", "no groups"),
        ({"loss": []}, "loss", "at least 1"),
        ({"loss": ["hinge", "nope"]}, "loss", "must be one of"),
        ({"p": [1.5]}, "p", "only used with loss hinge_p"),
        ({"class_weight": [None, {"7": 2.0}]}, "class_weight", "not a class"),
        ({"certify": {"epsilon": -0.1}}, "certify.epsilon", "greater than or equal to 0"),
        ({"certify": {"epsilon": "2se"}}, "certify.epsilon", "'1se'"),
        ({"rule": "worst"}, "rule", "'best' or '1se'"),
        ({"outer_folds": 1}, "outer_folds", "2"),
        ({"split": {"fold_column": "f"}}, "split.fold_column", "fold_column"),
        ({"loss": ["hinge"] * 21}, "loss", "at most 20"),
        ({"epsilon": [0.1] * 10, "p": [None] * 20, "loss": ["hinge"] * 2}, None, None),
    ],
)
def test_a_wrong_field_is_named(api: Api, fields: dict[str, Any], field: str | None, said: str | None) -> None:
    body = {"dataset_id": api.dataset, "type": "tune", **fields}
    answer = api.http.post("/v1/jobs", json=body)
    if field is None:
        assert answer.status_code == 201, "equal values count once"
        return
    problem = checked_problem(answer, 422)
    errors = {error["field"]: error["detail"] for error in problem["errors"]}
    assert field in errors, problem
    assert said is not None
    assert said in errors[field]


def test_validate_only_estimates_a_search_and_lists_all_errors(api: Api) -> None:
    one = api.ask(type="tune", C=[1.0])
    many = api.ask(type="tune", C={"min": 1e-3, "max": 1e3}, loss=["hinge", "squared_hinge"])
    assert one["valid"]
    assert many["valid"]
    assert many["estimate"]["seconds"] > 5 * one["estimate"]["seconds"]
    single = api.ask(type="tune", C={"min": 1e-3, "max": 1e3}, loss="hinge")
    for other in ({"loss": ["hinge", "squared_hinge"]}, {"cross_validation": {"repeats": 4}}):
        larger = api.ask(type="tune", C={"min": 1e-3, "max": 1e3}, **{"loss": "hinge", **other})
        assert larger["estimate"]["peak_bytes"] > single["estimate"]["peak_bytes"], "a search keeps every training"
    judged = api.ask(type="tune", metric="mae", cross_validation={"group": True}, p=[1.5])
    assert {error["field"] for error in judged["errors"]} == {"metric", "cross_validation.group", "p"}


def test_only_a_finished_search_has_a_path(api: Api) -> None:
    trained = api.http.post("/v1/jobs", json={"dataset_id": api.dataset}).json()["id"]
    searched = api.http.post("/v1/jobs", json={"dataset_id": api.dataset, "type": "tune"}).json()["id"]
    assert checked_problem(api.http.get(f"/v1/jobs/{trained}/path"), 409)["code"] == "not_a_tuning_job"
    assert checked_problem(api.http.get(f"/v1/jobs/{searched}/path"), 409)["code"] == "no_path"
    refused = api.http.get(f"/v1/jobs/{searched}/path", headers={"Accept": "image/png"})
    assert checked_problem(refused, 406)["code"] == "not_acceptable"
