"""Rules for the names, labels and texts that clients choose."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from app.ids import looks_like_id

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
TEXT_PATTERN = r"^[^\x00]*$"
"""Regular expression of a text without NUL, for the OpenAPI document. It need not exclude lone surrogates, because JSON
in UTF-8 has none."""
MAX_LABELS = 64
"""Maximum number of labels of a dataset, job or model. Larger: slower lists, because labels are stored in its row. Set
by hand; no measurement is recorded."""
MAX_LABEL_LENGTH = 256
"""Maximum characters of the value of a label. Larger: larger rows in the database. Set by hand; no measurement is
recorded."""


def check_name(text: str) -> str:
    if not NAME_PATTERN.fullmatch(text):
        raise ValueError("must be 1 to 128 letters, digits, '.', '_' or '-', and start with a letter or digit")
    if looks_like_id(text):
        raise ValueError("must not look like an id (a prefix such as mdl_ and 26 characters)")
    return text


def check_text(text: str) -> str:
    """Check that SQLite, PostgreSQL and JSON can all store the text: no NUL, no lone surrogate."""
    if "\x00" in text:
        raise ValueError("must not contain a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode, without lone surrogates") from None
    return text


def check_labels(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > MAX_LABELS:
        raise ValueError(f"at most {MAX_LABELS} labels are allowed; there are {len(labels)}")
    for key, value in labels.items():
        if not NAME_PATTERN.fullmatch(key):
            raise ValueError("a label's key must be 1 to 128 letters, digits, '.', '_' or '-'")
        if len(value) > MAX_LABEL_LENGTH:
            raise ValueError(f"a label's value has {len(value)} characters; the limit is {MAX_LABEL_LENGTH}")
        check_text(value)
    return labels


Name = Annotated[
    str,
    AfterValidator(check_name),
    Field(json_schema_extra={"pattern": f"^{NAME_PATTERN.pattern}$", "minLength": 1, "maxLength": 128}),
]
Text = Annotated[str, AfterValidator(check_text), Field(json_schema_extra={"pattern": TEXT_PATTERN})]
Labels = Annotated[
    dict[str, str],
    AfterValidator(check_labels),
    Field(
        json_schema_extra={
            "maxProperties": MAX_LABELS,
            "propertyNames": {"pattern": f"^{NAME_PATTERN.pattern}$"},
            "additionalProperties": {"type": "string", "maxLength": MAX_LABEL_LENGTH, "pattern": TEXT_PATTERN},
        }
    ),
]
