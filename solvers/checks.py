"""Checks of single values given by a user. Each check returns the value in its internal type, or raises the given
`SolverError` with the argument's name and the accepted values."""

import math
import numbers
from collections.abc import Sequence

from solvers.errors import SolverError

__all__ = ["one_of", "real_number", "whole_number"]


def real_number(
    value: object,
    argument: str,
    error: type[SolverError],
    *,
    low: float = -math.inf,
    high: float = math.inf,
    above: float | None = None,
) -> float:
    """Return the value as a finite float in [low, high], and strictly above `above` if that is given."""
    if above is not None:
        accepted = f"a finite number above {above:g}" + (f", at most {high:g}" if math.isfinite(high) else "")
    elif math.isfinite(high):
        accepted = f"a number from {low:g} to {high:g}"
    elif math.isfinite(low):
        accepted = f"a finite number of at least {low:g}"
    else:
        accepted = "a finite number"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise error(argument, f"must be {accepted}, not {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise error(argument, f"must be {accepted}; it is too large for a float") from None
    if not math.isfinite(number) or not low <= number <= high or (above is not None and number <= above):
        raise error(argument, f"must be {accepted}, not {number:g}")
    return number


def whole_number(value: object, argument: str, error: type[SolverError], *, low: int, high: int | None = None) -> int:
    """Return the value as an int in [low, high]."""
    accepted = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise error(argument, f"must be {accepted}, not {_shown(value)}")
    number = int(value)
    if number < low or (high is not None and number > high):
        raise error(argument, f"must be {accepted}, not {number}")
    return number


def one_of(value: object, argument: str, error: type[SolverError], choices: Sequence[str]) -> str:
    """Return the value if it is one of `choices`."""
    if isinstance(value, str) and value in choices:
        return str(value)
    raise error(argument, f"must be one of {', '.join(choices)}, not {_shown(value)}")


def _shown(value: object) -> str:
    # Messages reach end users: a long or binary value must not appear in full.
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
