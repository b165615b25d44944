"""SQL: a score, or a label, as one expression over the columns of a table: `SELECT (…) FROM rows`.

It keeps to what SQLite and PostgreSQL both read: identifiers in double quotes, doubles by their shortest exact
decimals, sums as trees (SQLite allows a depth of 1,000). NULL in a column that counts makes score and label NULL.
"""

import sqlite3
from typing import Any

import numpy as np

from app.models.exports.subject import Array, Subject, not_in

MAX_COLUMNS = 1600  # of a table of PostgreSQL
MAX_CLASSES = 500  # of a compound SELECT of SQLite
MAX_BYTES = 1_000_000
OTHERS = "take json, npz, safetensors, onnx or mlflow"


def write_score(subject: Subject, difference: float | None) -> bytes:
    scores = _scores(subject)
    if len(scores) == 1:
        return _document(subject, difference, "score", scores[0])
    return _document(subject, difference, "score", _largest(scores, "score", ["NULL"] * len(scores)))


def write_label(subject: Subject, difference: float | None) -> bytes:
    return _document(subject, difference, "label", _label(subject))


def scores(subject: Subject, content: bytes, rows: Array) -> Array:
    """By SQLite itself. An expression of labels is judged by the scores that it compares."""
    expression = write_score(subject, None).decode()
    columns = [_identifier(name) for name in subject.columns]
    used = np.flatnonzero(_used(subject))
    connection = sqlite3.connect(":memory:")
    try:
        names = ", ".join(columns[number] for number in used) or '"nothing"'
        marks = ", ".join("?" * len(used)) or "NULL"
        connection.execute(f"CREATE TABLE probe ({names})")
        connection.executemany(f"INSERT INTO probe VALUES ({marks})", rows[:, used].tolist())
        found = connection.execute(f"SELECT {expression} FROM probe ORDER BY rowid").fetchall()
    finally:
        connection.close()
    return np.array([score for (score,) in found])


def _document(subject: Subject, difference: float | None, output: str, expression: str) -> bytes:
    stated = "not yet known" if difference is None else repr(difference)
    task = subject.file.header.task
    lines = [
        f"-- Hyperplane model {subject.name}:{subject.version} ({subject.id}), {output} of task {task}",
        f"-- largest score difference from predict on a probe set: {stated}",
        expression,
    ]
    content = "\n".join(lines).encode()
    if len(content) > MAX_BYTES:
        raise not_in("sql", f"the expression would have more than {MAX_BYTES} bytes", OTHERS)
    return content


def _used(subject: Subject) -> Array:
    """Which features count in any score; the others are left out."""
    return np.asarray(np.any(subject.rows_of_weights[0] != 0.0, axis=0))


def _scores(subject: Subject) -> list[str]:
    coef, intercept = subject.rows_of_weights
    used = np.flatnonzero(_used(subject))
    if len(used) > MAX_COLUMNS:
        raise not_in("sql", f"{len(used)} columns are more than the {MAX_COLUMNS} of a table", OTHERS)
    columns = [subject.columns[number] for number in used]
    if len({name.lower() for name in columns}) < len(columns):
        raise not_in("sql", "two of its columns differ in nothing but case", OTHERS)
    values = [f"CAST({_identifier(name)} AS DOUBLE PRECISION)" for name in columns]
    weights = zip(coef[:, used].tolist(), intercept.tolist(), strict=True)
    return [_sum([_literal(b), *map(_product, values, w)]) for w, b in weights]


def _label(subject: Subject) -> str:
    scores, model = _scores(subject), subject.file
    labels = _label_literals(model.header.classes)
    if model.header.task == "multiclass":
        return _largest(scores, "label", labels)
    if model.header.task == "binary":
        cases = [f'"score" <= 0 THEN {labels[0]}', f'"score" > 0 THEN {labels[1]}']
    elif model.thresholds is not None:
        limits = model.thresholds.tolist()
        cases = [f'"score" <= {limit!r} THEN {label}' for limit, label in zip(limits, labels, strict=False)]
        cases.append(f'"score" > {limits[-1]!r} THEN {labels[-1]}')
    else:
        return scores[0]  # the label is a number: the score itself
    choice = " ".join(["CASE", *(f"WHEN {case}" for case in cases), "END"])
    return f'(SELECT {choice} FROM (SELECT {scores[0]} AS "score") AS "scored")'


def _largest(scores: list[str], output: str, labels: list[str]) -> str:
    """The label or the score of the class with the largest score, the first of equal ones."""
    if len(scores) > MAX_CLASSES:
        raise not_in("sql", f"{len(scores)} classes are more than the {MAX_CLASSES} of one expression", OTHERS)
    classes = [
        f'SELECT {number} AS "number", {label} AS "label", {score} AS "score"'
        for number, (score, label) in enumerate(zip(scores, labels, strict=True))
    ]
    union = "\nUNION ALL ".join(classes)
    order = 'WHERE "score" IS NOT NULL ORDER BY "score" DESC, "number" LIMIT 1'
    return f'(SELECT "{output}" FROM ({union}) AS "scored" {order})'


def _product(value: str, weight: float) -> str:
    return f"{value} * {weight!r}"


def _sum(terms: list[str]) -> str:
    """As a balanced tree of additions."""
    while len(terms) > 1:
        odd = terms[len(terms) - len(terms) % 2 :]
        terms = [f"({left} + {right})" for left, right in zip(terms[::2], terms[1::2], strict=False)] + odd
    return terms[0]


def _literal(number: float) -> str:
    return f"CAST({number!r} AS DOUBLE PRECISION)"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _label_literals(classes: list[Any]) -> list[str]:
    """Labels as SQL writes them; if some are text, all are."""
    if any(isinstance(label, str) for label in classes):
        return ["'" + str(label).replace("'", "''") + "'" for label in classes]
    return [repr(label) for label in classes]
