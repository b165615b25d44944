"""A sample of `python -m tests.soak.openapi`: requests that schemathesis makes from the document, all checks on."""

import pytest

from tests.soak.openapi import run


@pytest.mark.slow
def test_no_check_fails_that_nothing_explains() -> None:
    """No 5xx, no status, header or body that the document does not have, nothing accepted that it forbids."""
    found = run(cases=1, seed=24, database="sqlite", examples=4, phases="examples,fuzzing")
    assert found.failures == []
    assert found.cases > 150
