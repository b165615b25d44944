"""The state of a method as a typed record, and the conversion of any state to and from its stored form.

A method declares its state as a dataclass derived from `State`. A field is an array, a number, a boolean, text, or
another `State`. The stored form is a flat table from field name to value, which checkpoints write to disk and
`warm_start` takes. Fields of a nested state have dotted names (`bias.centre`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Self, get_args, get_origin, get_type_hints

import numpy as np

from solvers.errors import InvalidOptions

__all__ = ["State", "StoredState"]

StoredState = dict[str, Any]
"""Arrays, numbers and text by name: the content of `result.state` and of `warm_start`."""

SCALARS = (bool, int, float, str)


@dataclass(slots=True)
class State:
    """All variables that a method changes while it runs. Subclasses are dataclasses with `slots=True`."""

    def stored(self, *, copy: bool) -> StoredState:
        """Return the fields by name. With `copy`, arrays are copied, so that later steps do not change them."""
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
        """Return the stored state, with copies of its arrays. Raises InvalidOptions if a field is missing."""
        return cls._restored(stored, solver, "")

    @classmethod
    def _restored(cls, stored: Mapping[str, Any], solver: str, prefix: str) -> Self:
        values: dict[str, Any] = {}
        own: Any = cls  # mypy takes classes of unhashable objects for unhashable
        for name, kind in _kinds(own).items():
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
                raise InvalidOptions(
                    "warm_start", f"has a {full!r} that cannot be read; give weights instead"
                ) from None
        return cls(**values)


def _array(value: Any, kind: type[np.generic] | None) -> np.ndarray[Any, Any]:
    """Return a copy of the value as an array with elements of type `kind`. If `kind` is None, the elements keep their
    type."""
    array = np.array(value, dtype=kind)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"the array has elements of type {array.dtype}; numbers or booleans are needed")
    return array


@cache
def _kinds(state: type[State]) -> dict[str, Any]:
    """Return the type of each field: the class of a scalar or of a nested state, or the element type of an array (None
    means any)."""
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
