"""The codec of states: what is stored is restored to the same bits, and what does not fit is refused by name."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from solvers.errors import InvalidOptions
from solvers.linalg.types import Array, Floats
from solvers.state import State


@dataclass(slots=True)
class Inner(State):
    wake: NDArray[np.int32]
    now: int


@dataclass(slots=True)
class Outer(State):
    w: Floats
    inner: Inner
    gap: float
    is_new: bool
    phase: str


def an_outer():
    return Outer(np.array([1.0, np.nan]), Inner(np.array([3, 4], np.int32), 7), np.inf, True, "first")


def test_a_stored_state_is_restored_to_the_same_bits():
    stored = an_outer().stored(copy=True)
    assert list(stored) == ["w", "inner.wake", "inner.now", "gap", "is_new", "phase"]
    back = Outer.restored(stored, "dcd")
    assert (back.gap, back.is_new, back.phase, back.inner.now) == (np.inf, True, "first", 7)
    assert back.w.tobytes() == stored["w"].tobytes()
    assert back.inner.wake.dtype == np.int32
    back.w[0] = 5.0
    assert stored["w"][0] == 1.0, "a restored state has arrays of its own"


def test_a_copy_does_not_follow_later_steps():
    state = an_outer()
    copied, shared = state.stored(copy=True), state.stored(copy=False)
    state.w[0] = 9.0
    assert (copied["w"][0], shared["w"][0]) == (1.0, 9.0)


def test_numbers_that_were_stored_as_numpy_scalars_become_plain_ones():
    stored = {
        **an_outer().stored(copy=True),
        "gap": np.float64(2.0),
        "inner.now": np.int64(3),
        "is_new": np.bool_(False),
    }
    back = Outer.restored(stored, "dcd")
    assert type(back.gap) is float
    assert type(back.inner.now) is int
    assert type(back.is_new) is bool


@pytest.mark.parametrize("name", ["w", "inner.wake", "gap"])
def test_a_missing_field_is_named(name):
    stored = an_outer().stored(copy=True)
    del stored[name]
    with pytest.raises(InvalidOptions, match=f"warm_start.* is not a state of solver dcd .* has no '{name}'"):
        Outer.restored(stored, "dcd")


@pytest.mark.parametrize(("name", "value"), [("w", ["a"]), ("gap", "much"), ("inner.now", np.inf)])
def test_a_field_that_cannot_be_read_is_named(name, value):
    with pytest.raises(InvalidOptions, match=f"'{name}' that cannot be read"):
        Outer.restored({**an_outer().stored(copy=True), name: value}, "dcd")


@dataclass(slots=True)
class OfAnyType(State):
    marks: Array


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float32])
def test_an_array_of_any_type_keeps_the_one_it_has(kind):
    back = OfAnyType.restored(OfAnyType(np.arange(6, dtype=kind).reshape(2, 3)).stored(copy=False), "oca_e")
    assert back.marks.dtype == kind
    assert (back.marks == [[0, 1, 2], [3, 4, 5]]).all()


@pytest.mark.parametrize("value", [np.array(["a"]), np.array([None]), "text", np.array([1j])])
def test_an_array_of_no_numbers_is_refused(value):
    with pytest.raises(InvalidOptions, match="'marks' that cannot be read"):
        OfAnyType.restored({"marks": value}, "oca_e")


def test_a_state_of_anything_else_is_refused_when_it_is_used():
    @dataclass(slots=True)
    class Wrong(State):
        table: dict[str, int]

    with pytest.raises(TypeError, match="cannot have a field"):
        Wrong.restored({"table": {}}, "dcd")
