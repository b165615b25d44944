"""Assigns roles to the columns of a file: target, weight, group, ignored; all others are features."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import get_args

from app.datasets.formats.table import NO_TARGET, FileWarning, InvalidOption, ReadOptions, Role, excerpt
from app.tabular.frame import Kind

__all__ = ["Roles", "Source", "assign_roles", "nameless_detail"]

TARGET_NAMES = (
    "label",
    "labels",
    "target",
    "class",
    "outcome",
    "response",
    "y",
    "churn",
    "churned",
    "survived",
    "diagnosis",
    "species",
    "fraud",
    "is_fraud",
)
"""Names of columns that are the target by default, in lower case. An earlier name wins. Names that are as often
features, such as price or quality, are not here."""
KINDS: tuple[Kind, ...] = get_args(Kind)
SHOWN_COLUMNS = 5
"""Maximum number of columns that an error message lists. Larger: longer messages. Set by hand; no measurement is
recorded."""


@dataclass(frozen=True)
class Roles:
    """The columns of each role, by position from 0."""

    target: int | None
    """None if the file has no labels."""
    weight: int | None
    group: int | None
    features: list[int]
    choices: Mapping[int, str] = field(default_factory=dict)
    """Values of the option `columns`, by position."""
    warnings: tuple[FileWarning, ...] = ()

    @property
    def used(self) -> list[int]:
        """Return the columns that are read: features first."""
        return [*self.features, *(j for j in (self.target, self.weight, self.group) if j is not None)]

    @property
    def kinds(self) -> dict[int, Kind]:
        """Return the kinds that the option `columns` sets, by feature number."""
        kinds: dict[int, Kind] = {}
        for number, j in enumerate(self.features):
            choice = next((kind for kind in KINDS if kind == self.choices.get(j)), None)
            if choice is not None:
                kinds[number] = choice
        return kinds


@dataclass(frozen=True)
class Source:
    """The columns of a file: their names (None if the file has no names) and roles."""

    names: list[str] | None
    n_columns: int
    roles: Roles
    typed: Mapping[int, tuple[Kind, str]] = field(default_factory=dict)
    """Kind and reason, by feature number, of features whose kind follows from their type in the file."""
    nameless: frozenset[int] = frozenset()
    """Columns without a name in the file. Such a column must number the rows; it is left out."""
    header_line: int = 1

    def name(self, column: int) -> str:
        """Return the name of a column, or its number if the file has no names, as clients write it in read options."""
        return str(column) if self.names is None else self.names[column]

    @property
    def target(self) -> str | None:
        return None if self.roles.target is None else self.name(self.roles.target)

    def feature_name(self, number: int) -> str:
        return self.name(self.roles.features[number])

    def is_chosen(self, number: int) -> bool:
        """Return whether the option `columns` names a feature."""
        return self.roles.features[number] in self.roles.choices

    def shown_name(self, number: int) -> str:
        return excerpt(self.feature_name(number))

    def role(self, column: int) -> Role:
        roles = self.roles
        named: dict[int | None, Role] = {roles.target: "target", roles.weight: "weight", roles.group: "group"}
        return named.get(column, "ignored")


def assign_roles(names: list[str] | None, n_columns: int, options: ReadOptions) -> Roles:
    find = _Finder(names, n_columns).find
    choices = {find("columns", column): choice for column, choice in options.columns}
    target, warnings = _find_target(names, n_columns, options, find)
    weight = None if options.weight is None else find("weight", options.weight)
    group = None if options.group is None else find("group", options.group)
    ignored = {find("ignore", column) for column in options.ignore}
    ignored |= {column for column, choice in choices.items() if choice == "ignored"}
    if weight is not None and weight == target:
        raise InvalidOption("weight", "The weight and the target are the same column; choose two.")
    if group is not None and group == target:
        raise InvalidOption("group", "The group and the target are the same column; choose two.")
    if group is not None and group == weight:
        raise InvalidOption("group", "The group and the weight are the same column; choose two.")
    for role, column in (("target", target), ("weight", weight), ("group", group)):
        if column is not None and column in ignored:
            raise InvalidOption("ignore", f"The {role} column cannot be ignored; remove it from ignore.")
    features = [j for j in range(n_columns) if j not in ignored and j not in (target, weight, group)]
    if not features:
        field = "ignore" if ignored else "weight" if weight is not None else "group"
        raise InvalidOption(field, "No column is left as a feature; ignore fewer columns.")
    return Roles(target, weight, group, features, choices, warnings)


def _find_target(
    names: list[str] | None, n_columns: int, options: ReadOptions, find: Callable[[str, str], int]
) -> tuple[int | None, tuple[FileWarning, ...]]:
    """Return the target: the column that the option names, else the one whose name means a target, else the last."""
    if options.target == NO_TARGET and NO_TARGET not in (names or ()):
        return None, ()
    if options.target is not None:
        return find("target", options.target), ()
    taken = {find(field, column) for field in ("weight", "group") if (column := getattr(options, field)) is not None}
    taken |= {find("ignore", column) for column in options.ignore}
    by_name: dict[str, int] = {}
    for place, name in enumerate(names or ()):
        is_coordinate = name.strip().lower() == "y" and 0 < place < n_columns - 1  # as in x, y, z
        if place not in taken and not is_coordinate:
            by_name.setdefault(name.strip().lower(), place)
    wanted = next((name for name in TARGET_NAMES if name in by_name), None)
    place = n_columns - 1 if wanted is None else by_name[wanted]
    shown = str(place) if names is None else names[place]
    reason = "because it is the last one" if wanted is None else "because of its name"
    cure = "Set target to choose another column; for a file without labels, set target=none."
    detail = f"The target is column {excerpt(shown)}, {reason}. {cure}"
    return place, (FileWarning("target_guessed", detail),)


def nameless_detail(column: int) -> str:
    return f"This column has no name; name it, or leave it out with ignore={column} (counted from 0)."


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
