"""Learns a pipeline from the training rows, and converts stored rows to features."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from app.preprocess import text_counts
from app.preprocess.categorical import fit_levels
from app.preprocess.column_figures import Figures, rows_in_single
from app.preprocess.dates import DAY, Dates, has_times
from app.preprocess.features import Encoder, is_sparse
from app.preprocess.inputs import Inputs
from app.preprocess.measure_columns import measure
from app.preprocess.numeric import Numbers, choose_scale, disparity, units
from app.preprocess.pipeline import Pipeline, Warning
from app.preprocess.preprocess_error import PreprocessError, called
from app.preprocess.scaling import scaled_rows
from app.preprocess.spec import Choice, DatePart, Preprocess
from app.preprocess.terms import Terms
from app.preprocess.text_fit import fit_terms
from app.preprocess.values import Levels, Texts, check_kind, missing_rows, stored_values
from app.tabular.cell_format import PLAIN
from app.tabular.frame import Column, Frame, Kind, Strings
from app.tabular.types import Array

MAX_SUMMARIES = 1000
"""Maximum number of columns that the model's card describes. Larger: larger cards. Set by hand; no measurement is
recorded."""


class Fitted(NamedTuple):
    pipeline: Pipeline
    report: dict[str, Any]
    """Description for the model's card: the choices of `auto`, and the features of each column."""
    warnings: list[Warning]


def fit(spec: Preprocess, frame: Frame, tol: float = 0.0) -> Fitted:
    """Learn a pipeline from these rows only. Raises PreprocessError.

    `tol` is the relative tolerance of the training. Rows for a coarse tolerance can be stored in single precision.
    """
    return _Fit(spec, frame, tol).fitted()


def transform(pipeline: Pipeline, frame: Frame) -> Any:
    """Convert stored rows to features in raw units, dense or CSR. Columns are matched by name. Raises
    PreprocessError."""
    places = _places(pipeline.inputs, frame)
    numbers = _numbers_of(frame, places[pipeline.numbers.columns], pipeline)
    if not is_sparse(numbers):
        pipeline.check_numbers(numbers)
    blocks = []
    for encoder in pipeline.encoders:
        place, name = int(places[encoder.column]), pipeline.name(encoder.column)
        # a date column of training can be stored as another kind if it has no values
        stored: Kind = _kind(frame, place) if encoder.kind != "date" else "date"
        values = stored_values(frame, place, name, stored, encoder.kind)
        if isinstance(values, Texts):
            text_counts.warm()
        pipeline.check_missing(encoder, values)
        blocks.append(encoder.encode(values, name, text_counts.count_terms))
    return pipeline.joined(pipeline.numbers.encode(numbers), blocks)


def solver_rows(pipeline: Pipeline, frame: Frame) -> Any:
    """Convert stored rows to features in the units of the solver."""
    features = transform(pipeline, frame)
    return scaled_rows(pipeline, features, in_place=_is_own(features, frame))


def aligned(frame: Frame, columns: Sequence[Column]) -> Frame:
    """Return numeric rows with their columns in the order of `columns`, matched by name if both have names. Raises
    PreprocessError."""
    if not columns or not frame.columns:
        return frame
    places = _places(Inputs(tuple(column.name for column in columns), len(columns)), frame)
    return frame if _is_every(places, frame.n_features) else Frame(frame.X[:, places], columns)


def scale_warning(frame: Frame) -> list[Warning]:
    """Return a warning if rows without preprocessing have columns of very different scales."""
    reason = disparity(measure(frame.X, np.arange(frame.n_features)), is_sparse(frame.X))
    if reason is None:
        return []
    detail = f'{reason}: training can be slow and the model poor; set "preprocess": {{}} to scale them'
    return [{"code": "scales_differ", "detail": detail}]


class _Fit:
    def __init__(self, spec: Preprocess, frame: Frame, tol: float) -> None:
        self.spec, self.frame, self.tol = spec, frame, tol
        self.fits_single = False
        self.names = tuple(column.name for column in frame.columns) or None
        self.warnings: list[Warning] = []
        self.summaries: list[dict[str, Any]] = []
        self.missing = 0
        self._refuse_unknown_columns()

    def fitted(self) -> Fitted:
        n = self.frame.n_features
        choices = [self.spec.of(column.name) for column in self.frame.columns] or [self.spec.of(None)] * n
        kinds = [choice.taken_for(_kind(self.frame, j)) for j, choice in enumerate(choices)]
        for j, column in enumerate(self.frame.columns):
            check_kind(column.name, column.kind, kinds[j])
        ignored = frozenset(j for j, choice in enumerate(choices) if choice.ignore)
        numeric = [j for j in range(n) if j not in ignored and kinds[j] in ("numeric", "boolean")]
        others = [j for j in range(n) if j not in ignored and kinds[j] not in ("numeric", "boolean")]
        numbers = self._fit_numbers(np.array(numeric, dtype=np.int64), choices)
        encoders = tuple(self._fit_column(j, kinds[j], choices[j]) for j in others)
        sparse = is_sparse(self.frame.X)
        formats = {j: column.format for j, column in enumerate(self.frame.columns) if column.format != PLAIN}
        pipeline = Pipeline(self.names, n, ignored, numbers, encoders, sparse, formats=formats)
        if self.fits_single and not sparse and pipeline.is_plain:  # in all other cases the features are already a copy
            pipeline = replace(pipeline, single=rows_in_single(self.frame.n_rows, n, self.tol))
        if not pipeline.n_features:
            raise PreprocessError("no_features", "all columns are ignored; keep at least one")
        if self.missing:
            detail = f"{self.missing} cells of the training rows are missing; `missing` is {self.spec.missing}"
            self.warnings.append({"code": "missing_values", "detail": detail})
        return Fitted(_stored_smaller(pipeline, self.frame, others), self._report(pipeline), self.warnings)

    def _fit_numbers(self, columns: Array, choices: list[Choice]) -> Numbers:
        frame, sparse = self.frame, is_sparse(self.frame.X)
        figures = measure(frame.X, columns)
        boolean = np.array([_kind(frame, j) == "boolean" for j in columns.tolist()], dtype=bool)
        scales = self._scales(columns, boolean, figures, choices)
        shift, scale = np.zeros(len(columns)), np.ones(len(columns))
        for one in set(scales):
            chosen = np.array([other == one for other in scales], dtype=bool)
            all_shifts, all_scales = units(one, figures, sparse)
            shift, scale = np.where(chosen, all_shifts, shift), np.where(chosen, all_scales, scale)
        policies = np.array([choices[j].missing for j in columns.tolist()], dtype=object)
        refuses = (policies == "error").astype(bool)
        numbers = Numbers(
            columns=columns,
            boolean=boolean,
            refuses_missing=refuses,
            indicates=(policies == "indicator").astype(bool) & (figures.missing > 0),
            fill=np.where((policies == "zero") | refuses, 0.0, figures.mean),
            shift=shift,
            scale=scale,
        )
        self.fits_single = figures.fit_single(shift, scale)
        self._summarize_numbers(numbers, figures, scales)
        return numbers

    def _scales(self, columns: Array, boolean: Array, figures: Figures, choices: list[Choice]) -> list[str]:
        """Return the scaling of each column. Boolean columns are scaled only if their own settings say so."""
        wanted: list[str] = [choices[j].scale for j in columns.tolist()]
        own = [self.names is not None and self._says_scale(j) for j in columns.tolist()]
        for place, is_boolean in enumerate(boolean.tolist()):
            if is_boolean and not own[place]:
                wanted[place] = "none"
        undecided = np.array([scale == "auto" for scale in wanted], dtype=bool)
        sparse = is_sparse(self.frame.X)
        self.auto_scale = "standard"
        if undecided.any():
            self.auto_scale, reason = choose_scale(_of(figures, undecided), sparse)
            self.warnings.append({"code": "scale_chosen", "detail": f"scale auto is {self.auto_scale}: {reason}"})
            wanted = [self.auto_scale if scale == "auto" else scale for scale in wanted]
        if sparse and {"standard", "minmax"} & set(wanted):
            detail = "sparse columns are scaled but not centred, so that zeros stay zeros"
            self.warnings.append({"code": "not_centred", "detail": detail})
        return wanted

    def _says_scale(self, column: int) -> bool:
        own = self.spec.columns.get(self.frame.columns[column].name)
        return own is not None and own.scale is not None

    def _fit_column(self, column: int, kind: Kind, choice: Choice) -> Encoder:
        stored, name = _kind(self.frame, column), self.frame.columns[column].name
        values = stored_values(self.frame, column, name, stored, kind)
        missing = missing_rows(values)
        if choice.missing == "error" and missing.any():
            raise _missing(name, int(missing.sum()), int(missing.argmax()))
        encoder: Encoder
        if isinstance(values, Levels):
            encoder = fit_levels(column, stored, values, choice)
        elif isinstance(values, Texts):
            encoder = self._fit_texts(column, stored, values, choice)
        else:
            encoder = self._fit_dates(column, values, choice)
        self._summarize(name, kind, int(missing.sum()), encoder.width, encoder.summary())
        return encoder

    def _fit_texts(self, column: int, stored: Kind, values: Texts, choice: Choice) -> Terms:
        assert isinstance(values.texts, Strings)  # texts of stored rows are always Strings
        text_counts.warm()
        learnt = fit_terms(values.texts, choice.text)
        name = self.frame.columns[column].name
        if learnt.forgotten:
            detail = (
                f"column {called(name)} has more than {text_counts.MAX_TERMS:,} different terms: terms of up to "
                f"{learnt.forgotten} texts can be missing; `hash` has no such limit"
            )
            self.warnings.append({"code": "vocabulary_pruned", "detail": detail})
        if learnt.vocabulary is not None and not len(learnt.vocabulary):
            detail = f"column {called(name)} has no term within min_df and max_df"
            self.warnings.append({"code": "no_terms", "detail": detail})
        indicates = choice.missing == "indicator" and bool(values.missing.any())
        refuses = choice.missing == "error"
        return Terms(column, stored, choice.text, learnt.vocabulary, learnt.idf, indicates, refuses)

    def _fit_dates(self, column: int, seconds: Array, choice: Choice) -> Dates:
        parts: tuple[DatePart, ...] = ("days",)
        if choice.dates is not None:
            parts = choice.dates
        elif choice.kind != "numeric":
            parts = ("days", "weekday", "month", "hour") if has_times(seconds) else ("days", "weekday", "month")
            shown = called(self.frame.columns[column].name)
            self.warnings.append({"code": "date_parts", "detail": f"column {shown} became {', '.join(parts)}"})
        days = measure(seconds[:, None] / DAY, np.arange(1))
        scale = "standard" if choice.scale == "auto" else choice.scale
        shift, divisor = units(scale, days, False)
        fills = choice.missing not in ("zero", "error")
        return Dates(
            column,
            tuple(dict.fromkeys(parts)),
            fill=float(days.mean[0]) if fills else 0.0,
            shift=float(shift[0]),
            scale=float(divisor[0]),
            has_missing=choice.missing == "indicator" and bool(np.isnan(seconds).any()),
            refuses_missing=choice.missing == "error",
        )

    def _refuse_unknown_columns(self) -> None:
        known = set(self.names or ())
        for name in self.spec.columns:
            if name not in known:
                message = f"the dataset has no feature column {called(name)}"
                raise PreprocessError("unknown_column", message, name)

    def _summarize_numbers(self, numbers: Numbers, figures: Figures, scales: list[str]) -> None:
        refused = np.flatnonzero(numbers.refuses_missing & (figures.missing > 0))
        if len(refused):
            place = int(refused[0])
            name = self._name(int(numbers.columns[place]))
            raise _missing(name, int(figures.missing[place]), int(figures.first_missing[place]))
        self.missing += int(figures.missing.sum())
        for place in range(min(len(numbers.columns), MAX_SUMMARIES)):
            column = int(numbers.columns[place])
            figure = {name: float(getattr(numbers, name)[place]) for name in ("fill", "shift", "scale")}
            kind = "boolean" if numbers.boolean[place] else "numeric"
            missing, width = int(figures.missing[place]), 1 + int(numbers.indicates[place])
            self.summaries.append(
                {"name": self._name(column), "kind": kind, "missing": missing, "features": width}
                | {"scaling": scales[place], **figure}
            )

    def _summarize(self, name: str, kind: Kind, missing: int, width: int, learnt: dict[str, Any]) -> None:
        self.missing += missing
        if len(self.summaries) < MAX_SUMMARIES:
            self.summaries.append({"name": name, "kind": kind, "missing": missing, "features": width, **learnt})

    def _name(self, column: int) -> str:
        return str(column) if self.names is None else self.names[column]

    def _report(self, pipeline: Pipeline) -> dict[str, Any]:
        asked = self.spec.model_dump(mode="json", exclude={"columns"})
        scale = self.auto_scale if self.spec.scale == "auto" else self.spec.scale
        return {
            "settings": {**asked, "scale": scale},
            "n_columns": pipeline.n_columns,
            "n_features": pipeline.n_features,
            "columns": self.summaries,
            "ignored": sorted(pipeline.name(column) for column in pipeline.ignored),
        }


def _stored_smaller(pipeline: Pipeline, frame: Frame, others: list[int]) -> Pipeline:
    """Return the pipeline with dense or CSR features, whichever needs less memory."""
    if pipeline.sparse or not others:
        return pipeline
    entries = float(pipeline.numbers.width)
    for encoder in pipeline.encoders:
        if isinstance(encoder, Terms):
            # assume six bytes per word, five letters and a space; exact enough to tell a table of flags from a table of
            # texts
            lengths = frame.X[:, encoder.column]
            entries += min(float(np.nansum(lengths)) / 6 / max(1, frame.n_rows), encoder.width)
        else:
            entries += len(encoder.parts) if isinstance(encoder, Dates) else 1
    is_smaller = 12 * entries + 8 < 8 * pipeline.n_features
    return replace(pipeline, sparse=is_smaller)


def _places(inputs: Inputs, frame: Frame) -> Array:
    sparse = is_sparse(frame.X)
    return inputs.places(frame.columns, frame.n_features, sparse=sparse, is_empty=frame.is_empty)


def _numbers_of(frame: Frame, places: Array, pipeline: Pipeline) -> Any:
    """Return the table of the numeric columns. Returns the stored table itself if it has no other columns."""
    X = frame.X
    if is_sparse(X):
        # a sparse file can have fewer columns than the model; the last ones are zeros
        if X.shape[1] < pipeline.n_columns:
            X = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], pipeline.n_columns))
        return X if len(places) == X.shape[1] else X[:, places]
    return X if _is_every(places, X.shape[1]) else np.asarray(X[:, places], dtype=np.float64)


def _is_every(places: Array, n_columns: int) -> bool:
    return len(places) == n_columns and bool((places == np.arange(n_columns)).all())


def _is_own(features: Any, frame: Frame) -> bool:
    """Return whether the features are a copy and not the stored rows."""
    if is_sparse(features):
        return not is_sparse(frame.X)
    return not np.shares_memory(features, frame.X)


def _kind(frame: Frame, column: int) -> Kind:
    return frame.columns[column].kind if frame.columns else "numeric"


def _of(figures: Figures, chosen: Array) -> Figures:
    return Figures(*(getattr(figures, name)[chosen] for name in Figures.__dataclass_fields__))


def _missing(name: str, count: int, row: int) -> PreprocessError:
    message = f"column {called(name)} has {count} missing values in the training rows, the first in training row {row}"
    return PreprocessError("missing_values", message, name, row)
