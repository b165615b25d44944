"""Assigns roles to the columns of a file: target, weight, group, ignored; all others are features."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.datasets.formats.table import InvalidOption, ReadOptions, Role, excerpt
from app.tabular.frame import Kind

__all__ = ["Roles", "Source", "assign_roles"]

SHOWN_COLUMNS = 5
"""Maximum number of columns that an error message lists. Larger: longer messages. Set by hand; no measurement is
recorded."""


@dataclass(frozen=True)
class Roles:
    """The columns of each role, by position from 0."""

    target: int
    weight: int | None
    group: int | None
    features: list[int]

    @property
    def numbers(self) -> list[int]:
        """Return the columns that must be numeric, whatever the kind of the target."""
        return self.features if self.weight is None else [*self.features, self.weight]


@dataclass(frozen=True)
class Source:
    """The columns of a file: their names (None if the file has no names) and roles."""

    names: list[str] | None
    n_columns: int
    roles: Roles
    typed: Mapping[int, tuple[Kind, str]] = field(default_factory=dict)
    """Kind and reason, by feature number, of features whose kind follows from their type in the file."""

    def name(self, column: int) -> str:
        """Return the name of a column, or its number if the file has no names, as clients write it in read options."""
        return str(column) if self.names is None else self.names[column]

    def feature_name(self, number: int) -> str:
        return self.name(self.roles.features[number])

    def shown_name(self, number: int) -> str:
        return excerpt(self.feature_name(number))

    def role(self, column: int) -> Role:
        roles = self.roles
        named: dict[int | None, Role] = {roles.target: "target", roles.weight: "weight", roles.group: "group"}
        return named.get(column, "ignored")


def assign_roles(names: list[str] | None, n_columns: int, options: ReadOptions) -> Roles:
    find = _Finder(names, n_columns).find
    target = n_columns - 1 if options.target is None else find("target", options.target)
    weight = None if options.weight is None else find("weight", options.weight)
    group = None if options.group is None else find("group", options.group)
    ignored = {find("ignore", column) for column in options.ignore}
    if weight == target:
        raise InvalidOption("weight", "The weight and the target are the same column; choose two.")
    if group == target:
        raise InvalidOption("group", "The group and the target are the same column; choose two.")
    if group is not None and group == weight:
        raise InvalidOption("group", "The group and the weight are the same column; choose two.")
    for role, column in (("target", target), ("weight", weight), ("group", group)):
        if column in ignored:
            raise InvalidOption("ignore", f"The {role} column cannot be ignored; remove it from ignore.")
    features = [j for j in range(n_columns) if j not in ignored and j not in (target, weight, group)]
    if not features:
        field = "ignore" if ignored else "weight" if weight is not None else "group"
        raise InvalidOption(field, "No column is left as a feature; ignore fewer columns.")
    return Roles(target, weight, group, features)


class _Finder:
    """Finds columns by the names and numbers in read options. Names are indexed once, because an upload can ignore
    thousands of columns."""

    def __init__(self, names: list[str] | None, n_columns: int) -> None:
        self._names = names
        self._n_columns = n_columns
        self._place_of: dict[str, int] = {}
        for place, name in enumerate(names or ()):
            self._place_of.setdefault(name, place)

    def find(self, field: str, column: str) -> int:
        """Return the position of a column by name or, if no name matches, by number from 0."""
        if (place := self._place_of.get(column)) is not None:
            return place
        if re.fullmatch(r"-?[0-9]{1,9}", column) and -self._n_columns <= int(column) < self._n_columns:
            return int(column) % self._n_columns
        if self._names is None:
            known = f"The columns have no names; they are 0 to {self._n_columns - 1}."
        else:
            shown = ", ".join(excerpt(name) for name in self._names[:SHOWN_COLUMNS])
            more = self._n_columns - SHOWN_COLUMNS
            known = f"The columns are {shown}" + (f" and {more} more." if more > 0 else ".")
        raise InvalidOption(field, f"There is no column {excerpt(column)}. {known}")
