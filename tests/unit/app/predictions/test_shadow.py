"""Shadows: what they are compared with, and that a slow, failing or replaced one costs answers nothing."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import Invalid
from app.models.repository import Location
from app.predictions import shadow
from app.predictions.model_cache import ServedModel
from app.predictions.shadow import Outcome, Shadows
from tests.support.builders import NOBODY, served_model

REFERENCE = "m@prod"


class Served:
    """The part of the cache of models that shadows use."""

    def __init__(self, model: ServedModel) -> None:
        self.model = model
        self.location: Location | None = Location(f"mdl_{NOBODY}", "m", 7, "")

    def shadow_of(self, reference: str) -> Location | None:
        return self.location if reference == REFERENCE else None

    def find(self, reference: str) -> ServedModel:
        assert reference.startswith("mdl_")
        return self.model


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(served_model(tmp_path, [2.0], 0.0))


@pytest.fixture
def answering(tmp_path: Path) -> ServedModel:
    (tmp_path / "other").mkdir()
    return served_model(tmp_path / "other", [1.0], 0.0)


def judge(model: ServedModel) -> Outcome:
    """Two rows, 1 and -3; models of weight 2 label the second otherwise."""
    weight = float(model.file.coef[0])
    return Outcome(["yes", "yes" if weight == 2.0 else "no"], weight * np.array([1.0, -3.0]))


def counted(shadows: Shadows, version: int = 7) -> dict[str, Any]:
    shadows.stop()
    stats = shadows.stats(REFERENCE, version)
    assert stats is not None
    return stats


def test_differences_are_counted(served: Served, answering: ServedModel) -> None:
    shadows = Shadows(served)  # type: ignore[arg-type]
    for _ in range(3):
        shadows.mirror(REFERENCE, answering, judge, 10)
    shadows.mirror("m", answering, judge, 10)
    assert counted(shadows) == {
        **{"version": 7, "requests": 3, "rows": 6, "label_differences": 3, "failures": 0, "dropped": 0},
        **{"mean_score_difference": 2.0, "max_score_difference": 3.0},
    }
    assert shadows.stats(REFERENCE, 8) is None
    assert shadows.stats("m", 7) is None


def test_who_cannot_keep_up_drops_requests_and_delays_none(
    served: Served, answering: ServedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "MOST_WAITING", 4)
    monkeypatch.setattr(shadow, "MOST_WAITING_BYTES", 100)
    may_go_on = threading.Event()

    def slowly(model: ServedModel) -> Outcome:
        may_go_on.wait(30)
        return judge(model)

    shadows = Shadows(served)  # type: ignore[arg-type]
    shadows.mirror(REFERENCE, answering, slowly, 60)
    shadows.mirror(REFERENCE, answering, slowly, 60)  # more bytes than may wait
    for _ in range(10):  # three of them fit
        shadows.mirror(REFERENCE, answering, slowly, 1)
    may_go_on.set()
    stats = counted(shadows)
    assert (stats["requests"], stats["dropped"]) == (4, 8)


def test_a_failing_shadow_is_counted_and_harms_nobody(served: Served, answering: ServedModel) -> None:
    def refuse(model: ServedModel) -> Outcome:
        if model is served.model:
            raise Invalid("it has other features")
        return judge(model)

    def crash(model: ServedModel) -> Outcome:
        raise RuntimeError("an internal fault")

    shadows = Shadows(served)  # type: ignore[arg-type]
    for one in (refuse, crash, judge):
        shadows.mirror(REFERENCE, answering, one, 10)
    stats = counted(shadows)
    assert (stats["requests"], stats["failures"], stats["rows"]) == (3, 2, 2)


def test_another_shadow_is_counted_anew(served: Served, answering: ServedModel) -> None:
    may_go_on = threading.Event()

    def slowly(model: ServedModel) -> Outcome:
        may_go_on.wait(30)
        return judge(model)

    shadows = Shadows(served)  # type: ignore[arg-type]
    shadows.mirror(REFERENCE, answering, slowly, 10)  # still waits when the alias gets another shadow
    served.location = Location(f"mdl_{NOBODY[::-1]}", "m", 8, "")
    for _ in range(2):
        shadows.mirror(REFERENCE, answering, judge, 10)
    may_go_on.set()
    assert counted(shadows, 8)["requests"] == 2
    assert shadows.stats(REFERENCE, 7) is None
