"""Searches over several variants of a problem, with rows made for each fold, own metrics and nested folds."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers import InvalidOptions, InvalidProblem
from tests.support.tuning_truth import TuningCase, random_values, violations


def made(n=90, d=4, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    return X, np.where(X @ random.standard_normal(d) + random.standard_normal(n) > 0.3, 1, 0)


X, Y = made()
FOLDS = np.arange(Y.size) % 3
VARIANTS = [{"loss": "squared_hinge"}, {"loss": "hinge", "class_weight": "balanced"}, {"loss": "logistic"}]
COMMON = {"folds": FOLDS, "refit": False}


def kept(tables):
    """A function for `on_progress` that keeps copies of the finished trainings."""

    def keep(progress):
        if (table := progress.stored()) is not None:
            tables.append({name: np.copy(one) if isinstance(one, np.ndarray) else one for name, one in table.items()})

    return keep


def test_every_variant_is_tried_at_every_c():
    result = solvers.tune(X, Y, C=[0.1, 1.0], variants=VARIANTS, **COMMON)
    assert [(trial.variant, trial.C) for trial in result.trials] == [(v, C) for v in range(3) for C in (0.1, 1.0)]
    for number, variant in enumerate(VARIANTS):
        alone = solvers.tune(X, Y, C=[0.1, 1.0], **variant, **COMMON)
        assert [t.mean for t in result.trials if t.variant == number] == [t.mean for t in alone.trials]
    best = min(result.trials, key=lambda trial: trial.mean)
    assert (result.best.variant, result.best.C) == (best.variant, best.C)


def test_lists_of_parameters_are_crossed():
    lists = solvers.tune(X, Y, C=[1.0], loss=["hinge", "squared_hinge"], class_weight=[None, {1: 3.0}], **COMMON)
    tables = [
        {"loss": loss, "class_weight": weight} for loss in ("hinge", "squared_hinge") for weight in (None, {1: 3.0})
    ]
    spelt_out = solvers.tune(X, Y, C=[1.0], variants=tables, **COMMON)
    assert [trial.mean for trial in lists.trials] == [trial.mean for trial in spelt_out.trials]
    assert len({trial.mean for trial in lists.trials}) > 1


def test_the_refitted_model_is_that_of_the_best_variant():
    result = solvers.tune(X, Y, C=[0.1, 1.0], variants=VARIANTS, folds=FOLDS, tol=1e-8)
    direct = solvers.train(X, Y, C=result.best.C, tol=1e-8, **VARIANTS[result.best.variant])
    assert np.allclose(result.model.coef, direct.coef, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_proof_covers_every_variant(seed):
    X, Y = made(seed=seed)
    definitions = [{"loss": "squared_hinge"}, {"loss": "hinge"}]
    result = solvers.tune(X, Y, C=(1e-2, 1e1), variants=definitions, certify=0.02, max_values=40, **COMMON)
    proof = result.certificate
    assert len(proof.steps_by_variant) == 2
    assert proof.steps == proof.steps_by_variant[result.best.variant]
    assert proof.lower_bound == min(step[2] for steps in proof.steps_by_variant for step in steps)
    assert proof.epsilon_reached == pytest.approx(proof.best - proof.lower_bound)
    assert proof.values == sum(len(steps) + 1 for steps in proof.steps_by_variant)
    assert (result.best.variant, result.best.C) == (proof.variant, proof.C)
    for number, definition in enumerate(definitions):
        case = TuningCase(X, Y, {"bias": "regularized", "bias_scale": 1.0, **definition}, None, FOLDS)
        object.__setattr__(proof, "variant", number)
        assert violations(case, result, random_values(seed, 3, 1e-2, 1e1)) == []


def test_a_proof_over_variants_continues_after_a_kill():
    arguments = {"C": (0.01, 10.0), "variants": VARIANTS[:2], "certify": 0.05, "outer_folds": 2, **COMMON}
    tables = []
    whole = solvers.tune(X, Y, **arguments, on_progress=kept(tables))
    cut = len(tables) * 2 // 3
    again_tables = []
    again = solvers.tune(X, Y, **arguments, resume_from=tables[:cut], on_progress=kept(again_tables))
    assert again.certificate == whole.certificate
    assert again.outer == whole.outer
    assert [table["seconds"] for table in again_tables[:cut]] == [table["seconds"] for table in tables[:cut]]
    assert len(again_tables) == len(tables)
    assert {table["outer"] for table in tables} == {-1, 0, 1}
    assert {table["variant"] for table in tables} == {0, 1}


def test_prepare_makes_the_rows_of_each_fold_once():
    calls = []

    def standardised(variant, training, held_out):
        calls.append((variant, held_out.tolist()))
        mean, scale = X[training].mean(axis=0), X[training].std(axis=0) * (1 + variant)
        return (X[training] - mean) / scale, (X[held_out] - mean) / scale

    variants = [{}, {}]
    result = solvers.tune(None, Y, C=(0.01, 10.0), variants=variants, prepare=standardised, folds=FOLDS, tol=1e-8)
    assert len(calls) == len({(variant, tuple(held_out)) for variant, held_out in calls}) == 2 * 3 + 1
    assert calls[-1] == (result.best.variant, [])
    for trial in result.trials[:3]:
        errors = []
        for fold in range(3):
            trained, judged = standardised(trial.variant, np.flatnonzero(fold != FOLDS), np.flatnonzero(fold == FOLDS))
            model = solvers.train(trained, Y[fold != FOLDS], C=trial.C, tol=1e-8)
            errors.append(float((model.predict(judged) != Y[fold == FOLDS]).mean()))
        assert trial.values == tuple(errors)


def test_prepared_rows_can_have_other_columns_in_each_fold():
    def some_columns(variant, training, held_out):
        used = X[:, : 2 + int(training[0] == 0) + int(held_out.size == 0)]
        return sp.csr_array(used[training]), used[held_out]

    result = solvers.tune(None, Y, C="auto", prepare=some_columns, folds=FOLDS, certify=0.1, keep_folds=True)
    assert {model.coef.size for model in result.fold_models} == {2, 3}
    assert result.model.coef.size == 4
    assert result.certificate.proven
    first = X[FOLDS != 0][:, :2]
    assert pytest.approx(1e-3 / (first**2).sum(axis=1).mean(), rel=1e-6) == result.trials[0].C


def test_the_scores_and_models_of_folds_are_kept_on_request():
    result = solvers.tune(X, Y, C=(0.01, 10.0), variants=VARIANTS, certify=0.1, keep_folds=True, rule="1se", **COMMON)
    for fold, model in enumerate(result.fold_models):
        rows = np.flatnonzero(fold == FOLDS)
        assert model.held_out.tolist() == rows.tolist()
        assert result.held_out_scores[rows] == pytest.approx(X[rows] @ model.coef + model.intercept)
    assert ((result.held_out_scores > 0) != Y).mean() == pytest.approx(result.best.mean)
    plain = solvers.tune(X, Y, C=[1.0], **COMMON)
    assert plain.held_out_scores is None
    assert plain.fold_models is None


def test_scores_of_several_classes_are_kept_as_columns():
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    result = solvers.tune(X, y, C=[1.0], folds=FOLDS, keep_folds=True, refit=False)
    assert result.held_out_scores.shape == (Y.size, 3)
    assert np.isfinite(result.held_out_scores).all()


def test_a_scorer_is_a_metric_without_a_proof():
    seen = []

    def cost(scores, rows):
        seen.append(rows)
        return float(np.where(Y[rows] == 1, 5.0 * (scores <= 0), scores > 0).mean())

    scorer = solvers.Scorer("cost", is_higher_better=False, value=cost)
    result = solvers.tune(X, Y, C=[0.01, 1.0], metric=scorer, certify=0.1, outer_folds=3, **COMMON)
    assert result.metric == "cost"
    assert result.certificate is None
    assert "cost has no bounds" in result.reason
    assert result.best.mean == min(trial.mean for trial in result.trials)
    assert np.array_equal(np.unique(np.concatenate(seen)), np.arange(Y.size))
    with pytest.raises(InvalidProblem, match="finite") as refused:
        solvers.tune(X, Y, C=[1.0], metric=solvers.Scorer("none", True, lambda scores, rows: float("nan")))
    assert refused.value.argument == "metric"


def test_a_named_metric_without_bounds_has_a_reason():
    result = solvers.tune(X, Y, C=[0.1, 1.0], metric="pr_auc", certify=0.1, **COMMON)
    assert result.certificate is None
    assert "pr_auc has no bounds" in result.reason


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy"])
def test_accuracy_mirrors_the_error(metric):
    error, accuracy = (
        solvers.tune(X, Y, C=(0.1, 10.0), metric=one, certify=0.05, **COMMON)
        for one in (metric.replace("accuracy", "error"), metric)
    )
    assert accuracy.best.mean == pytest.approx(1.0 - error.best.mean)
    assert accuracy.certificate.upper_bound == pytest.approx(1.0 - error.certificate.lower_bound)


def test_ordinal_tasks_are_searched_by_a_scorer():
    ranks, queries = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.7, 0.7]), np.arange(Y.size) // 6

    def swapped(scores, rows):
        apart = (ranks[rows][:, None] > ranks[rows]) & (queries[rows][:, None] == queries[rows])
        return float((scores[:, None] <= scores)[apart].mean())

    scorer = solvers.Scorer("swapped_pairs", is_higher_better=False, value=swapped)
    common = {"task": "ordinal", "query_groups": queries, "groups": queries, "metric": scorer, "tol": 1e-8}
    result = solvers.tune(X, ranks, C=[1e-4, 1.0], folds=3, keep_folds=True, certify=0.1, **common)
    assert result.certificate is None
    held_out = result.fold_models[0].held_out
    training = np.setdiff1d(np.arange(Y.size), held_out)
    direct = solvers.train(
        X[training], ranks[training], task="ordinal", groups=queries[training], C=result.best.C, tol=1e-8
    )
    best = next(trial for trial in result.trials if trial.C == result.best.C)
    assert best.values[0] == swapped(X[held_out] @ direct.coef, held_out)
    assert result.model.coef.shape == (X.shape[1],)


def test_nested_folds_judge_the_whole_search():
    result = solvers.tune(X, Y, C=[0.01, 1.0], variants=VARIANTS, folds=4, outer_folds=3, tol=1e-8, refit=False)
    outer = result.outer
    assert len(outer.values) == len(outer.chosen) == 3
    assert outer.mean == pytest.approx(np.mean(outer.values))
    assert outer.std == pytest.approx(np.std(outer.values, ddof=1))
    assert solvers.tune(X, Y, C=[1.0], **COMMON).outer is None


def test_the_values_of_nested_folds_are_those_of_the_search_on_their_rows():
    rows = {}

    def watch(scores, held_out):
        rows[held_out.size, tuple(held_out)] = scores
        return float(((scores > 0) != Y[held_out]).mean())

    scorer = solvers.Scorer("error", is_higher_better=False, value=watch)
    tables = []
    result = solvers.tune(
        X, Y, C=[0.01, 1.0], folds=2, outer_folds=3, tol=1e-9, metric=scorer, refit=False, on_progress=kept(tables)
    )
    last = [table for table in tables if table["outer"] == 1 and table["fold"] == -1]
    assert len(last) == 1
    held_out = np.array(next(key[1] for key, scores in rows.items() if np.array_equal(scores, last[0]["scores"])))
    training = np.setdiff1d(np.arange(Y.size), held_out)
    direct = solvers.train(X[training], Y[training], C=result.outer.chosen[1].C, tol=1e-9)
    assert result.outer.values[1] == float((direct.predict(X[held_out]) != Y[held_out]).mean())
    inner = [table for table in tables if table["outer"] == 1 and table["fold"] == 0]
    assert all(table["scores"].size == 30 for table in inner)


@pytest.mark.parametrize("certify", [None, 0.1])
def test_progress_counts_all_variants_and_nested_folds(certify):
    heard = []
    solvers.tune(
        X,
        Y,
        C=[0.1, 1.0],
        variants=VARIANTS[:2],
        outer_folds=2,
        certify=certify,
        folds=3,
        on_progress=lambda progress: heard.append(progress) and None,
    )
    done = [one for one in heard if one.finished is not None]
    shares = [one.progress for one in done]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert done[-1].trainings == done[-1].planned == len(done)
    assert {one.phase for one in done} == {"search" if certify is None else "certify", "outer"}
    assert {one.variant for one in done} <= {0, 1}


def test_a_search_that_is_ended_has_no_outer_estimate():
    result = solvers.tune(X, Y, C=[0.1, 1.0], folds=3, outer_folds=3, on_progress=lambda p: p.trainings >= 8)
    assert result.outer is None
    assert not result.finished
    assert len(result.trials) == 2


@pytest.mark.parametrize(
    ("arguments", "argument", "message"),
    [
        ({"variants": []}, "variants", "empty"),
        ({"variants": {"loss": "hinge"}}, "variants", "list of tables"),
        ({"variants": ["hinge"]}, "variants", "not a table"),
        ({"variants": [{"C": 1.0}]}, "variants", "has 'C'"),
        ({"variants": [{"task": "binary"}]}, "variants", "has 'task'"),
        ({"variants": [{"loss": "hinge"}, {"loss": "hinge", "p": 1.5}]}, "p", r"variant 1 of 2"),
        ({"variants": [{"epsilon": 0.1}] * 101}, "variants", "at most 100"),
        ({"loss": ["hinge", "hinge_p"], "p": [1.5, 2.0]}, "p", "only used with loss hinge_p"),
        ({"loss": ["hinge", "mae"]}, "loss", "one of"),
        ({"loss": []}, "loss", "empty list"),
        ({"class_weight": [None, "even"]}, "class_weight", "balanced"),
        ({"metric": "r2"}, "metric", "does not fit"),
        ({"outer_folds": 1}, "outer_folds", "from 2"),
        ({"outer_folds": 500}, "outer_folds", "at most 90"),
        ({"query_groups": np.ones(90)}, "query_groups", "ordinal"),
        ({"query_groups": np.ones(3), "task": "ordinal"}, "query_groups", "each of the 90 rows"),
        ({"prepare": 3}, "prepare", "function"),
        ({"prepare": lambda v, a, b: (X[a], X[b][:, :2])}, "prepare", "4 columns of training rows and 2"),
        ({"prepare": lambda v, a, b: (X[a], X[a])}, "prepare", "60 rows for 30"),
    ],
)
def test_mistakes_name_the_argument(arguments, argument, message):
    with pytest.raises((InvalidProblem, InvalidOptions), match=message) as refused:
        solvers.tune(X, Y, **{"C": [1.0], **COMMON, **arguments})
    assert refused.value.argument == argument


def test_x_is_needed_without_prepare():
    with pytest.raises(InvalidProblem, match="unless prepare") as refused:
        solvers.tune(None, Y, C=[1.0])
    assert refused.value.argument == "X"


def test_the_only_row_of_a_class_that_an_outer_fold_leaves_stays_in_training():
    y = np.zeros(90, dtype=int)
    y[:2] = 1
    result = solvers.tune(X, y, C=[1.0], folds=2, outer_folds=3)
    assert result.outer is not None
    assert len(result.outer.values) == 3


def test_tables_of_another_search_are_refused():
    tables = []
    solvers.tune(X, Y, C=[1.0], variants=VARIANTS, **COMMON, on_progress=kept(tables))
    with pytest.raises(InvalidOptions, match="same search") as refused:
        solvers.tune(X, Y, C=[1.0], variants=VARIANTS[:1], **COMMON, resume_from=tables)
    assert refused.value.argument == "resume_from"
