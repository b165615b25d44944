"""Converts scores to probabilities: one curve for two classes, one per class for several. Imports numpy only.

app/worker/train/calibrate.py fits the curves. Here are their definition and their form in a model file:

    platt      p = 1 / (1 + exp(-(slope f + shift))), slope >= 0       arrays: slope, shift, one number per curve
    isotonic   piecewise linear and non-decreasing in f                arrays: scores, values, and starts of the curves
    softmax    p_k = exp(f_k) / sum_m exp(f_m)                         no arrays; several classes only

A model of logistic loss has its probabilities without a fit: platt with slope 1 and shift 0, or softmax if its classes
were trained jointly.

f is the score of the class or, for jointly trained classes, its margin: the score minus the best score of the others
(only differences are meaningful there). The values of several classes are divided by their sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np

from app.errors import CorruptModel
from app.models.file import ModelFile
from app.tabular.types import Array

Method = Literal["platt", "isotonic", "softmax"]
Argument = Literal["score", "margin"]

PREFIX = "calibration."
ARRAYS: dict[str, tuple[str, ...]] = {
    "platt": ("slope", "shift"),
    "isotonic": ("scores", "values", "starts"),
    "softmax": (),
}


@dataclass(frozen=True)
class Calibration:
    method: Method
    argument: Argument
    arrays: Mapping[str, Array]
    """Arrays by the names in ARRAYS."""

    @classmethod
    def of(cls, model: ModelFile) -> "Calibration | None":
        """Read the calibration of a model; None: it has none. Raises CorruptModel."""
        document = model.header.calibration
        if document is None:
            return None
        method, argument = document.get("method"), document.get("argument")
        if method not in ARRAYS or argument not in ("score", "margin"):
            raise CorruptModel("the calibration is of an unknown kind")
        found = {name: model.extra.get(PREFIX + name) for name in ARRAYS[method]}
        arrays = {name: array for name, array in found.items() if array is not None}
        if len(arrays) != len(found):
            raise CorruptModel("an array of the calibration is missing")
        calibration = cls(cast(Method, method), cast(Argument, argument), arrays)
        calibration._check(1 if model.header.task == "binary" else len(model.header.classes))
        return calibration

    def stored(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the form in a model file: the part of the header, and the arrays by their full names."""
        document = {"method": self.method, "argument": self.argument}
        return document, {PREFIX + name: array for name, array in self.arrays.items()}

    def probabilities(self, scores: Array) -> Array:
        """Return the probabilities of each row in the order of the classes; they add up to 1.

        `scores`: as predict computes them, one per row for two classes, one per row and class for several.
        """
        if scores.ndim == 1:
            second = self._curve(0, scores)
            return np.stack([1.0 - second, second], axis=1)
        if self.method == "softmax":
            odds = np.exp(scores - scores.max(axis=1, keepdims=True))
            likely: Array = odds / odds.sum(axis=1, keepdims=True)
            return likely
        arguments = margins(scores) if self.argument == "margin" else scores
        values = np.stack([self._curve(k, arguments[:, k]) for k in range(scores.shape[1])], axis=1)
        shares: Array = values / values.sum(axis=1, keepdims=True)
        return shares

    def _curve(self, k: int, f: Array) -> Array:
        if self.method == "platt":
            return sigmoid(self.arrays["slope"][k] * f + self.arrays["shift"][k])
        first, last = self.arrays["starts"][k : k + 2]
        curve: Array = np.interp(f, self.arrays["scores"][first:last], self.arrays["values"][first:last])
        return curve

    def _check(self, curves: int) -> None:
        """Check that all possible probabilities are between 0 and 1 (Platt: up to rounding)."""
        if self.method == "softmax":
            sound = curves > 1
        elif self.method == "platt":
            slope, shift = self.arrays["slope"], self.arrays["shift"]
            sound = slope.shape == shift.shape == (curves,) and bool((slope >= 0.0).all())
        else:
            scores, values, starts = (self.arrays[name] for name in ARRAYS["isotonic"])
            sound = starts.shape == (curves + 1,) and scores.shape == values.shape == (len(scores),)
            sound = sound and starts[0] == 0 and starts[-1] == len(scores) and bool((np.diff(starts) > 0).all())
            sound = sound and bool(((values > 0.0) & (values < 1.0)).all())
            for first, last in pairwise(starts) if sound else ():
                rising = (np.diff(scores[first:last]) > 0.0).all() and (np.diff(values[first:last]) >= 0.0).all()
                sound = sound and bool(rising)
        if not sound:
            raise CorruptModel("the calibration does not match the model")


def margins(scores: Array) -> Array:
    """Return the margin of each row and class: its score minus the best score of the others."""
    order = np.sort(scores, axis=1)
    best, second = order[:, -1:], order[:, -2:-1]
    above: Array = np.where(scores == best, best - second, scores - best)
    return above


def sigmoid(t: Array) -> Array:
    small = np.exp(-np.abs(t))
    return np.where(t >= 0.0, 1.0, small) / (1.0 + small)
