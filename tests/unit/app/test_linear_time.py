"""Hostile input of every format takes time in proportion to its size, whether it is uploaded or sent to predict."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from app.datasets import formats
from app.datasets.formats import InvalidFile, InvalidOption, TooLarge, file_formats
from app.errors import AppError
from app.predictions.model_cache import ServedModel
from app.predictions.request_bodies import READERS
from app.web.media_types import TSV
from tests.support.hostile_inputs import BODIES, FILES, answer, hostile_models

SMALL_BYTES = 32_000
GROWTH = 8
MOST_GROWTH = 24.0
"""Of processor time for a body that is GROWTH times as large; what is quadratic grows by 64."""
FLOOR_SECONDS = 0.001
"""What a small body is taken to need at least: below it overheads that do not grow hide the growth."""
ATTEMPTS = 3


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ServedModel]:
    return hostile_models(tmp_path_factory.mktemp("models"))


def check_growth(small: Callable[[], object], large: Callable[[], object]) -> None:
    seconds = max(FLOOR_SECONDS, min(cpu_seconds(small) for _ in range(ATTEMPTS)))
    taken = []
    for _ in range(ATTEMPTS):  # the processor may be shared: one attempt within the bound is enough
        taken.append(cpu_seconds(large))
        if taken[-1] <= MOST_GROWTH * seconds:
            return
    raise AssertionError(f"{GROWTH} times the bytes took {min(taken):.3f} s in place of {seconds:.4f} s")


def cpu_seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    with suppress(AppError, InvalidFile, InvalidOption, TooLarge):
        run()
    return time.process_time() - began


@pytest.mark.parametrize("kind", BODIES)
def test_predict_takes_time_in_proportion_to_the_body(models: dict[str, ServedModel], kind: str) -> None:
    case = BODIES[kind]
    model, small, large = models[case.model], case.make(SMALL_BYTES), case.make(GROWTH * SMALL_BYTES)
    check_growth(lambda: answer(model, case.content_type, small), lambda: answer(model, case.content_type, large))


@pytest.mark.parametrize("kind", FILES)
def test_an_upload_is_read_in_time_in_proportion_to_its_size(tmp_path: Path, kind: str) -> None:
    case = FILES[kind]
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(case.make(SMALL_BYTES))
    large.write_bytes(case.make(GROWTH * SMALL_BYTES))
    check_growth(
        lambda: formats.read(small, case.format, case.options), lambda: formats.read(large, case.format, case.options)
    )


def test_every_format_has_hostile_input() -> None:
    """TSV is read as CSV is."""
    assert set(READERS) - {TSV} <= {case.content_type for case in BODIES.values()}
    assert set(file_formats()) - {"tsv"} <= {case.format for case in FILES.values()}
