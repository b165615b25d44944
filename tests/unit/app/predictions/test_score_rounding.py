"""Bounds of scores against exact rational arithmetic: rounding of scores, of folded weights and of the bound itself."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from app.models import linear
from app.models.file import Header, ModelFile
from app.predictions.model_features import Features
from app.predictions.preprocessed_features import PreparedFeatures
from app.predictions.score_error import Certainty, row_errors
from app.preprocess.fit import fit, transform
from app.preprocess.pipeline import Pipeline
from app.preprocess.spec import Preprocess
from app.tabular.frame import Column, Frame, Strings

Json = dict[str, Any]

ROWS = 12


def table(seed: int, scales: np.ndarray, offsets: np.ndarray) -> Frame:
    random = np.random.default_rng(seed)
    X = offsets + scales * random.normal(size=(ROWS, len(scales)))
    return Frame(X, [Column(f"c{j}") for j in range(X.shape[1])])


TABLES: dict[str, Any] = {
    "25 decades": lambda seed: table(seed, 10.0 ** np.arange(-12, 13), np.zeros(25)),
    "far from zero": lambda seed: table(seed, np.full(5, 1e-4), np.array([1e10, -1e9, 3e8, 0.0, 1.0])),
    "huge": lambda seed: table(seed, np.array([1e150, 1e-300, 1.0, 1e120]), np.array([1e151, 0.0, 1e5, 0.0])),
    "subnormal": lambda seed: table(seed, np.array([5e-323, 1e-310, 1.0]), np.array([0.0, 0.0, 1e6])),
    "wide": lambda seed: table(seed, np.ones(700), np.full(700, 1e6)),
    "single": lambda seed: Frame(table(seed, np.ones(4), np.full(4, 1e4)).X.astype(np.float32), []),
    "sparse": lambda seed: Frame(
        sp.random_array((ROWS, 40), density=0.2, rng=np.random.default_rng(seed), format="csr") * 1e9, []
    ),
}


def exact_score(pipeline: Pipeline | None, row: np.ndarray, coef: np.ndarray, intercept: float) -> Fraction:
    """w . z + b with z = (x - shift) / scale, in rational arithmetic."""
    shift, scale = (np.zeros(len(row)), np.ones(len(row))) if pipeline is None else pipeline.solver_units
    terms = zip(coef.tolist(), row.tolist(), shift.tolist(), scale.tolist(), strict=True)
    return sum(
        (Fraction(w) * (Fraction(x) - Fraction(m)) / Fraction(s) for w, x, m, s in terms if w), Fraction(intercept)
    )


def model_of(pipeline: Pipeline | None, coef: np.ndarray, intercept: Any, gap: float) -> ModelFile:
    """As training would store these weights of the solver."""
    if pipeline is not None:
        coef, intercept = pipeline.fold(coef, intercept)
    several = coef.ndim == 2
    card = {"params": {"bias": "regularized", "bias_scale": 1.0}, "certificate": {"gap": gap}}
    header = Header(
        task="multiclass" if several else "binary",
        strategy="crammer_singer" if several else None,
        classes=list(range(len(coef))) if several else [0, 1],
        n_features=coef.shape[-1],
        feature_names=None,
        card=card,
    )
    return ModelFile(header, coef, intercept if several else float(intercept), None, {}, 0)


def judged(pipeline: Pipeline | None, matrix: Any, model: ModelFile) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(scores, bounds, which labels are certain), as predict has them."""
    features: Features = Features(matrix.shape[1], ())
    column_of = None
    if pipeline is not None:
        column_of = None if pipeline.is_plain else pipeline.column_of_features
        features = PreparedFeatures(pipeline.n_columns, pipeline.names or (), column_of, pipeline=pipeline)
    scores = linear.scores(matrix, model.coef, model.intercept, column_of)
    certainty = Certainty.of(model.header)
    assert certainty is not None
    errors = row_errors(matrix, model, features)
    return scores, certainty.bounds(errors), certainty.is_label_certain(errors, scores)


def weights(pipeline: Pipeline | None, width: int, seed: int) -> tuple[np.ndarray, float]:
    """Of any size, some of them so small that they underflow when they are folded."""
    random = np.random.default_rng(seed)
    coef = random.normal(size=width) * 10.0 ** random.integers(-3, 4, size=width)
    coef[:: max(3, width // 4)] = 1e-305
    return coef, float(random.normal())


def as_rows(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix, dtype=np.float64)


@pytest.mark.parametrize("scale", ["standard", "minmax", "maxabs", None])
@pytest.mark.parametrize("name", TABLES)
def test_no_rounding_is_left_out(name: str, scale: str | None) -> None:
    """With a gap of 0 the solver's weights are the optimum: all that is left is rounding."""
    largest = 0.0
    for seed in range(3):
        frame = TABLES[name](seed)
        pipeline = None if scale is None else fit(Preprocess(scale=scale), frame).pipeline  # type: ignore[arg-type]
        matrix = frame.X if pipeline is None else transform(pipeline, frame)
        matrix = matrix.astype(np.float64)
        coef, intercept = weights(pipeline, matrix.shape[1], seed)
        model = model_of(pipeline, coef, intercept, gap=0.0)
        scores, bounds, certain = judged(pipeline, matrix, model)
        for row, score, bound, is_certain in zip(as_rows(matrix), scores, bounds, certain, strict=True):
            exact = exact_score(pipeline, row, coef, intercept)
            assert abs(Fraction(float(score)) - exact) <= Fraction(float(bound)), (row, score, float(exact), bound)
            assert not is_certain or (score > 0) == (exact > 0)
            largest = max(largest, float(bound / max(1e-300, abs(score))))
        assert certain.sum() >= ROWS // 2  # or the bound would say nothing
    assert largest > 0.0


def test_a_label_that_rounding_could_have_changed_is_not_certain() -> None:
    """A column far from zero: rows so near to the border that their scores are rounding have either sign."""
    frame = Frame(np.array([[1e12 + k, float(k % 3)] for k in range(30)]), [Column("a"), Column("b")])
    pipeline = fit(Preprocess(scale="standard"), frame).pipeline
    random = np.random.default_rng(0)
    wrong = 0
    for _ in range(200):
        coef = random.normal(size=2)
        row = frame.X[random.integers(30)] + [0.0, random.normal()]
        intercept = -float(exact_score(pipeline, row, coef, 0.0)) + 1e-7 * random.normal()
        model = model_of(pipeline, coef, intercept, gap=0.0)
        scores, bounds, certain = judged(pipeline, row[None], model)
        exact = exact_score(pipeline, row, coef, intercept)
        assert abs(Fraction(float(scores[0])) - exact) <= Fraction(float(bounds[0]))
        is_right = (scores[0] > 0) == (exact > 0)
        wrong += not is_right
        assert is_right or not certain[0]
    assert wrong > 10  # without rounding in the bound these would have been called certain


@pytest.mark.parametrize("gap", [1e-300, 1e-12, 0.5, 1e100])
def test_the_optimum_farthest_away_is_within_the_bound(gap: float) -> None:
    """Optimal weights at the distance sqrt(2 gap) in the direction of the row: the inequality is an equation there."""
    random = np.random.default_rng(1)
    for size in (1e-160, 1.0, 1e140):
        row, coef = random.normal(size=6) * size, random.normal(size=6)
        z = [Fraction(value) for value in row.tolist()]
        squared = sum((value * value for value in z), Fraction(1))  # with the feature of the bias
        # t^2 |z|^2 <= 2 gap, as near as 60 digits
        wanted = 2 * Fraction(gap) / squared
        t = Fraction(math.isqrt(wanted.numerator * 10**1200 // wanted.denominator), 10**600)
        model = model_of(None, coef, 0.25, gap)
        scores, bounds, _ = judged(None, row[None], model)
        away = exact_score(None, row, coef, 0.25) + t * squared
        difference = abs(Fraction(float(scores[0])) - away)
        assert difference <= Fraction(float(bounds[0]))
        reach = t * squared
        rounding = Fraction(float(np.abs(row) @ np.abs(coef) + 1.0)) / 10**14
        assert Fraction(float(bounds[0])) <= reach * (1 + Fraction(1, 10**12)) + rounding + Fraction(2) ** -990


@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_several_classes_are_certain_only_beyond_the_rounding_of_both_scores(as_matrix: Any) -> None:
    frame = table(3, np.array([1e-3, 1.0, 10.0]), np.array([1e9, 0.0, -1e8]))
    pipeline = fit(Preprocess(scale="standard"), frame).pipeline
    random = np.random.default_rng(2)
    wrong = 0
    for seed in range(60):
        coef, intercept = random.normal(size=(3, 3)), random.normal(size=3)
        row = frame.X[seed % ROWS]
        # two classes nearly equal
        intercept[1] += float(
            exact_score(pipeline, row, coef[0], intercept[0]) - exact_score(pipeline, row, coef[1], intercept[1])
        ) + 1e-7 * float(random.normal())
        model = model_of(pipeline, coef, intercept, gap=0.0)
        scores, bounds, certain = judged(pipeline, as_matrix(row[None]), model)
        exact = [exact_score(pipeline, row, coef[k], float(intercept[k])) for k in range(3)]
        for k in range(3):
            assert abs(Fraction(float(scores[0, k])) - exact[k]) <= Fraction(float(bounds[0, k]))
        is_right = int(scores[0].argmax()) == exact.index(max(exact))
        wrong += not is_right
        assert is_right or not certain[0]
    assert wrong > 3


def test_words_and_levels_are_counted_like_numbers() -> None:
    texts = ["a b b", "b c", "a c c d", "d d d e"] * 3
    numbers = np.column_stack([[len(text) for text in texts], np.arange(12.0) + 1e9, np.arange(12) % 2])
    columns = [Column("words", "text"), Column("n"), Column("flag", "boolean")]
    frame = Frame(numbers, columns, {0: Strings.of(texts)})
    settings = {"words": {"kind": "text", "text": {"norm": "none", "idf": True}}}
    spec = Preprocess.model_validate({"scale": "standard", "columns": settings})
    pipeline = fit(spec, frame).pipeline
    matrix = transform(pipeline, frame)
    coef, intercept = weights(pipeline, matrix.shape[1], 5)
    model = model_of(pipeline, coef, intercept, gap=0.0)
    scores, bounds, _ = judged(pipeline, matrix, model)
    for row, score, bound in zip(as_rows(matrix), scores, bounds, strict=True):
        exact = exact_score(pipeline, row, coef, intercept)
        assert abs(Fraction(float(score)) - exact) <= Fraction(float(bound))
