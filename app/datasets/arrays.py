"""A stored dataset as arrays: mapped, not copied."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from app.datasets.schemas import Label
from app.db.tables import DatasetRow
from app.storage import BlobStore


@dataclass(frozen=True)
class DatasetArrays:
    """X (dense or CSR), y as the solver sees it, and what each value of y means to the client.

    `group` numbers the groups from 0 in the order in which the file names them; rows of a group may lie apart.
    """

    X: Any
    y: np.ndarray[Any, Any]
    weight: np.ndarray[Any, Any] | None
    group: np.ndarray[Any, Any] | None
    label_names: Sequence[str] | None

    def label(self, value: Any) -> Label:
        """The client's label of a value of y."""
        if self.label_names is not None:
            return self.label_names[int(value)]
        number = float(value)
        return int(number) if number.is_integer() else number

    def codes(self, classes: Sequence[Label]) -> np.ndarray[Any, Any]:
        """For each row, the position of its label in `classes`."""
        values, inverse = np.unique(self.y, return_inverse=True)
        positions = {label: position for position, label in enumerate(classes)}
        lookup = np.array([positions[self.label(value)] for value in values], dtype=np.int64)
        return lookup[inverse]

    def rows(self, chosen: np.ndarray[Any, Any]) -> "DatasetArrays":
        weight = None if self.weight is None else self.weight[chosen]
        group = None if self.group is None else self.group[chosen]
        return DatasetArrays(self.X[chosen], self.y[chosen], weight, group, self.label_names)


def open_arrays(blobs: BlobStore, dataset: DatasetRow) -> DatasetArrays:
    arrays = {name: blobs.map_array(sha256) for name, sha256 in dataset.arrays.items()}
    if dataset.storage == "csr":
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        matrix: Any = sp.csr_array(parts, shape=(dataset.n_rows, dataset.n_features), copy=False)
    else:
        matrix = arrays["X"]
    return DatasetArrays(matrix, arrays["y"], arrays.get("weight"), arrays.get("group"), dataset.label_names)
