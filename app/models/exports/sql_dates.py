"""The weighted parts of a date column in SQL that SQLite and PostgreSQL both accept.

The two have no function of dates in common. Both can cast a column to an ISO text (PostgreSQL from `date`, `timestamp`
and `timestamptz`, SQLite from the text that it stores), cut it and compute with integers. Only integers are divided,
so that both round towards zero, and every dividend is made positive first. There is no modulo: drivers would take its
sign for a placeholder. Each step is a named query, because SQLite limits the depth of nested ones, and has LIMIT 1,
which keeps both from replacing names by their expressions: that would multiply the size of the expression.
"""

import numpy as np

from app.models.exports.raw_columns import DateColumn
from app.tabular.cells import MARKS

SHIFT = 1_000_000
"""Days that are added before a division and subtracted afterwards. Every date from the year 1 on becomes positive, and
its remainder by 7 is 1: day n since 1970, a Thursday, has the weekday (n + SHIFT + 2) mod 7."""

STEPS = """
"text" AS (SELECT TRIM(CAST({column} AS TEXT)) AS "t" LIMIT 1),

"zoned" AS (SELECT "t", CASE
    WHEN LENGTH("t") <= 16 THEN 0
    WHEN SUBSTR("t", LENGTH("t"), 1) = 'Z' THEN 1
    WHEN SUBSTR("t", LENGTH("t") - 8, 1) IN ('+', '-') THEN 9
    WHEN SUBSTR("t", LENGTH("t") - 5, 1) IN ('+', '-') THEN 6
    WHEN SUBSTR("t", LENGTH("t") - 4, 1) IN ('+', '-') THEN 5
    WHEN SUBSTR("t", LENGTH("t") - 2, 1) IN ('+', '-') THEN 3
    ELSE 0 END AS "z" FROM "text" LIMIT 1),

"cells" AS (SELECT
    CAST(SUBSTR("t", 1, 4) AS INTEGER) AS "y",
    CAST(SUBSTR("t", 6, 2) AS INTEGER) AS "m",
    CAST(SUBSTR("t", 9, 2) AS INTEGER) AS "d",
    CASE WHEN LENGTH("t") >= 16 THEN CAST(SUBSTR("t", 12, 2) AS INTEGER) ELSE 0 END AS "h",
    CASE WHEN LENGTH("t") >= 16 THEN CAST(SUBSTR("t", 15, 2) AS INTEGER) ELSE 0 END AS "i",
    CASE WHEN LENGTH("t") - "z" >= 19 THEN CAST(SUBSTR("t", 18, 2) AS INTEGER) ELSE 0 END AS "s",
    CASE WHEN LENGTH("t") - "z" > 20
        THEN CAST('0.' || SUBSTR("t", 21, LENGTH("t") - "z" - 20) AS DOUBLE PRECISION) ELSE 0.0 END AS "f",
    CASE WHEN "z" < 3 THEN 0 ELSE
        (CASE WHEN SUBSTR("t", LENGTH("t") - "z" + 1, 1) = '-' THEN -1 ELSE 1 END)
        * (3600 * CAST(SUBSTR("t", LENGTH("t") - "z" + 2, 2) AS INTEGER)
            + CASE "z" WHEN 3 THEN 0
                WHEN 9 THEN 60 * CAST(SUBSTR("t", LENGTH("t") - 4, 2) AS INTEGER)
                    + CAST(SUBSTR("t", LENGTH("t") - 1, 2) AS INTEGER)
                ELSE 60 * CAST(SUBSTR("t", LENGTH("t") - 1, 2) AS INTEGER) END) END AS "o"
    FROM "zoned" WHERE SUBSTR("t", 1, 10) LIKE '____-__-__' LIMIT 1),

"march" AS (SELECT "d", "h", "i", "s", "f", "o",
    CASE WHEN "m" <= 2 THEN "y" - 1 ELSE "y" END AS "y",
    CASE WHEN "m" <= 2 THEN "m" + 9 ELSE "m" - 3 END AS "m"
    FROM "cells" WHERE "y" > 0 AND "m" BETWEEN 1 AND 12
        AND "h" BETWEEN 0 AND 23 AND "i" BETWEEN 0 AND 59 AND "s" BETWEEN 0 AND 59
        AND "d" BETWEEN 1 AND CASE WHEN "m" IN (4, 6, 9, 11) THEN 30 WHEN "m" <> 2 THEN 31
            WHEN ("y" / 4) * 4 = "y" AND (("y" / 100) * 100 <> "y" OR ("y" / 400) * 400 = "y") THEN 29 ELSE 28 END
    LIMIT 1),

"moment" AS (SELECT "f",
    CAST(365 * "y" + "y" / 4 - "y" / 100 + "y" / 400 + (153 * "m" + 2) / 5 + "d" - 719469 + {shift} AS BIGINT) * 86400
        + 3600 * "h" + 60 * "i" + "s" - "o" AS "w" FROM "march" LIMIT 1),

"day" AS (SELECT "f", "w", "w" / 86400 AS "n", "w" / 86400 + 719468 + 146097 - {shift} AS "c" FROM "moment" LIMIT 1),

"cycle" AS (SELECT "f", "w", "n", "c" - ("c" / 146097) * 146097 AS "e" FROM "day" LIMIT 1),

"year" AS (SELECT "f", "w", "n", "e", ("e" - "e" / 1460 + "e" / 36524 - "e" / 146096) / 365 AS "a"
    FROM "cycle" LIMIT 1),

"parts" AS (SELECT
    ("w" - 86400 * CAST({shift} AS BIGINT) + "f") / 86400.0 AS "days",
    "n" + 2 - (("n" + 2) / 7) * 7 AS "weekday",
    (5 * ("e" - (365 * "a" + "a" / 4 - "a" / 100)) + 2) / 153 AS "month",
    ("w" - 86400 * "n") / 3600 AS "hour" FROM "year" LIMIT 1)
"""
"""Named queries from the column's text to its parts. t: text; z: characters of its time zone; y, m, d, h, i, s, f, o:
year, month, day, hour, minute, second, fraction and offset of the zone in seconds; after `march`, years start in March,
so that a leap day is the last day of a year; w: seconds, n: days, both since 1970 less SHIFT days; e: day of a cycle of
400 years, in which the calendar repeats; a: year of that cycle. The month is counted from March = 0."""


def date_term(column: str, date: DateColumn, row: int) -> str:
    """Return what a date column (an SQL identifier) adds to the score of this row of weights.

    A missing date is NULL, or a text that means a missing value in predict. Other texts that are no dates give NULL.
    """
    terms = [] if date.days is None else [f'"days" * {float(date.days[row])!r}']
    for part, weights in date.levels.items():
        ordered = np.roll(weights[row], -2) if part == "month" else weights[row]  # months are counted from March
        cases = " ".join(f"WHEN {level} THEN {weight!r}" for level, weight in enumerate(ordered.tolist()))
        terms.append(f'CASE "{part}" {cases} END')
    marks = ", ".join(f"'{mark}'" for mark in ("", *sorted(MARKS)))
    steps = " ".join(STEPS.split()).format(column=column, shift=SHIFT)
    return (
        f"CASE WHEN {column} IS NULL OR LOWER(TRIM(CAST({column} AS TEXT))) IN ({marks}) THEN {_missing(date, row)} "
        f'ELSE (WITH {steps} SELECT {" + ".join(terms)} FROM "parts") END'
    )


def _missing(date: DateColumn, row: int) -> str:
    value = float(date.missing[row])
    if date.days is not None:
        value += float(date.days[row]) * date.fill
    return "NULL" if np.isnan(value) else repr(value)
