"""SQL: score or label as one expression over the columns of a table: `SELECT (…) FROM rows`.

It uses only what SQLite and PostgreSQL both accept: identifiers in double quotes, shortest exact decimals, balanced
sums (SQLite limits the depth to 1,000). Values that predict refuses (a missing value or an unknown category, where the
model does not allow them, or a text that is no date) give NULL.
"""

import json
import sqlite3
from typing import Any

import numpy as np

from app.models.exports.export_format import ExportFormat, Output
from app.models.exports.probe import Probe
from app.models.exports.raw_columns import Table, Words
from app.models.exports.sql_dates import date_term
from app.models.exports.subject import Subject, not_in
from app.tabular.types import Array

MAX_COLUMNS = 1600
"""Maximum columns: a PostgreSQL table has at most 1600."""
MAX_CLASSES = 500
"""Maximum classes: SQLite limits a compound SELECT to 500 terms."""
MAX_BYTES = 1_000_000
"""Maximum bytes of an expression. Larger: slower parsing by the database, with every query. Set by hand; no measurement
is recorded."""
OTHERS = "use json, npz, safetensors, onnx or mlflow"


def write_score(subject: Subject, difference: float | None) -> bytes:
    scores = _scores(subject)
    if len(scores) == 1:
        return _document(subject, difference, "score", scores[0])
    return _document(subject, difference, "score", _largest(scores, "score", ["NULL"] * len(scores)))


def write_label(subject: Subject, difference: float | None) -> bytes:
    return _document(subject, difference, "label", _label(subject))


def scores(subject: Subject, content: bytes, probe: Probe) -> Array:
    """Compute scores with SQLite. An expression of labels is checked by the scores that it compares."""
    expression = write_score(subject, None).decode()
    columns = {"nothing": [None] * len(probe.expected)} | _probe_columns(Table.of(subject, "sql", ("date",)), probe)
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"CREATE TABLE probe ({', '.join(map(_identifier, columns))})")
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO probe VALUES ({marks})", zip(*columns.values(), strict=True))
        found = connection.execute(f"SELECT {expression} FROM probe ORDER BY rowid").fetchall()
    except sqlite3.OperationalError as error:  # such as an expression that its parser cannot hold
        raise not_in("sql", f"SQLite cannot read the expression ({error})", OTHERS) from error
    finally:
        connection.close()
    return np.array([score for (score,) in found])


def _probe_columns(table: Table, probe: Probe) -> dict[str, list[Any]]:
    if probe.numbers is None:
        return probe.columns
    names, used = table.number_names, np.flatnonzero(table.used)
    columns = {names[number]: probe.numbers[:, table.places[number]].tolist() for number in used}
    return {name: [None if value != value else value for value in values] for name, values in columns.items()}


def _document(subject: Subject, difference: float | None, output: str, expression: str) -> bytes:
    stated = "not yet known" if difference is None else repr(difference)
    task = subject.file.header.task
    lines = [
        f"-- Hyperplane model {subject.name}:{subject.version} ({subject.id}), {output} of task {task}",
        f"-- largest score difference from predict on a probe set: {stated}",
        *_threshold_line(subject),
        expression,
    ]
    content = "\n".join(lines).encode()
    if len(content) > MAX_BYTES:
        raise not_in("sql", f"the expression would exceed {MAX_BYTES} bytes", OTHERS)
    return content


def _threshold_line(subject: Subject) -> list[str]:
    header, limit = subject.file.header, subject.threshold
    if limit is None:
        return []
    label = json.dumps(str(header.classes[1]))  # on one line, whatever the label contains
    return [f"-- tuned threshold: a score above {limit!r} predicts {label}"]


def _scores(subject: Subject) -> list[str]:
    """Return one expression per score."""
    table = Table.of(subject, "sql", ("date",))
    used = np.flatnonzero(table.used).tolist()
    names = table.number_names
    columns = [names[number] for number in used] + [words.name for words in table.words]
    columns += [date.name for date in table.dates]
    if len(columns) > MAX_COLUMNS:
        raise not_in("sql", f"it has {len(columns)} columns; a table can have at most {MAX_COLUMNS}", OTHERS)
    if len({name.lower() for name in columns}) < len(columns):
        raise not_in("sql", "two of its column names differ only in case", OTHERS)
    expressions = []
    for row, intercept in enumerate(subject.rows_of_weights[1].tolist()):
        terms = [f"CAST({intercept!r} AS DOUBLE PRECISION)"]
        for number in used:
            terms += _number_terms(table, number, _identifier(names[number]), row)
        terms += [_word_term(words, row) for words in table.words]
        total = _sum(terms)
        if table.dates:  # as near the top as possible: SQLite's parser has a stack of 100 entries
            total = f"({total} + {_sum([date_term(_identifier(date.name), date, row) for date in table.dates])})"
        expressions.append(total)
    return expressions


def _number_terms(table: Table, number: int, column: str, row: int) -> list[str]:
    # PostgreSQL casts a boolean to an integer, but not to a double.
    value = f"CAST({column} AS INTEGER)" if table.boolean[number] else column
    value = f"CAST({value} AS DOUBLE PRECISION)"
    fill, missing = float(table.fill[number]), float(table.missing[row, number])
    if not np.isnan(fill):
        value = f"COALESCE({value}, {fill!r})"
    terms = [f"{value} * {float(table.weights[row, number])!r}"]
    if missing:
        terms.append(f"CASE WHEN {column} IS NULL THEN {missing!r} ELSE 0.0 END")
    return terms


def _word_term(words: Words, row: int) -> str:
    column = _identifier(words.name)
    missing, unknown = _weight(words.missing[row]), _weight(words.unknown[row])
    compared, cases = column, [f"WHEN {column} IS NULL THEN {missing}"]
    if words.is_text:
        literals = [_text(level) for level in words.levels]
        if "" not in words.levels:  # an empty text is missing
            cases.append(f"WHEN {column} = '' THEN {missing}")
    else:
        compared = f"CAST({column} AS INTEGER)" if words.stored == "boolean" else column
        literals = [repr(level) for level in words.numbers]
    weights = words.weights[row].tolist()
    cases += [f"WHEN {compared} = {level} THEN {weight!r}" for level, weight in zip(literals, weights, strict=True)]
    return f"CASE {' '.join(cases)} ELSE {unknown} END"


def _weight(weight: float) -> str:
    return "NULL" if np.isnan(weight) else repr(float(weight))


def _label(subject: Subject) -> str:
    scores, model = _scores(subject), subject.file
    labels = _label_literals(model.header.classes)
    if model.header.task == "multiclass":
        return _largest(scores, "label", labels)
    if model.header.task == "binary":
        limit = "0" if model.thresholds is None else repr(float(model.thresholds[0]))
        cases = [f'"score" <= {limit} THEN {labels[0]}', f'"score" > {limit} THEN {labels[1]}']
    elif model.thresholds is not None:
        limits = model.thresholds.tolist()
        cases = [f'"score" <= {limit!r} THEN {label}' for limit, label in zip(limits, labels, strict=False)]
        cases.append(f'"score" > {limits[-1]!r} THEN {labels[-1]}')
    else:
        return scores[0]  # regression: the label is the score
    choice = " ".join(["CASE", *(f"WHEN {case}" for case in cases), "END"])
    return f'(SELECT {choice} FROM (SELECT {scores[0]} AS "score") AS "scored")'


def _largest(scores: list[str], output: str, labels: list[str]) -> str:
    """Return label or score of the class with the largest score; of equal ones the first."""
    if len(scores) > MAX_CLASSES:
        raise not_in("sql", f"it has {len(scores)} classes; an expression can have at most {MAX_CLASSES}", OTHERS)
    classes = [
        f'SELECT {number} AS "number", {label} AS "label", {score} AS "score"'
        for number, (score, label) in enumerate(zip(scores, labels, strict=True))
    ]
    union = "\nUNION ALL ".join(classes)
    order = 'WHERE "score" IS NOT NULL ORDER BY "score" DESC, "number" LIMIT 1'
    return f'(SELECT "{output}" FROM ({union}) AS "scored" {order})'


def _sum(terms: list[str]) -> str:
    """Return the sum as a balanced tree of additions."""
    while len(terms) > 1:
        odd = terms[len(terms) - len(terms) % 2 :]
        terms = [f"({left} + {right})" for left, right in zip(terms[::2], terms[1::2], strict=False)] + odd
    return terms[0]


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _label_literals(classes: list[Any]) -> list[str]:
    """Return the labels as SQL literals: all as text if any is text."""
    if any(isinstance(label, str) for label in classes):
        return [_text(str(label)) for label in classes]
    return [repr(label) for label in classes]


SQL = ExportFormat(
    name="sql",
    media_type="application/sql",
    suffix="sql",
    write=write_score,
    scores=scores,
    outputs={"score": Output("sql", write_score), "label": Output("label.sql", write_label)},
)
