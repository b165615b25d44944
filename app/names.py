"""Words that clients choose: names of things, labels on things; what is allowed in them and what is not."""

import re
from typing import Annotated

from pydantic import AfterValidator

from app.ids import looks_like_id

NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
MAX_LABELS = 64
MAX_LABEL_LENGTH = 256


def check_name(text: str) -> str:
    if not NAME_PATTERN.fullmatch(text):
        raise ValueError("must be 1 to 128 letters, digits, '.', '_' or '-', and start with a letter or digit")
    if looks_like_id(text):
        raise ValueError("must not look like an id")
    return text


def check_text(text: str) -> str:
    """Text that both databases and JSON can hold: no NUL, no half of a surrogate pair."""
    if "\x00" in text:
        raise ValueError("must not hold a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode") from None
    return text


def check_labels(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > MAX_LABELS:
        raise ValueError(f"at most {MAX_LABELS} labels")
    for key, value in labels.items():
        if not NAME_PATTERN.fullmatch(key):
            raise ValueError("a label's key must be letters, digits, '.', '_' or '-'")
        if len(value) > MAX_LABEL_LENGTH:
            raise ValueError(f"a label's value may have {MAX_LABEL_LENGTH} characters")
        check_text(value)
    return labels


Name = Annotated[str, AfterValidator(check_name)]
Text = Annotated[str, AfterValidator(check_text)]
Labels = Annotated[dict[str, str], AfterValidator(check_labels)]
