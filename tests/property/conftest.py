"""Kernels are compiled before the first property test: tests of warm-up and of speed rely on it."""

import pytest

import solvers


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    solvers.warm_up()
