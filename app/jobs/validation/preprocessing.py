"""Check a job's preprocessing and estimate its features, without reading the rows."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from app.datasets.arrays import left_out_columns
from app.db.tables import DatasetRow
from app.errors import Invalid, invalid_field
from app.jobs.schemas import TrainingFields
from app.preprocess.column_figures import rows_in_single
from app.preprocess.dates import LEVELS
from app.preprocess.inputs import Inputs
from app.preprocess.preprocess_error import PreprocessError, called
from app.preprocess.spec import Choice, Preprocess, TextSettings
from app.preprocess.values import check_kind
from app.tabular.frame import Column

# Typical figures of news articles and short messages, to estimate the features of texts without reading them. No
# measurement is recorded.
BYTES_A_TEXT, BYTES_A_WORD, DISTINCT = 500, 6.0, 0.7
NEW_WORDS, NEW_PAIRS = 70.0, 0.5
BYTES_A_TERM = 100
"""Estimated memory in bytes per term while a vocabulary is learnt. Larger: larger memory estimates. Set by hand; no
measurement is recorded."""
MOST_LEARNING_BYTES = BYTES_A_TERM << 22
"""Maximum estimate in bytes of the memory while a vocabulary is learnt: BYTES_A_TERM for each of text_counts.MAX_TERMS
terms."""


def resolve(request: TrainingFields, dataset: DatasetRow) -> Preprocess | None:
    """Return the preprocessing to apply: the requested one, or the defaults if a column is not numeric or has gaps."""
    if request.preprocess is None and any(_needs_work(column) for column in _features(dataset)):
        return Preprocess()
    return request.preprocess


def check_columns(spec: Preprocess | None, dataset: DatasetRow) -> None:
    """Refuse settings that do not fit the columns of the dataset."""
    if spec is None:
        return
    features = {column["name"]: column for column in _features(dataset)}
    for name in spec.columns:
        if name not in features:
            known = (
                "the columns of the dataset have no names"
                if not features
                else "the dataset has no feature column of this name"
            )
            raise invalid_field(f"preprocess.columns.{name[:64]}", "unknown_column", known)
    for name, column in features.items():
        choice = spec.of(name)
        if not choice.ignore:
            _check_column(name, column, choice)
    if features and all(spec.of(name).ignore for name in features):
        raise invalid_field("preprocess.columns", "no_features", "all columns are ignored; keep at least one")


def check_test_columns(spec: Preprocess | None, train: DatasetRow, test: DatasetRow, field: str) -> None:
    """Refuse a test dataset that lacks columns of the training dataset. Columns are matched by name."""
    wanted = _features(train)
    there = {column["name"]: column for column in [*_features(test), *left_out_columns(test)]}
    for column in wanted if there else ():
        name = column["name"]
        if name not in there and not (spec is not None and spec.of(name).ignore):
            raise invalid_field(
                field, "missing_column", f"it has no column {called(name)}, which the training dataset has"
            )
        if spec is None and _needs_work(there[name]):
            detail = f'its column {called(name)} is not numeric, unlike in the training dataset; set "preprocess": {{}}'
            raise invalid_field(field, "needs_preprocessing", detail)
    if wanted and not there and test.n_features != train.n_features:
        detail = f"it has {test.n_features} features, the training dataset {train.n_features}"
        raise invalid_field(field, "feature_mismatch", detail)
    if spec is not None and there:
        choices = [spec.of(column["name"]) for column in wanted]
        ignored = frozenset(j for j, choice in enumerate(choices) if choice.ignore)
        kinds = {j: choice.taken_for(wanted[j].get("kind", "numeric")) for j, choice in enumerate(choices)}
        try:
            inputs = Inputs(tuple(column["name"] for column in wanted), len(wanted), ignored, kinds)
            check_inputs(inputs, test, whole=True)
        except PreprocessError as error:
            raise _refusal(error, field) from error


def check_inputs(inputs: Inputs, dataset: DatasetRow, target: str | None = None, *, whole: bool = False) -> None:
    """Raise PreprocessError for a dataset without these columns. `target`: its target, which can be one of them.
    `whole`: columns that were left out when the file was read can be among them."""
    stored = [*_features(dataset), *(left_out_columns(dataset) if whole else ())]
    columns = [Column(column["name"], column.get("kind", "numeric")) for column in stored]
    sparse, width = dataset.storage == "csr", dataset.n_features + len(stored) - len(_features(dataset))
    if target is not None and inputs.stands_for(target, columns, sparse=sparse):
        columns.append(inputs.read_labels(target, dataset.label_names)[0])
        width += 1

    def is_empty(place: int) -> bool:
        return place < len(stored) and stored[place].get("missing") == dataset.n_rows

    inputs.places(columns, width, sparse=sparse, is_empty=is_empty)


class Expected(NamedTuple):
    """The features that training will see: exact for numeric columns, else an estimate."""

    n_features: int
    entries: int
    sparse: bool
    learning_bytes: int = 0
    """Additional memory in bytes while a vocabulary is learnt."""
    is_plain: bool = False
    """Whether every feature is a numeric column without missing values."""
    nonzeros: int | None = None
    """Number of nonzero values, if zeros can stay zeros: dense rows with few nonzeros are trained as sparse rows."""

    def value_bytes(self, n_rows: int, tol: float) -> int:
        """Return the bytes of a number as the solver stores it for this many rows: 4 or 8."""
        return 4 if self.is_plain and not self.sparse and rows_in_single(n_rows, self.n_features, tol) else 8


def expected(spec: Preprocess | None, dataset: DatasetRow, text_bytes: Mapping[int, int] | None = None) -> Expected:
    """Estimate the features of a dataset. `text_bytes`: total bytes of the texts of a column, by its number."""
    columns, sparse, n_rows = _features(dataset), dataset.storage == "csr", dataset.n_rows
    if spec is None or not columns:
        entries = dataset.nnz if sparse else n_rows * dataset.n_features
        nonzeros = None if spec is not None and spec.scale == "standard" else dataset.nnz
        return Expected(dataset.n_features, entries, sparse, is_plain=True, nonzeros=nonzeros)
    width = entries = learning = 0
    for number, column in enumerate(columns):
        choice = spec.of(column["name"])
        kind = choice.kind or column.get("kind", "numeric")
        if choice.ignore:
            continue
        if kind == "text":
            words = (text_bytes or {}).get(number, n_rows * BYTES_A_TEXT) / BYTES_A_WORD
            width += _terms(choice.text, words, n_rows)
            entries += round(words * (1 + choice.text.ngrams[1] - choice.text.ngrams[0]) * DISTINCT)
            every = choice.text.model_copy(update={"max_features": None, "min_df": 1})
            learning += 0 if every.hash else min(BYTES_A_TERM * _terms(every, words, n_rows), MOST_LEARNING_BYTES)
        else:
            width += _width(kind, column, choice, n_rows)
            entries += n_rows * (3 if kind == "date" else 1)
    is_sparse = sparse or 12 * entries + 8 * n_rows < 8 * n_rows * width
    is_plain = all(_stays_as_it_is(column, spec.of(column["name"])) for column in columns)
    keeps_zeros = is_plain and all(spec.of(column["name"]).scale != "standard" for column in columns)
    entries = max(1, entries if is_sparse else n_rows * width)
    return Expected(max(1, width), entries, is_sparse, learning, is_plain, dataset.nnz if keeps_zeros else None)


def _features(dataset: DatasetRow) -> list[dict[str, Any]]:
    return [column for column in dataset.columns or () if column["role"] == "feature"]


def _needs_work(column: dict[str, Any]) -> bool:
    """Return whether a column needs preprocessing. A model without it cannot store the format of its numbers."""
    is_plain = column.get("kind", "numeric") == "numeric" and "format" not in column
    return not is_plain or bool(column.get("missing"))


def _stays_as_it_is(column: dict[str, Any], choice: Choice) -> bool:
    kind = choice.kind or column.get("kind", "numeric")
    return kind in ("numeric", "boolean") and not column.get("missing") and not choice.ignore


def _check_column(name: str, column: dict[str, Any], choice: Choice) -> None:
    field, stored = f"preprocess.columns.{name[:64]}", column.get("kind", "numeric")
    if choice.kind is not None and (stored, choice.kind) != ("date", "numeric"):
        try:
            check_kind(name, stored, choice.kind)
        except PreprocessError as error:
            raise _refusal(error, f"{field}.kind") from error
    if choice.missing == "error" and column.get("missing"):
        detail = f"column {called(name)} has {column['missing']} missing values"
        raise invalid_field("preprocess.missing", "missing_values", detail)


def _refusal(error: PreprocessError, field: str) -> Invalid:
    return invalid_field(field, error.code, error.message)


def _width(kind: str, column: dict[str, Any], choice: Choice, n_rows: int) -> int:
    if kind == "categorical":
        return choice.hash_dims if choice.categorical == "hash" else int(column.get("levels") or min(n_rows, 1000))
    return 1 + len(LEVELS["weekday"]) + len(LEVELS["month"]) if kind == "date" else 1


def _terms(settings: TextSettings, words: float, n_rows: int) -> int:
    """Estimate the number of different terms among `words` words, by Heaps' law; about half of them occur once."""
    if settings.hash is not False:
        return int(settings.hash)
    least = max(1.0, settings.min_df if isinstance(settings.min_df, int) else settings.min_df * n_rows)
    pairs = NEW_PAIRS * words * (settings.ngrams[1] - 1)
    terms = min(words, NEW_WORDS * math.sqrt(words) / least + pairs / least**2)
    return 1 + round(min(terms, settings.max_features or terms))
