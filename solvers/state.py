"""The state of a method: a typed record, with the one codec that stores and restores all of them.

A method declares its state as a dataclass below `State`. A field is an array, a number, a truth value, text, or another
`State`. The stored form is a flat table from field name to value, which checkpoints write to disk and `warm_start`
takes; fields of a nested state have dotted names (`bias.centre`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, get_args, get_origin, get_type_hints

import numpy as np

from solvers.errors import InvalidOptions

__all__ = ["State", "StoredState"]

StoredState = dict[str, Any]
"""Arrays, numbers and text by name: what `result.state` holds and `warm_start` takes."""

SCALARS = (bool, int, float, str)


@dataclass(slots=True)
class State:
    """Everything that a method changes while it runs. Subclasses are dataclasses with `slots=True`."""

    def stored(self, *, copy: bool) -> StoredState:
        """The fields by name; with `copy`, arrays that later steps do not change."""
        table: StoredState = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, State):
                table.update({f"{field.name}.{name}": part for name, part in value.stored(copy=copy).items()})
            else:
                table[field.name] = value.copy() if copy and isinstance(value, np.ndarray) else value
        return table

    @classmethod
    def restored(cls, stored: Mapping[str, Any], solver: str) -> Self:
        """The state that was stored, with arrays of its own. Raises InvalidOptions if a field is missing."""
        return cls._restored(stored, solver, "")

    @classmethod
    def _restored(cls, stored: Mapping[str, Any], solver: str, prefix: str) -> Self:
        values: dict[str, Any] = {}
        for name, kind in _kinds(cls).items():
            full = prefix + name
            if isinstance(kind, type) and issubclass(kind, State):
                values[name] = kind._restored(stored, solver, f"{full}.")
                continue
            if full not in stored:
                raise InvalidOptions(
                    "warm_start", f"is not a state of solver {solver} of this version: it has no {full!r}; give weights"
                )
            try:
                values[name] = kind(stored[full]) if kind in SCALARS else _array(stored[full], kind)
            except (TypeError, ValueError, OverflowError):
                raise InvalidOptions("warm_start", f"has a {full!r} that cannot be read; give weights") from None
        return cls(**values)


def _array(value: Any, kind: type[np.generic] | None) -> np.ndarray[Any, Any]:
    """An array of its own, with elements of that type or, without one, of the type that they have."""
    array = np.array(value, dtype=kind)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"an array of {array.dtype} is not one of numbers")
    return array


def _kinds(state: type[State]) -> dict[str, Any]:
    """For each field: its class if it is a scalar or a state, else the type of its array's elements, None for any."""
    hints = get_type_hints(state)
    return {field.name: _kind(hints[field.name]) for field in fields(state)}


def _kind(hint: Any) -> Any:
    if hint in SCALARS or (isinstance(hint, type) and issubclass(hint, State)):
        return hint
    if get_origin(hint) is np.ndarray:
        element = get_args(get_args(hint)[1])[0]  # NDArray[t] is ndarray[shape, dtype[t]]
        if isinstance(element, type) and issubclass(element, np.generic):
            return element
        if element is Any:
            return None
    raise TypeError(f"a state cannot have a field of type {hint!r}")
