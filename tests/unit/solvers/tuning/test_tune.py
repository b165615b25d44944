"""`solvers.tune` and `solvers.path`: the truth of certificates, choosing, resuming, ending early, bad input."""

import numpy as np
import pytest

import solvers
from solvers import InvalidOptions, InvalidProblem
from tests.support.tuning_truth import random_case, random_values, true_figure, tuned, violations

METRICS = {
    "binary": ("error", "balanced_error", "f1", "roc_auc"),
    "multiclass": ("error",),
    "regression": ("mae", "mse"),
}
KINDS = [("binary", "ovr", 14), ("multiclass", "ovr", 3), ("multiclass", "crammer_singer", 2), ("regression", "ovr", 4)]


def made(n=120, d=5, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    return X, np.where(X @ random.standard_normal(d) + 1.5 * random.standard_normal(n) > 0, "yes", "no")


X, Y = made()


@pytest.mark.parametrize(("task", "strategy", "seed"), [(*kind[:2], seed) for kind in KINDS for seed in range(kind[2])])
def test_no_point_of_the_true_curve_leaves_its_bounds(task, strategy, seed):
    case = random_case(1000 + seed, task=task, strategy=strategy)
    metric = METRICS[task][seed % len(METRICS[task])]
    result = tuned(case, metric=metric, max_values=10)
    certificate = result.certificate
    assert violations(case, result, random_values(seed, 4)) == []
    starts, ends = [step[0] for step in certificate.steps], [step[1] for step in certificate.steps]
    assert (starts[0], ends[-1]) == certificate.range == (1e-2, 1e2)
    assert starts[1:] == ends[:-1]


def test_a_proof_is_complete_and_says_what_it_proves():
    result = solvers.tune(X, Y, C=(1e-3, 1e2), loss="squared_hinge", certify=0.03, folds=4)
    certificate = result.certificate
    assert certificate.proven
    assert result.reason is None
    assert certificate.lower_bound == min(step[2] for step in certificate.steps)
    assert certificate.lower_bound >= certificate.best - 0.03 - 1e-9
    assert certificate.epsilon_reached <= 0.03 + 1e-9
    assert result.best.C == certificate.C
    assert result.best.mean <= certificate.best + 1e-12
    assert certificate.decided + certificate.undecided == Y.size
    for trial in result.trials:
        assert trial.lower_bound <= trial.mean + 1e-12
        assert trial.mean <= trial.upper_bound + 1e-12 or trial.lower_bound < trial.upper_bound


def test_a_tighter_epsilon_needs_more_values():
    counts = [
        solvers.tune(X, Y, C=(0.01, 10.0), certify=epsilon, refit=False).certificate.values for epsilon in (0.2, 0.02)
    ]
    assert counts[0] < counts[1]


def test_an_epsilon_that_is_out_of_reach_is_reported():
    result = solvers.tune(X, Y, C=(1e-3, 1e3), certify=0.0, max_values=8, refit=False)
    assert not result.certificate.proven
    assert result.certificate.values <= 8
    assert result.certificate.epsilon_reached > 0.0
    assert "was reached, not 0" in result.reason


def test_one_standard_error_is_an_epsilon_too():
    result = solvers.tune(X, Y, C=(0.01, 10.0), certify="1se", refit=False)
    trial = next(trial for trial in result.trials if trial.C == result.certificate.C)
    assert result.certificate.epsilon == pytest.approx(trial.std / np.sqrt(5))
    assert result.certificate.proven


def test_a_free_bias_has_no_certificate_but_a_reason():
    result = solvers.tune(X, Y, C=(0.1, 1.0), certify=0.1, bias="free", refit=False)
    assert result.certificate is None
    assert "free bias" in result.reason


def test_a_range_is_searched_coarsely_then_finely():
    result = solvers.tune(X, Y, C=(1e-2, 1e2), loss="squared_hinge")
    values = [trial.C for trial in result.trials]
    assert values[0] == 1e-2
    assert values[-1] == 1e2
    assert len(values) == 9 + 6
    assert result.best.mean == min(trial.mean for trial in result.trials)
    steps = np.diff(np.log10(values))
    assert steps.min() == pytest.approx(1 / 8, rel=1e-6)
    assert result.finished


def test_a_list_is_tried_as_it_is():
    result = solvers.tune(X, Y, C=[3.0, 0.1, 0.1, 1.0], refit=False)
    assert [trial.C for trial in result.trials] == [0.1, 1.0, 3.0]
    assert result.model is None


def test_auto_suits_the_scale_of_the_data():
    small, large = (solvers.tune(X * scale, Y, bias="none", refit=False) for scale in (1.0, 100.0))
    assert pytest.approx(large.best.C * 1e4, rel=1e-6) == small.best.C
    assert small.best.mean == large.best.mean


def test_a_trial_is_the_mean_over_its_folds():
    column = np.arange(Y.size) % 3
    trial = solvers.tune(X, Y, C=[1.0], folds=column, refit=False, tol=1e-8).trials[0]
    errors = []
    for fold in range(3):
        model = solvers.train(X[column != fold], Y[column != fold], C=1.0, tol=1e-8)
        errors.append(float((model.predict(X[column == fold]) != Y[column == fold]).mean()))
    assert trial.values == tuple(errors)
    assert trial.mean == pytest.approx(np.mean(errors))
    assert trial.std == pytest.approx(np.std(errors, ddof=1))


def test_one_standard_error_prefers_the_smallest_c():
    data = made(seed=4)
    best, simpler = (solvers.tune(*data, C=(1e-3, 1e3), rule=rule, refit=False) for rule in ("best", "1se"))
    assert simpler.best.C < best.best.C
    assert simpler.best.mean <= best.best.mean + best.best.std / np.sqrt(5)


@pytest.mark.parametrize("metric", ["f1", "roc_auc"])
def test_a_metric_that_should_be_large_is_maximised(metric):
    result = solvers.tune(X, Y, C=(0.01, 10.0), metric=metric, certify=0.05, refit=False)
    certificate = result.certificate
    assert certificate.proven
    assert certificate.upper_bound <= certificate.best + 0.05 + 1e-9
    assert result.best.mean >= max(trial.mean for trial in result.trials) - 0.05


def test_the_model_is_that_of_all_rows_at_the_best_c():
    result = solvers.tune(X, Y, C=[0.01, 1.0], loss="squared_hinge", tol=1e-8)
    direct = solvers.train(X, Y, C=result.best.C, loss="squared_hinge", tol=1e-8)
    assert result.model.converged
    assert np.allclose(result.model.coef, direct.coef, atol=1e-4)


@pytest.mark.parametrize("certify", [None, 0.05])
def test_a_search_that_was_killed_continues_to_the_same_result(certify):
    arguments = {"C": (0.01, 10.0), "certify": certify, "loss": "squared_hinge", "folds": 3, "refit": False}
    tables, whole = [], None

    def keep(progress):
        if (table := progress.stored()) is not None:
            tables.append(
                {name: np.copy(value) if isinstance(value, np.ndarray) else value for name, value in table.items()}
            )

    whole = solvers.tune(X, Y, **arguments, on_progress=keep)
    done = len(tables)
    trained = []
    again = solvers.tune(
        X,
        Y,
        **arguments,
        resume_from=tables[: done // 2],
        on_progress=lambda progress: trained.append(progress.finished),
    )
    assert [(trial.C, trial.mean) for trial in again.trials] == [(trial.C, trial.mean) for trial in whole.trials]
    assert again.certificate == whole.certificate
    new = [one for one in trained if one is not None]
    kept = {(table["fold"], table["C"], table["tol"]) for table in tables[: done // 2]}
    assert len(new) == done
    assert [one.seconds for one in new if (one.fold, one.C, one.tol) in kept] == [
        table["seconds"] for table in tables[: done // 2]
    ]


def test_the_caller_can_end_a_search_and_keep_the_best_so_far():
    calls = []

    def enough(progress):
        if progress.finished is not None:  # there are reports within a training, too, if it takes long
            calls.append(progress)
        return progress.trainings >= 7

    result = solvers.tune(X, Y, C=[0.01, 0.1, 1.0], on_progress=enough)
    assert not result.finished
    assert len(result.trials) == 1
    assert len(result.trials[0].values) == 3
    assert result.best.C == 0.01
    assert result.model is not None
    assert [call.trainings for call in calls] == list(range(1, 8))
    assert calls[-1].progress == pytest.approx(7 / 15)
    assert calls[-1].eta_seconds > 0.0


def test_time_ends_a_search():
    big = made(4000, 40)
    result = solvers.tune(*big, C=(1e-3, 1e3), certify=1e-4, max_seconds=0.3, refit=False, tol=1e-6)
    assert not result.finished
    assert result.best.C > 0.0
    assert "time" in result.reason


def test_repeats_and_groups_reach_the_folds():
    result = solvers.tune(X, Y, C=[1.0], folds=3, repeats=2, groups=np.arange(Y.size) // 2, refit=False)
    assert result.folds == 6
    assert len(result.trials[0].values) == 6


def test_the_truth_of_the_tests_sees_a_wrong_bound():
    """The judge of these tests can fail: bounds moved by two rows are found false."""
    case = random_case(1001)
    result = tuned(case, metric="error", max_values=8)
    C = random_values(1, 1)[0]
    n_folds = len(np.unique(case.folds))
    true = np.mean([true_figure(case, fold, C, "error")[1] for fold in range(n_folds)])
    step = next(step for step in result.certificate.steps if step[0] <= C <= step[1])
    assert violations(case, result, [C]) == []
    moved = tuple(
        (a, b, true + 0.01, 1.0) if (a, b) == step[:2] else (a, b, low, high)
        for a, b, low, high in result.certificate.steps
    )
    object.__setattr__(result.certificate, "steps_by_variant", (moved,))
    assert len(violations(case, result, [C])) == 1


def test_a_path_starts_each_model_from_the_one_before():
    found = solvers.path(X, Y, C=[10.0, 0.1, 1.0], loss="squared_hinge", tol=1e-6)
    assert found.C == (0.1, 1.0, 10.0)
    assert found.coef.shape == (3, X.shape[1])
    assert found.intercept.shape == (3,)
    for C, model in zip(found.C, found.models, strict=True):
        assert model.converged
        direct = solvers.train(X, Y, C=C, loss="squared_hinge", tol=1e-6)
        assert model.certificate.primal == pytest.approx(direct.certificate.primal, rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "argument", "message"),
    [
        ({"C": (10.0, 1.0)}, "C", "from 10 to 1"),
        ({"C": (0.0, 1.0)}, "C", "above 0"),
        ({"C": [1.0, -1.0]}, "C", "above 0"),
        ({"C": []}, "C", "a list of values"),
        ({"C": 1.0}, "C", "a range"),
        ({"C": "automatic"}, "C", "auto"),
        ({"metric": "precision"}, "metric", "one of"),
        ({"metric": "mae"}, "metric", "does not fit"),
        ({"folds": 500}, "folds", "at most 120"),
        ({"rule": "2se"}, "rule", "1se"),
        ({"certify": -0.1}, "certify", "at least 0"),
        ({"certify": "2se"}, "certify", "1se"),
        ({"max_seconds": 0}, "max_seconds", "above 0"),
        ({"max_values": 1}, "max_values", "at least 2"),
        ({"tol": 0.0}, "tol", "above 0"),
        ({"loss": "epsilon_insensitive"}, "loss", "does not fit"),
        ({"sample_weight": np.ones(3)}, "sample_weight", "one value for each of the 120 rows"),
        ({"task": "regression"}, "y", "numbers"),
        ({"resume_from": [{"fold": 0}]}, "resume_from", "cannot read"),
    ],
)
def test_mistakes_name_the_argument(arguments, argument, message):
    with pytest.raises((InvalidProblem, InvalidOptions), match=message) as refused:
        solvers.tune(X, Y, **{"C": [1.0], "refit": False, **arguments})
    assert refused.value.argument == argument


def test_a_fold_without_both_classes_has_no_roc_area():
    y = np.array([0, 1] * 10)
    folds = np.array([0] * 4 + [1] * 8 + [2] * 8)
    y[:4] = 0
    with pytest.raises(InvalidProblem, match="fold 1 has rows of one class only") as refused:
        solvers.tune(np.arange(20.0)[:, None], y, C=[1.0], folds=folds, metric="roc_auc")
    assert refused.value.argument == "folds"


def test_a_path_needs_a_list():
    with pytest.raises(InvalidProblem, match="a list of values"):
        solvers.path(X, Y, C=(0.1, 1.0))
