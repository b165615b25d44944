"""Scores rows with a linear model that was exported by Hyperplane: the loader of its MLflow folder.

    mlflow.pyfunc.load_model(folder).predict(frame)      a data frame: label, score and, if calibrated, probability

Needs Python 3.10, numpy and pandas, and no code of the service that trained the model. The data file is model.npz: the
weights in units of the raw columns, the learnt preprocessing, and `header`, the description as JSON. Columns are found
by name. Numbers can be of any numeric type, dates are datetimes or ISO texts (UTC if they have no zone), categories and
texts are of any string type. A cell that the model cannot read is a ValueError with its row and column.

    score = intercept + sum over numbers of weight x value    (a missing one: weight x fill + weight of missing)
                      + sum over categories of their weight   (by name, or by hash)
                      + sum over dates of weight x days since 1970 + weight of weekday + of month + of hour
                      + sum over texts of weight x term frequency, weighted and scaled as in training
"""

import json
import math
import re
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np

LEVELS = {"weekday": 7, "month": 12, "hour": 24}
MARKS = {"na", "n/a", "nan", "null", "none", "?", "-"}
TRUTHS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0}
NUMBER = re.compile(r"[ \t]*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*")
DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?:(Z)|([+-])(\d\d):?(\d\d))?)?", re.ASCII
)
WORD = re.compile(r"\b\w\w+\b")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 (Python 3.10 has no datetime.UTC)
DAY = 86400.0


class Model:
    def __init__(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.header, self.arrays = header, arrays
        self.coef = np.atleast_2d(arrays["coef"])
        self.pipeline = header["preprocess"]
        names = self._texts("names") if self.pipeline and self.pipeline["named"] else header["feature_names"]
        self.n_columns = self.pipeline["n_columns"] if self.pipeline else self.coef.shape[1]
        self.names = list(range(self.n_columns)) if names is None else names
        self.is_named = names is not None

    def scores(self, columns: dict[Any, Any], n_rows: int) -> Any:
        """Compute the scores [rows, scores per row] of columns: numpy arrays, or lists in which None is missing."""
        scores = np.tile(np.asarray(self.arrays["intercept"], dtype=float), (n_rows, 1))
        described = {"encoders": [], "ignored": []} if self.pipeline is None else self.pipeline
        encoders = {one["column"]: (number, one) for number, one in enumerate(described["encoders"])}
        ignored = set(described["ignored"])
        numbers = [column for column in range(self.n_columns) if column not in encoders and column not in ignored]
        rules = self._number_rules(len(numbers))
        matrix, places, at = np.empty((n_rows, len(numbers))), np.empty(len(numbers), dtype=np.int64), 0
        for column in range(self.n_columns):
            if column in ignored:
                continue
            name = self.names[column]
            values = columns.get(name)
            if column in encoders:
                added, width = self._encoded(*encoders[column], values, n_rows, at)
                scores += added
                at += width
            else:
                place = int(np.searchsorted(numbers, column))
                kind = "boolean" if rules["boolean"][place] else "numeric"
                matrix[:, place], places[place] = read_numbers(values, n_rows, name, kind), at
                _check_missing(np.isnan(matrix[:, place]), name, bool(rules["refuses_missing"][place]))
                at += 1 + int(rules["indicates"][place])
        gaps, indicates = np.isnan(matrix), rules["indicates"].astype(bool)
        scores += np.where(gaps, rules["fill"], matrix) @ self.coef[:, places].T
        return scores + gaps[:, indicates] @ self.coef[:, places[indicates] + 1].T

    def _number_rules(self, count: int) -> dict[str, Any]:
        names = ("boolean", "refuses_missing", "indicates", "fill")
        rules = {name: self.arrays.get(f"preprocess.numbers.{name}", np.zeros(count)) for name in names}
        return rules if self.pipeline else {**rules, "refuses_missing": np.ones(count)}

    def _encoded(self, number: int, rule: dict[str, Any], values: Any, n_rows: int, at: int) -> tuple[Any, int]:
        """Return what a column adds to the scores, and its number of features."""
        name = self.names[rule["column"]]
        if rule["type"] == "dates":
            seconds = read_numbers(values, n_rows, name, "date")
            missing = np.isnan(seconds)
            _check_missing(missing, name, rule["refuses_missing"])
            added, width = self._dates(rule, seconds, at)
        else:
            words = read_words(values, n_rows, name, rule["stored"])
            missing = np.array([word is None for word in words], dtype=bool)
            _check_missing(missing, name, rule["refuses_missing"])
            if rule["type"] == "text":
                added, width = self._terms(rule, number, words, at)
            else:
                added, width, blank = self._levels(rule, number, words, at)
                missing |= blank
        if rule["has_missing"]:
            added = added + np.outer(missing, self.coef[:, at + width])
        return added, width + rule["has_missing"]

    def _dates(self, rule: dict[str, Any], seconds: Any, at: int) -> tuple[Any, int]:
        present, added, width = ~np.isnan(seconds), np.zeros((len(seconds), len(self.coef))), 0
        days = np.floor(seconds[present] / DAY).astype(np.int64)
        for part in rule["parts"]:
            if part == "days":
                added += np.outer(np.where(present, seconds / DAY, rule["fill"]), self.coef[:, at + width])
            elif part == "weekday":
                added[present] += self.coef[:, at + width + (days + 3) % 7].T
            elif part == "month":
                months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
                added[present] += self.coef[:, at + width + months].T
            else:
                hours = np.floor(np.mod(seconds[present], DAY) / 3600.0).astype(np.int64)
                added[present] += self.coef[:, at + width + hours].T
            width += LEVELS.get(part, 1)
        return added, width

    def _levels(self, rule: dict[str, Any], number: int, words: list[Any], at: int) -> tuple[Any, int, Any]:
        """Return the weights of categories, their number, and which cells are empty, as those of a file can be."""
        if rule["type"] == "hash":
            places = np.array([-1 if word is None else bucket(word, rule["dims"]) for word in words], dtype=np.int64)
            blank, width = np.zeros(len(words), dtype=bool), rule["dims"]
        else:
            levels = {level: place for place, level in enumerate(self._texts(f"{number}.levels"))}
            other = len(levels) if rule["has_other"] else -1
            blank = np.array([word == "" and "" not in levels for word in words], dtype=bool)
            places = np.array([-1 if word in (None, "") else levels.get(word, other) for word in words], dtype=np.int64)
            if "" in levels:
                places[[word == "" for word in words]] = levels[""]
            if rule["refuses_unknown"]:
                unknown = [word not in (None, "") and word not in levels for word in words]
                if any(unknown):
                    name = self.names[rule["column"]]
                    raise _error(name, unknown.index(True), "the category did not occur in training")
            width = len(levels) + rule["has_other"]
        known = places >= 0
        added = np.zeros((len(words), len(self.coef)))
        added[known] = self.coef[:, at + places[known]].T
        return added, width, blank

    def _terms(self, rule: dict[str, Any], number: int, words: list[Any], at: int) -> tuple[Any, int]:
        settings = rule["settings"]
        dims = settings["hash"]
        terms = {} if dims else {term: place for place, term in enumerate(self._texts(f"{number}.vocabulary"))}
        rows: list[int] = []
        places: list[int] = []
        counts: list[int] = []
        for row, text in enumerate(words):
            found: dict[int, int] = {}
            for term in split_terms(text or "", settings):
                place = bucket(term, dims) if dims else terms.get(term, -1)
                if place >= 0:
                    found[place] = found.get(place, 0) + 1
            rows += [row] * len(found)
            places += found.keys()
            counts += found.values()
        row_of, place_of = np.array(rows, dtype=np.int64), np.array(places, dtype=np.int64)
        values: Any = np.array(counts, dtype=np.float64)
        if settings["sublinear"]:
            values = 1.0 + np.log(values)
        if settings["norm"] == "l2":  # without a norm, the weights contain the inverse document frequencies
            if settings["idf"]:
                values = values * self.arrays[f"preprocess.{number}.idf"][place_of]
            values = values / np.sqrt(np.bincount(row_of, values * values, minlength=len(words)))[row_of]
        added = [np.bincount(row_of, values * weights[at + place_of], minlength=len(words)) for weights in self.coef]
        return np.stack(added, axis=1), dims or len(terms)

    def _texts(self, name: str) -> list[str]:
        content = self.arrays.get(f"preprocess.{name}.bytes", np.zeros(0, dtype=np.uint8)).tobytes()
        offsets = self.arrays[f"preprocess.{name}.offsets"].tolist()
        return [content[first:last].decode() for first, last in pairwise(offsets)]

    def labels(self, scores: Any) -> Any:
        """Return the position of the predicted class of each row; None: the model has no classes."""
        if not self.header["classes"]:
            return None
        if self.header["task"] == "multiclass":
            return scores.argmax(axis=1)
        return np.searchsorted(self.arrays.get("thresholds", np.zeros(1)), scores[:, 0], side="left")

    def probabilities(self, scores: Any) -> Any:
        """Return the probabilities [rows, classes]; None: the model is not calibrated."""
        if self.header["calibration"] is None:
            return None
        method, arrays = self.header["calibration"]["method"], self.arrays
        if method == "softmax":
            odds = np.exp(scores - scores.max(axis=1, keepdims=True))
            return odds / odds.sum(axis=1, keepdims=True)
        if self.header["calibration"]["argument"] == "margin":
            order = np.sort(scores, axis=1)
            best, second = order[:, -1:], order[:, -2:-1]
            scores = np.where(scores == best, best - second, scores - best)
        if method == "platt":
            line = arrays["calibration.slope"] * scores + arrays["calibration.shift"]
            small = np.exp(-np.abs(line))
            values = np.where(line >= 0.0, 1.0, small) / (1.0 + small)
        else:
            starts, x, y = (arrays[f"calibration.{name}"] for name in ("starts", "scores", "values"))
            parts = [slice(first, last) for first, last in pairwise(starts)]
            values = np.stack([np.interp(scores[:, k], x[part], y[part]) for k, part in enumerate(parts)], axis=1)
        if values.shape[1] == 1:
            return np.hstack([1.0 - values, values])
        return values / values.sum(axis=1, keepdims=True)

    def answers(self, columns: dict[Any, Any], n_rows: int) -> dict[str, Any]:
        """Return the columns of the answer: `label`, `score` (the largest of several), `probability`."""
        scores = self.scores(columns, n_rows)
        best, chosen, classes = scores.max(axis=1), self.labels(scores), self.header["classes"]
        found: dict[str, Any] = {}
        if chosen is not None:
            texts = any(isinstance(label, str) for label in classes)
            labels = np.array([str(label) for label in classes], dtype=object) if texts else np.array(classes)
            found["label"] = labels[chosen]
        elif self.header["task"] == "regression":
            found["label"] = best
        found["score"] = best
        shares = self.probabilities(scores)
        if shares is not None:
            place = np.ones(n_rows, dtype=np.int64) if self.header["task"] == "binary" else chosen
            found["probability"] = shares[np.arange(n_rows), place]
        return found


def read_model(file: Any) -> Model:
    """Read the data file: a path or an open file."""
    with np.load(file, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return Model(json.loads(arrays.pop("header").tobytes()), arrays)


def read_numbers(values: Any, n_rows: int, name: Any, kind: str) -> Any:
    """Read numbers, booleans, or dates as seconds since 1970. Missing ones are NaN."""
    if values is None:
        return np.full(n_rows, np.nan)
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub" and kind != "date":
        numbers = values.astype(float)
    elif isinstance(values, np.ndarray) and values.dtype.kind == "M" and kind == "date":
        ticks = values.astype("datetime64[us]")
        numbers = np.where(np.isnat(ticks), np.nan, ticks.astype(np.int64) / 1e6)
    else:
        read = _date if kind == "date" else _truth if kind == "boolean" else _number
        numbers = np.array([read(value, name, row) for row, value in enumerate(_plain(values))], dtype=float)
    refused = np.isinf(numbers)
    if kind == "boolean":
        refused |= ~np.isin(numbers, (0.0, 1.0)) & ~np.isnan(numbers)
    if refused.any():
        raise _error(name, int(refused.argmax()), "must be true or false" if kind == "boolean" else "must be finite")
    return numbers


def read_words(values: Any, n_rows: int, name: Any, stored: str) -> list[str | None]:
    """Read categories or texts. Numbers are written as in training: whole ones without a decimal point."""
    if values is None:
        return [None] * n_rows
    if stored in ("numeric", "boolean"):
        numbers = read_numbers(values, n_rows, name, stored).tolist()
        written = _number_text if stored == "numeric" else lambda truth: "true" if truth else "false"
        return [None if math.isnan(number) else written(number) for number in numbers]
    return [_word(value, name, row) for row, value in enumerate(_plain(values))]


def split_terms(text: str, settings: dict[str, Any]) -> list[str]:
    words = WORD.findall(text.lower() if settings["lowercase"] else text)
    shortest, longest = settings["ngrams"]
    sizes = range(shortest, longest + 1)
    return [" ".join(words[k : k + size]) for size in sizes for k in range(len(words) - size + 1)]


def bucket(text: str, dims: int) -> int:
    """Return the hashed feature of a category or term: CRC-32 with the finalizer of MurmurHash3."""
    h = crc32(text.encode("utf-8", "surrogatepass"))
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return (h ^ h >> 16) % dims


def _plain(values: Any) -> list[Any]:
    return list(values.tolist() if isinstance(values, np.ndarray) else values)


def _is_nothing(value: Any) -> bool:
    if isinstance(value, str):
        bare = value.strip(" \t").lower()
        return not bare or bare in MARKS
    return value is None


def _number(value: Any, name: Any, row: int) -> float:
    if isinstance(value, bool | int | float | np.number | np.bool_):
        return float(value)
    if _is_nothing(value):
        return math.nan
    if isinstance(value, str) and NUMBER.fullmatch(value):
        return float(value)
    raise _error(name, row, "must be a finite number")


def _truth(value: Any, name: Any, row: int) -> float:
    truth = TRUTHS.get(value.strip(" \t").lower()) if isinstance(value, str) else None
    return _number(value, name, row) if truth is None else truth


def _date(value: Any, name: Any, row: int) -> float:
    if _is_nothing(value):
        return math.nan
    moment = _iso(value.strip(" \t")) if isinstance(value, str) else value
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        raise _error(name, row, "must be a datetime, or a text such as 2024-05-31 or 2024-05-31T12:00:00Z")
    return ((moment if moment.tzinfo else moment.replace(tzinfo=EPOCH.tzinfo)) - EPOCH).total_seconds()


def _iso(text: str) -> datetime | None:
    found = DATE.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, _, sign, hours, minutes = found.groups()
    micro = int((fraction or "0").ljust(6, "0")[:6])
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        moment = datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), micro)
        zone = timezone(-offset if sign == "-" else offset)
    except ValueError:  # such as 30 February
        return None
    return moment.replace(tzinfo=zone)


def _word(value: Any, name: Any, row: int) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        if math.isnan(value):
            return None
        if math.isfinite(value):
            return _number_text(float(value))
    if isinstance(value, date):
        return value.isoformat()
    raise _error(name, row, "must be a text")


def _number_text(number: float) -> str:
    return str(int(number)) if number == math.trunc(number) and abs(number) <= 2.0**53 else repr(float(number))


def _check_missing(missing: Any, name: Any, refused: bool) -> None:
    if refused and missing.any():
        raise _error(name, int(missing.argmax()), "the value is missing, which the model does not allow")


def _error(name: Any, row: int, why: str) -> ValueError:
    return ValueError(f"row {row}, column {name!r}: {why}")


class Loaded:
    """The model as MLflow calls it."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def predict(self, data: Any, params: Any = None) -> Any:
        """Return a data frame with the index of the rows that are given: a data frame, an array or lists."""
        import pandas

        frame = data if isinstance(data, pandas.DataFrame) else pandas.DataFrame(data)
        model = self.model
        if not model.is_named:
            if frame.shape[1] != model.n_columns:
                raise ValueError(f"the rows have {frame.shape[1]} columns; the model has {model.n_columns}")
            frame = frame.set_axis(range(model.n_columns), axis=1)
        used = [name for name in model.names if name in frame.columns]
        columns = {name: _cells(frame[name]) for name in used}
        return pandas.DataFrame(model.answers(columns, len(frame)), index=frame.index)


def _cells(series: Any) -> Any:
    """Return the cells of a column of any type: an array of numbers or dates, or a list in which None is missing."""
    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if getattr(series.dtype, "kind", "") in "fiubM" and isinstance(series.dtype, np.dtype):
        return series.to_numpy()
    gaps = series.isna().to_numpy()
    cells = np.array(series.astype(object), dtype=object)
    cells[gaps] = None
    return cells.tolist()


def _load_pyfunc(path: str) -> Loaded:
    return Loaded(read_model(path))
