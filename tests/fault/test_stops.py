"""A sample of `python -m tests.soak.stops`: a service that is stopped by several signals at random moments ends."""

import random
from pathlib import Path

from tests.soak.stops import stop_once


def test_several_signals_stop_the_service(tmp_path: Path) -> None:
    chance = random.Random(3)
    stops = [stop_once(chance, tmp_path / str(number)) for number in range(3)]
    assert all(one.sound for one in stops), stops
