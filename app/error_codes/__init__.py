"""The registry of all error codes of the API, each with its meaning and its cure.

A code occurs in three places: as `code` of a problem document (an HTTP error response), as `code` of an item of its
`errors`, and as `error.code` of a failed job. Codes are part of the API: new ones are added, existing ones are never
renamed.

The page `/docs/errors` (app/web/browser.py) and the error reference of the documentation are generated from
`error_codes()`. The `type` of a problem document is the address of its entry: see `problem_type`.
tests/unit/app/test_error_codes.py compares the registry with the codes in the source.
"""

from app.error_codes.entry import ErrorCode
from app.error_codes.file_codes import FILE_CODES, PREDICTION_CODES
from app.error_codes.job_codes import JOB_CODES, MODEL_CODES
from app.error_codes.request_codes import FIELD_CODES, REQUEST_CODES

__all__ = ["ERRORS_PAGE", "GROUPS", "ErrorCode", "error_codes", "problem_type"]

ERRORS_PAGE = "/docs/errors"

GROUPS: dict[str, tuple[ErrorCode, ...]] = {
    "Requests": REQUEST_CODES,
    "Fields of a request": FIELD_CODES,
    "Uploaded files": FILE_CODES,
    "Rows to predict": PREDICTION_CODES,
    "Jobs": JOB_CODES,
    "Models and aliases": MODEL_CODES,
}
"""The error codes by subject, in the order of the reference. A code has exactly one entry."""


def error_codes() -> list[ErrorCode]:
    """List the entries of all groups, in the order of GROUPS."""
    return [entry for group in GROUPS.values() for entry in group]


def problem_type(code: str) -> str:
    """Return the `type` of a problem document: a link to the entry of the code.

    RFC 9457 recommends a `type` that can be opened as a URL. A self-hosted service has no public site, so the `type` is
    a path that the service itself serves. Clients resolve it against the URL of the request.
    """
    return f"{ERRORS_PAGE}#{code}"
