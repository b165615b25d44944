"""Tuning jobs: what they search, what they prove, and how they are interrupted and resumed."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvers
from app.db.tables import ModelRow
from app.jobs.path_endpoints import _read, _shown
from app.jobs.types.tune_request import TuneRequest
from app.jobs.types.verify_request import VerifyRequest
from app.storage import ownership
from tests.support.worker_bench import Bench, noisy, three_words, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def tune(bench: Bench, dataset: str, **fields: Any) -> dict[str, Any]:
    return bench.run_on_model(TuneRequest(type="tune", dataset_id=dataset, model="m", **fields))


def two_classes(bench: Bench, rows: int = 200) -> str:
    X, signal = noisy(rows)
    return bench.store(X, np.where(signal > 0, "yes", "no"))


def test_a_search_finds_the_curve_of_the_library_and_trains_at_its_best(bench: Bench) -> None:
    job = tune(bench, two_classes(bench), C=[0.001, 0.1, 10.0], loss="squared_hinge", tol=1e-10)
    assert job["status"] == "succeeded", job["error"]
    X, signal = noisy(200)
    expected = solvers.tune(X, signal > 0, C=[0.001, 0.1, 10.0], loss="squared_hinge", tol=1e-10)
    result = job["result"]
    assert [trial["mean"] for trial in result["trials"]] == [trial.mean for trial in expected.trials]
    assert result["best"]["C"] == expected.best.C
    assert (result["certificate"], result["reason"], result["metric"], result["folds"]) == (None, None, "error", 5)
    card, stored = bench.model(job)
    assert card["params"]["C"] == expected.best.C
    assert card["tuning"]["best"] == result["best"]
    assert expected.model is not None
    assert np.allclose(stored.coef, expected.model.coef, rtol=1e-4)
    assert result["model_certificate"] == card["certificate"]


def test_combinations_are_crossed_and_an_exponent_only_with_its_loss(bench: Bench) -> None:
    job = tune(
        bench,
        two_classes(bench),
        C=[1.0],
        loss=["hinge", "hinge_p"],
        p=[1.2, 1.5],
        preprocess=[None, {"scale": "standard"}],
    )
    assert job["status"] == "succeeded", job["error"]
    shown = [(one["loss"], one["p"], one["preprocess"] is not None) for one in job["result"]["trials"]]
    powers = [("hinge", None), ("hinge_p", 1.2), ("hinge_p", 1.5)]
    assert shown == [(*power, scaled) for power in powers for scaled in (False, True)]


def test_a_proof_holds_for_every_c_between(bench: Bench) -> None:
    job = tune(
        bench, two_classes(bench, 120), C={"min": 1e-2, "max": 10}, loss="squared_hinge", certify={"epsilon": 0.05}
    )
    certificate = job["result"]["certificate"]
    assert certificate["proven"]
    assert certificate["epsilon_reached"] <= 0.05 + 1e-9
    assert [certificate["steps"][0][0], certificate["steps"][-1][1]] == [1e-2, 10]
    X, signal = noisy(120)
    values = [0.02, 0.3, 5.0]
    exact = solvers.tune(X, signal > 0, C=values, loss="squared_hinge", tol=1e-10, refit=False)
    for trial in exact.trials:
        bounds = [(low, high) for a, b, low, high in certificate["steps"] if a <= trial.C <= b]
        assert any(low - 1e-12 <= trial.mean <= high + 1e-12 for low, high in bounds)
    assert bench.model(job)[0]["tuning"]["certificate"]["steps"] == certificate["steps"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"bias": "free"}, "free bias"), ({"metric": "precision"}, "precision"), ({"C": [1.0]}, "one value")],
)
def test_without_a_proof_the_result_says_why(bench: Bench, fields: dict[str, Any], reason: str) -> None:
    job = tune(bench, two_classes(bench), certify={"epsilon": 0.1}, **{"C": [0.1, 1.0], **fields})
    assert job["status"] == "succeeded", job["error"]
    assert job["result"]["certificate"] is None
    assert reason in job["result"]["reason"]


def test_every_task_can_be_tuned(bench: Bench) -> None:
    X, signal = noisy(150)
    ranks, query = np.digitize(signal, [-1.0, 1.0]).astype(float), np.repeat(np.arange(15), 10)
    cases: list[tuple[str, dict[str, Any]]] = [
        (bench.store(X, three_words(signal)), {"metric": "balanced_accuracy", "strategy": ["ovr", "crammer_singer"]}),
        (bench.store(X, signal), {"metric": "r2", "epsilon": [0.0, 0.1]}),
        (bench.store(X, ranks, group=query), {"task": "ordinal", "metric": "ndcg"}),
    ]
    for dataset, fields in cases:
        job = tune(bench, dataset, C=[0.1, 1.0], **fields)
        assert job["status"] == "succeeded", job["error"]
        assert job["result"]["best"]["mean"] > 0.7
        assert job["result"]["metric"] == fields["metric"]


def test_row_weights_count_in_the_metric(bench: Bench) -> None:
    X, signal = noisy(200)
    weight = np.where(np.arange(200) < 100, 1.0, 3.0)
    dataset = bench.store(X, np.where(signal > 0, "yes", "no"), weight=weight)
    job = tune(bench, dataset, C=[1.0], certify={"epsilon": 0.1}, cross_validation=2)
    plain = tune(bench, two_classes(bench), C=[1.0], cross_validation=2)
    assert job["result"]["best"]["mean"] != plain["result"]["best"]["mean"]


def test_nested_folds_calibration_and_folds_by_column(bench: Bench) -> None:
    X, signal = noisy(200)
    fold = np.arange(200) % 4
    dataset = bench.store(X, np.where(signal > 0, "yes", "no"), group=fold)
    job = tune(bench, dataset, C=[0.1, 1.0], cross_validation={"fold_column": "query"}, calibrate="platt")
    assert job["status"] == "succeeded", job["error"]
    assert job["result"]["folds"] == 4
    assert job["result"]["calibration"]["rows"] == 200
    job = tune(bench, two_classes(bench), C=[0.1, 1.0], outer_folds=3)
    outer = job["result"]["outer"]
    assert len(outer["values"]) == len(outer["chosen"]) == 3
    assert outer["mean"] == pytest.approx(np.mean(outer["values"]))


def test_a_search_without_refit_has_a_curve_and_no_model(bench: Bench) -> None:
    job = tune(bench, two_classes(bench), C=[0.1, 1.0], refit=False)
    assert (job["status"], job["model_id"]) == ("succeeded", None)
    path = _shown(job["id"], *_read(bench.blobs.path(job["result"]["path"]["sha256"]).read_bytes()))
    assert [point.C for point in path.curve] == [0.1, 1.0]
    assert (path.C, path.features, path.coef) == ([], [], [])


def test_the_path_has_the_weights_of_all_classes(bench: Bench) -> None:
    X, signal = noisy(150)
    job = tune(bench, bench.store(X, three_words(signal)), C=[0.01, 1.0], loss="squared_hinge")
    path = _shown(job["id"], *_read(bench.blobs.path(job["result"]["path"]["sha256"]).read_bytes()))
    expected = solvers.path(X, three_words(signal), C=[0.01, 1.0], loss="squared_hinge", tol=1e-3)
    assert path.features == ["0", "1", "2", "3"]
    assert np.allclose(path.coef, expected.coef, atol=1e-2)
    assert np.allclose(path.intercept, expected.intercept, atol=1e-2)


def test_an_interrupted_search_repeats_no_finished_training(bench: Bench) -> None:
    dataset = two_classes(bench)
    trainings = 0

    def drain_late() -> str | None:
        nonlocal trainings
        trainings += 1
        return "drain" if trainings == 8 else None

    request = TuneRequest(type="tune", dataset_id=dataset, model="m", C=[0.01, 0.1, 1.0])
    job = bench.run_on_model(request, drain_late)
    assert job["status"] == "queued"
    with bench.database.read() as session:
        assert ownership.sizes(session, job["id"])
    job = bench.execute(job["id"])
    assert job["status"] == "succeeded", job["error"]
    (resumed,) = bench.events(job["id"], "job.resumed")
    assert resumed["trainings"] >= 7
    plain = tune(bench, dataset, C=[0.01, 0.1, 1.0])
    assert [one["mean"] for one in job["result"]["trials"]] == [one["mean"] for one in plain["result"]["trials"]]
    with bench.database.read() as session:
        assert list(ownership.sizes(session, job["id"])) == [job["result"]["path"]["sha256"]]


def test_finish_keeps_the_best_so_far_and_trains_it_whole(bench: Bench) -> None:
    asked = 0

    def finish_soon() -> str | None:
        nonlocal asked
        asked += 1
        return "finish" if asked >= 4 else None

    request = TuneRequest(type="tune", dataset_id=two_classes(bench), model="m", C=[0.01, 0.1, 1.0])
    job = bench.run_on_model(request, finish_soon)
    assert job["status"] == "succeeded", job["error"]
    assert (job["result"]["finished"], job["result"]["converged"]) == (False, True)
    assert len(job["result"]["trials"]) < 15


def test_a_tuned_model_is_verified_like_a_trained_one(bench: Bench) -> None:
    job = tune(bench, two_classes(bench), C=[0.1, 1.0], preprocess={"scale": "standard"}, split={"test": 0.2})
    verified = bench.run_on_model(VerifyRequest(type="verify", model=job["model_id"]))
    assert verified["status"] == "succeeded", verified["error"]
    assert verified["result"]["matches"] is True, verified["result"]["differences"]
    assert verified["result"]["tuning"] is None


def test_the_proof_of_a_search_is_recomputed_and_a_changed_one_is_found(bench: Bench) -> None:
    job = tune(bench, two_classes(bench, 120), C={"min": 0.1, "max": 10}, certify={"epsilon": 0.1})
    request = VerifyRequest(type="verify", model=job["model_id"], tuning=True)
    honest = bench.run_on_model(request)["result"]["tuning"]
    assert (honest["matches"], honest["differences"]) == (True, [])
    with bench.database.write() as session:
        row = session.get_one(ModelRow, job["model_id"])
        card = copy.deepcopy(row.card)
        card["tuning"]["certificate"]["steps"][0][2] += 0.5
        row.card = card
    forged = bench.run_on_model(request)["result"]["tuning"]
    assert forged["matches"] is False
    assert [one["field"] for one in forged["differences"]] == ["steps.0"]


def test_a_training_chooses_c_by_itself(bench: Bench) -> None:
    job = bench.run(two_classes(bench), C="auto", cross_validation=3, preprocess={"scale": "standard"})
    card, _ = bench.model(job)
    tuning = job["result"]["tuning"]
    assert card["params"]["C"] == tuning["best"]["C"]
    assert card["tuning"] == tuning
    # the mean of a value of C and its neighbours decides
    assert tuning["best"]["mean"] <= 0.02 + min(
        one["mean"] for one in tuning["trials"] if one["folds"] == tuning["folds"]
    )
    assert tuning["folds"] == 5
    assert len(card["cross_validation"]["folds"]) == 3
    verified = bench.run_on_model(VerifyRequest(type="verify", model=job["model_id"]))
    assert verified["result"]["matches"] is True, verified["result"]


def test_a_class_of_one_row_stays_in_training_while_c_is_chosen(bench: Bench) -> None:
    X, _ = noisy(20)
    job = bench.run(bench.store(X, np.array(["rare"] + ["common"] * 19)), C="auto")
    assert job["status"] == "succeeded", job["error"]
    assert job["result"]["tuning"]["folds"] == 5
    assert job["result"]["tuning"]["trials"]
