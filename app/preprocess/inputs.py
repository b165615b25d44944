"""The columns that a model reads. Checks, without reading rows, that a dataset has them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from app.preprocess.preprocess_error import PreprocessError, called
from app.preprocess.values import check_kind, given_numbers
from app.tabular.frame import Column, Kind, Strings
from app.tabular.types import Floats

Places = npt.NDArray[np.int64]

NUMBERS: tuple[Kind, ...] = ("numeric", "boolean")


@dataclass(frozen=True)
class Inputs:
    """The columns that a model reads."""

    names: tuple[str, ...] | None
    """Names of all columns, including ignored ones; None if the columns have no names."""
    n_columns: int
    ignored: frozenset[int] = frozenset()
    kinds: Mapping[int, Kind] = field(default_factory=dict)
    """Kinds by column number. Columns that are not listed are numeric."""

    def places(
        self, columns: Sequence[Column], n_features: int, *, sparse: bool, is_empty: Callable[[int], bool]
    ) -> Places:
        """Return the position of each column in the stored rows; -1 for an ignored column that they do not have.

        `columns` are the columns of the stored rows. Columns are matched by name if both sides have names. `is_empty`
        returns whether a position has no value in any row, so that its kind is unknown. Raises PreprocessError.
        """
        places = np.arange(self.n_columns)
        if self.names is not None and columns:
            places = self._named_places(self.names, columns)
        elif n_features > self.n_columns or (n_features < self.n_columns and not sparse):
            message = f"the rows have {n_features} features; the model has {self.n_columns}"
            raise PreprocessError("column_mismatch", message)
        for column in range(self.n_columns) if columns else self.kinds:
            if column not in self.ignored:
                self._check(column, columns, int(places[column]), is_empty)
        return places

    def stands_for(self, name: str | None, columns: Sequence[Column], *, sparse: bool) -> bool:
        """Return whether the target column of a dataset is a feature of the model. That is so if the file has no labels
        and its last feature was read as the target."""
        if name is None or sparse or self.names is None or name not in self.names:
            return False
        return all(column.name != name for column in columns)

    def read_labels(self, name: str, labels: Sequence[str] | None) -> tuple[Column, Floats | None]:
        """Return such a target (`stands_for`) as a feature column and, if labels are text, the number of each label.

        Labels are read like cells of the feature. If that fails, they are read as categories.
        """
        assert self.names is not None
        kind = self.kinds.get(self.names.index(name), "numeric")
        if labels is None:
            return Column(name), None
        if kind in ("numeric", "boolean", "date"):
            try:
                return Column(name, kind), given_numbers(labels, len(labels), name, kind)
            except PreprocessError:
                pass  # `places` will raise the error about the kind
        return Column(name, "categorical", Strings.of(labels)), None

    def _named_places(self, names: Sequence[str], columns: Sequence[Column]) -> Places:
        at = {column.name: place for place, column in enumerate(columns)}
        places = np.array([at.get(name, -1) for name in names], dtype=np.int64)
        for column in np.flatnonzero(places < 0).tolist():
            if column not in self.ignored:
                message = f"the rows have no column {called(names[column])}"
                raise PreprocessError("missing_column", message, names[column])
        return places

    def _check(self, column: int, columns: Sequence[Column], place: int, is_empty: Callable[[int], bool]) -> None:
        wanted, stored = self.kinds.get(column, "numeric"), columns[place].kind if place < len(columns) else "numeric"
        if stored == wanted or (stored in NUMBERS and wanted in NUMBERS):
            return
        name = self.names[column] if self.names is not None else str(column)
        if wanted in NUMBERS and not is_empty(place):
            message = f"column {called(name)} is {stored} here and {wanted} in the model"
            raise PreprocessError("kind_mismatch", message, name)
        if wanted not in NUMBERS and not (wanted == "date" and is_empty(place)):
            check_kind(name, stored, wanted)
