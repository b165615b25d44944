"""The registry of error codes holds every code that the source can raise, and no other."""

import re
from http import HTTPStatus
from typing import get_args

from pydantic_core.core_schema import ErrorType

import solvers
from app import errors
from app.error_codes import error_codes
from app.jobs.validation.refusals import solver_refusal
from tests.support.error_sources import codes_in_source

ENTRIES = {entry.code: entry for entry in error_codes()}
ERROR_CLASSES = {
    name: found
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, errors.AppError)
}
OF_VALIDATION = {*get_args(ErrorType), "unknown_type", "unknown_weights"}
"""Codes that validation by pydantic gives to items of `errors`; the last two are custom errors of our schemas."""


def solver_codes() -> set[str]:
    names = (solvers.InvalidProblem, solvers.UnsupportedProblem, solvers.UnknownSolver, solvers.InvalidOptions)
    return {solver_refusal(kind("C", "message"))[1] for kind in names}


def raised() -> set[str]:
    of_classes = {kind.code for kind in ERROR_CLASSES.values()}
    of_framework = {*errors.HTTP_CODES.values(), errors.OTHER_HTTP_CODE}
    return {use.code for use in codes_in_source()} | of_classes | of_framework | solver_codes()


def test_every_code_of_the_source_has_one_entry() -> None:
    assert len(ENTRIES) == len(error_codes()), "a code has two entries"
    assert raised() - set(ENTRIES) == set()


def test_no_entry_is_without_a_use() -> None:
    assert set(ENTRIES) - raised() - OF_VALIDATION == set()


def test_the_statuses_of_an_entry_are_those_of_its_errors() -> None:
    missing = []
    for use in codes_in_source():
        kind = errors.Invalid if use.by == "invalid_field" else ERROR_CLASSES.get(use.by)
        if kind is not None and kind.status not in ENTRIES[use.code].statuses:
            missing.append((use, kind.status))
    assert missing == []
    for kind in ERROR_CLASSES.values():
        assert kind.status in ENTRIES[kind.code].statuses
    for status, code in errors.HTTP_CODES.items():
        assert status in ENTRIES[code].statuses


def test_entries_are_sentences() -> None:
    for entry in error_codes():
        assert re.fullmatch(r"[A-Z].*[^.]", entry.title), entry.code
        assert re.fullmatch(r"[A-Z`].*\.", entry.meaning), entry.code
        assert re.fullmatch(r"[A-Z`].*\.", entry.cure), entry.code
        assert all(HTTPStatus(status) for status in entry.statuses)
