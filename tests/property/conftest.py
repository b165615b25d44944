"""Kernels are compiled before the first property test: compiling counts against a run's deadline."""

import pytest

import solvers


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    solvers.warm_up()
