"""Hyperplane's tests: unit, property, contract, e2e and fault; what they share is in tests/support."""

import pytest

pytest.register_assert_rewrite("tests.support")  # a failed assertion of a helper shows its values, as in a test
