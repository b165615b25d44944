"""Bounds on the models at every C between two trainings.

P_C(w) = 1/2 |w|^2 + C L(w). With pairs (w_a, alpha_a) at a and (w_b, alpha_b) at b > a, gaps g_a and g_b, and
v = w(alpha), the minimiser at c = t a + (1 - t) b lies in a ball (docs/explanation/tuning.md has the proof):

    |w_c - m|^2  <=  t (1 - t) H + t g_a + (1 - t) g_b,        m = t (w_a + v_a) / 2 + (1 - t) (w_b + v_b) / 2
    H = max(0, (b - a) (L_a - L_b) - 1/2 |w_a - w_b|^2 - 1/2 |v_a - v_b|^2)

So the score of a row h = (x, bias feature) differs from m . h by at most |h| times the radius. The range is cut into
parts, and each part uses its largest radius. Within a part m is linear in t, so the extreme scores are at its ends.

Rounding errors: those of gaps, losses and v come from the certificates; those of scores are added to the radius. A cost
C_i = C s_i has a relative error of at most `cost_error`: the dual point (1 - cost_error) alpha is feasible for the
exact costs, and its value is at least (1 - cost_error) times the computed one.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from solvers.certificates import evaluate_pair
from solvers.certificates.evaluation import length_at_most
from solvers.data.rows import Rows
from solvers.linalg.rounding import UNIT, above, below, gamma
from solvers.linalg.types import Array, Floats
from solvers.method import Point
from solvers.problem.problems import Problem
from solvers.state import State

__all__ = ["Ends", "HeldOut", "Judged", "edges_of", "ends_of", "no_ends", "score_bounds", "score_bounds_at"]
__all__ += ["spread_of", "weights_with_bias"]

PARTS = 16
"""Number of parts into which the range of C between two trainings is cut. Larger: slightly tighter bounds from the same
trainings, and one more comparison per held-out row for each part. Set by hand; no measurement is recorded."""
SLACK = 1e-14
"""Fraction of H and of the gaps that is added to a squared radius, for the rounding errors of its own computation:
about 90 times the unit roundoff of float64. Larger: looser bounds."""
UNDERFLOW = 1e-300
"""Number added to the error bound of every score. It bounds the error of products that underflow, in a row of fewer
than 10^20 entries. Larger: looser bounds."""


class Judged(NamedTuple):
    """The figures of a fold's held-out rows that the bounds need. The entries of the rows are not kept."""

    truth: Array
    """The position of each row's class, or its target."""
    lengths: Floats
    """Upper bound of |h| for each row; exactly 0 if all entries are 0 and there is no bias."""
    reach: Floats
    """Maximum change of a row's score if w moves by a distance of 1. If only differences of scores count, the row is
    taken relative to the mean row."""


class HeldOut(NamedTuple):
    """The held-out rows of a fold."""

    rows: Rows
    bias_feature: float
    judged: Judged

    @classmethod
    def of(cls, rows: Rows, truth: Array, bias_feature: float, *, uses_differences: bool) -> "HeldOut":
        lengths = np.hypot(rows.lengths(), bias_feature) * (1.0 + 8.0 * UNIT)
        if bias_feature == 0.0:
            lengths[_empty_rows(rows)] = 0.0
        reach = _centred_lengths(rows) if uses_differences else lengths
        return cls(rows, bias_feature, Judged(truth, lengths, reach))

    def scores(self, weights: Floats) -> Floats:
        """Return the scores of weights that end with the weight of the bias feature; several classes: one row per
        class."""
        scores: Floats = np.empty((self.rows.n_rows, *weights.shape[:-1]))
        if weights.ndim == 2:
            self.rows.class_scores(np.ascontiguousarray(weights), self.bias_feature, scores)
            return scores
        self.rows.margins(np.ascontiguousarray(weights[:-1]), scores)
        scores += self.bias_feature * weights[-1]
        return scores


@dataclass(slots=True)
class Ends(State):
    """The figures of one training of a fold that the bounds use: one part per class for one-vs-rest, else one part."""

    weights: Floats  # (parts, size): w with the weight of the bias feature; classes trained jointly follow each other
    dual_weights: Floats  # (parts, size): v
    errors: Floats  # (parts, 2): upper bounds of the errors of weights and dual_weights
    gaps: Floats  # (parts,): upper bounds of P(w) - D(alpha)
    losses: Floats  # (parts, 2): upper and lower bounds of L(w), which does not depend on C
    primals: Floats  # (parts,): P(w)
    middle: Floats  # (rows,) or (rows, classes): scores of (w + v) / 2
    doubt: Floats  # (parts,): upper bound of the error of a middle score, per unit of |h|


def no_ends() -> Ends:
    """Return the empty figures of a training that is not used for bounds."""
    nothing = np.empty(0)
    return Ends(nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing)


def ends_of(problems: list[Problem], points: list[Point], C: float, held_out: HeldOut, wanted: Floats | None) -> Ends:
    """Evaluate the weights and dual points of one training. `wanted`: for each part, the gap below which rounding
    errors are ignored."""
    parts, middles = [], []
    for number, (problem, point) in enumerate(zip(problems, points, strict=True)):
        found = evaluate_pair(problem, point, 0.0 if wanted is None else float(wanted[number]))
        inexact = problem.cost_error
        w, v = weights_with_bias(problem, point), found.dual_weights
        of_bias = 2.0 * UNIT * float(np.linalg.norm(w[..., -1]))
        of_dual = above(found.dual_error + inexact * length_at_most(v))
        middle = 0.5 * (w + v)
        length = length_at_most(middle)
        entries = held_out.rows.longest_row + 16
        # 16 u of it are for the rounding of t in `score_bounds`.
        doubt = above((gamma(entries) + 20.0 * UNIT) * length + 0.5 * (of_dual + of_bias))
        gap = above(found.gap + 2.0 * inexact * found.primal)
        most = above(found.losses_at_most * (1.0 + inexact) / C)
        least = below(found.losses_at_least * (1.0 - inexact) / C)
        parts.append((w.ravel(), v.ravel(), (of_bias, of_dual), gap, (most, least), found.primal, doubt))
        middles.append(held_out.scores(middle))
    weights, dual_weights, errors, gaps, losses, primals, doubts = (np.array(one) for one in zip(*parts, strict=True))
    middle_scores = middles[0] if len(middles) == 1 else np.stack(middles, axis=1)
    return Ends(weights, dual_weights, errors, gaps, losses, primals, middle_scores, doubts)


def weights_with_bias(problem: Problem, point: Point) -> Floats:
    """Return the weights, followed by the weight of the bias feature."""
    beta = problem.bias_feature
    intercept = np.broadcast_to(np.asarray(point.intercept, dtype=np.float64), point.coef.shape[:-1])
    bias = intercept / beta if beta > 0.0 else np.zeros(intercept.shape)
    return np.concatenate([point.coef, bias[..., None]], axis=-1)


def spread_of(a: Ends, b: Ends, low: float, high: float) -> Floats:
    """Return H of each part, rounded up."""
    of_losses = (high - low) * (1.0 + 4.0 * UNIT) * np.maximum(a.losses[:, 0] - b.losses[:, 1], 0.0)
    apart = np.zeros(a.gaps.size)
    for one, other, which in ((a.weights, b.weights, 0), (a.dual_weights, b.dual_weights, 1)):
        distance = np.sqrt(((one - other) ** 2).sum(axis=1)) * (1.0 - gamma(one.shape[1] + 16))
        distance -= (a.errors[:, which] + b.errors[:, which]) * (1.0 + 4.0 * UNIT)
        apart += 0.5 * np.maximum(distance, 0.0) ** 2
    return np.asarray(np.maximum(of_losses - apart * (1.0 - 8.0 * UNIT), 0.0) + 8.0 * UNIT * of_losses)


def edges_of(low: float, high: float) -> Floats:
    """Return the values of C that separate the parts of a range, both ends included."""
    edges = low + (high - low) * (np.arange(PARTS + 1) / PARTS)
    edges[0], edges[-1] = low, high
    return np.clip(edges, low, high)


def score_bounds(
    a: Ends, b: Ends, spread: Floats, edges: Floats, judged: Judged, *, are_joint: bool
) -> tuple[Floats, Floats]:
    """Return bounds of every held-out score in each part of the range. `spread`: H.

    `are_joint`: the classes share one ball. The bounds then hold only for differences between classes.
    """
    low, high = float(edges[0]), float(edges[-1])
    t = (high - edges) / (high - low)
    radius = np.stack([_largest_radii(t, *one) for one in zip(spread, a.gaps, b.gaps, strict=True)], axis=1)
    doubt = np.maximum(a.doubt, b.doubt)
    share = t.reshape(-1, *[1] * a.middle.ndim)
    middle = share * a.middle + (1.0 - share) * b.middle
    return _boxes(
        np.minimum(middle[:-1], middle[1:]), np.maximum(middle[:-1], middle[1:]), radius, doubt, judged, are_joint
    )


def score_bounds_at(ends: Ends, judged: Judged, *, are_joint: bool) -> tuple[Floats, Floats]:
    """Return bounds of every held-out score of the exact minimiser at the C of one training."""
    middle, radius = ends.middle[None], np.sqrt(ends.gaps)[None] * (1.0 + 8.0 * UNIT)
    return _boxes(middle, middle, radius, ends.doubt, judged, are_joint)


def _boxes(
    least: Floats, most: Floats, radius: Floats, doubt: Floats, judged: Judged, are_joint: bool
) -> tuple[Floats, Floats]:
    """Return the intervals of the scores: the centre plus and minus the radius. radius: (ranges, parts); doubt:
    (parts,)"""
    if are_joint:
        radius = radius * (math.sqrt(0.5) * (1.0 + 4.0 * UNIT))
    if least.ndim == 2:
        half = radius * judged.reach + doubt * judged.lengths
    else:
        half = radius[:, None, :] * judged.reach[:, None] + doubt * judged.lengths[:, None]
    half = half * (1.0 + 8.0 * UNIT)
    half[half > 0.0] += UNDERFLOW
    return least - half, most + half


def _largest_radii(t: Floats, spread: float, gap_a: float, gap_b: float) -> Floats:
    """Return the largest radius in each part; t falls from 1 to 0 along its edges."""
    peak = 0.5 + 0.5 * (gap_a - gap_b) / spread if spread > 0.0 else 0.0
    at = np.clip(peak, t[1:], t[:-1])

    def squared(share: Floats) -> Floats:
        return share * (1.0 - share) * spread + share * gap_a + (1.0 - share) * gap_b

    largest = np.maximum(np.maximum(squared(t[1:]), squared(t[:-1])), squared(at))
    return np.asarray(np.sqrt(largest * (1.0 + 16.0 * UNIT) + SLACK * (spread + gap_a + gap_b)) * (1.0 + 4.0 * UNIT))


def _empty_rows(rows: Rows) -> Array:
    """Return the rows whose entries are all 0. Norms cannot show this, because squares can underflow."""
    empty = np.flatnonzero(rows.squared_norms() == 0.0)
    if empty.size and rows.taken(empty).flat().values.any():
        return np.array([i for i in empty if not rows.taken(np.array([i])).flat().values.any()], dtype=np.int64)
    return empty


def _centred_lengths(rows: Rows) -> Floats:
    """Return upper bounds of |x_i - x'|, x' the mean row. The scores of rows i and j differ by at most |w| times the
    sum of their two bounds."""
    mean, along = np.empty(rows.n_features), np.empty(rows.n_rows)
    rows.weighted_column_sums(np.full(rows.n_rows, 1.0 / rows.n_rows), mean)
    rows.margins(mean, along)
    squares, length = rows.lengths() ** 2, length_at_most(mean)
    of_mean = length * length
    doubt = gamma(rows.n_features + 64) * 4.0 * (squares + of_mean)
    return np.asarray(np.sqrt(np.maximum(squares - 2.0 * along + of_mean, 0.0) + doubt) * (1.0 + 8.0 * UNIT))
