"""Seconds of a call, by the clock and of the processor, and the least of rounds in which contenders take turns."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

__all__ = ["Seconds", "least_seconds", "timed"]

Result = TypeVar("Result")


class Seconds(NamedTuple):
    """Of one call."""

    wall: float
    cpu: float
    """Of all threads of this process."""


def timed(call: Callable[[], Result]) -> tuple[Result, Seconds]:
    began, began_cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, Seconds(time.perf_counter() - began, time.process_time() - began_cpu)


def least_seconds(
    contenders: Mapping[str, Callable[[], float | None]], *, rounds: int = 3, enough: float = 1.0
) -> dict[str, float]:
    """Each contender's fastest run, the contenders taking turns; one that did not arrive is left out.

    A run longer than `enough` is not repeated.
    """
    least: dict[str, float] = {}
    for number in range(rounds):
        for name, call in contenders.items():
            if number == 0 or least.get(name, float("inf")) < enough:
                seconds = call()
                if seconds is not None:
                    least[name] = min(seconds, least.get(name, float("inf")))
    return least
