"""Answers: JSON objects with typed attributes. Unknown fields are kept.

An answer wraps the JSON object of the service. A declared field is converted by its annotation when it is read: nested
objects become answers, times become `datetime`. A field that a newer service adds is an attribute as well.
"""

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["Answer", "Page", "parsed_time"]

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list. `next_cursor` is the `cursor` of the next page."""

    data: list[T]
    has_more: bool
    next_cursor: str | None


class Answer(Mapping[str, Any]):
    """A JSON object of the service. Fields are attributes (typed) and items (as they were sent)."""

    _hints: ClassVar[dict[str, Any]] = {}

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = dict(data)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._hints = {}  # resolved at the first use, when all classes exist

    @classmethod
    def _type_of(cls, name: str) -> Any:
        if not cls._hints:
            cls._hints = get_type_hints(cls)
        return cls._hints.get(name, Any)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            value = self._data[name]
        except KeyError:
            known = ", ".join(self._data)
            raise AttributeError(f"the answer has no field {name!r}; its fields are {known}") from None
        return _converted(value, type(self)._type_of(name))

    def __getitem__(self, name: str) -> Any:
        return self._data[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self._data if name.isidentifier())]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Answer):
            return self._data == other._data
        return self._data == other

    __hash__ = None  # type: ignore[assignment]  # answers compare by their content, which is mutable

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_short(value)}" for name, value in self._data.items())
        return f"{type(self).__name__}({shown})"

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of the JSON object, as the service sent it."""
        return dict(self._data)


def _converted(value: Any, kind: Any) -> Any:
    """Convert a JSON value to the annotated type. A value that does not fit is returned as it is."""
    if isinstance(value, Mapping):
        return _as_answer(value, kind)
    if isinstance(value, list):
        (item,) = _arguments(kind, list) or (Any,)
        return [_converted(one, item) for one in value]
    if isinstance(value, str) and datetime in _alternatives(kind):
        return parsed_time(value)
    return value


def _as_answer(value: Mapping[str, Any], kind: Any) -> Any:
    for one in _alternatives(kind):
        if isinstance(one, type) and issubclass(one, Answer):
            return one(value)
    if pair := _arguments(kind, dict):
        return {name: _converted(item, pair[1]) for name, item in value.items()}
    return Answer(value)


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _arguments(kind: Any, container: type) -> tuple[Any, ...]:
    return next((get_args(one) for one in _alternatives(kind) if get_origin(one) is container), ())


def parsed_time(text: str) -> datetime:
    """Parse an RFC 3339 time. `Z` is spelled out, because Python 3.10 does not read it."""
    return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)


def _short(value: Any, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
