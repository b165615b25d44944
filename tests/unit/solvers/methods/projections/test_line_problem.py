"""The exact solver of one-dimensional problems against enumeration, and its dual point against its definition."""

import numpy as np
import pytest

from solvers.methods.projections.line_problem import Line

PROBLEMS = 10_000
SIZES = range(2, 8)
EXPONENTS = {"hinge": 1.0, "squared_hinge": 2.0}
every_loss = pytest.mark.parametrize("loss", EXPONENTS)


def drawn(count, n, seed):
    """(z, signs, costs, squared norms) of `count` problems of n rows, of every awkward kind."""
    random = np.random.default_rng([seed, n])
    z = random.standard_normal((count, n))
    kind = random.integers(6, size=count)[:, None]
    z = np.where(kind == 1, np.round(z), z)  # ties within and across the classes
    z = np.where(kind == 2, z[:, :1], z)  # the same place for all
    z = np.where(kind == 3, np.round(2.0 * z) + 1e3, z)  # far from the origin
    positive = z + random.choice([0.1, 2.0, 20.0], size=(count, 1)) * random.standard_normal((count, n)) > 0.0
    signs = random.choice([-1.0, 1.0], size=(count, 1)) * np.where(positive, 1.0, -1.0)
    signs[:, 0], signs[:, 1] = 1.0, -1.0
    costs = random.choice([0.01, 1.0, 30.0], size=(count, 1)) * np.where(
        random.random((count, 1)) < 0.5, 1.0, random.choice([0.0, 0.5, 1.0, 2.0, 2.7], size=(count, n))
    )
    costs[:, :2] = np.where((costs[:, :2] == 0.0) & (random.random((count, 2)) < 0.8), 1.0, costs[:, :2])
    return z, signs, costs, random.choice([0.3, 1.0, 40.0], size=count)


def values(z, signs, costs, norms, s, b, p):
    """The objective of each problem at each of its candidates: s and b are (problems, candidates)."""
    slack = 1.0 - signs[:, None] * (s[:, :, None] * z[:, None] + b[:, :, None])
    losses = (costs[:, None] * np.maximum(slack, 0.0) ** p).sum(axis=2)
    return 0.5 * norms[:, None] * s**2 + losses


def least_hinge(z, signs, costs, norms):
    """A best b makes some row i's slack zero. On b = y_i - s z_i the objective is a parabola between the slopes at
    which other rows' slacks are zero, too: its least value is at such a slope or at a parabola's own minimum."""
    problems, n = z.shape
    best = np.full(problems, np.inf)
    for i in range(n):
        apart = z - z[:, i : i + 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            kinks = (signs - signs[:, i : i + 1]) / apart
        kinks = np.sort(np.where(np.isfinite(kinks), kinks, 0.0), axis=1)
        inside = np.concatenate([kinks[:, :1] - 1.0, 0.5 * (kinks[:, 1:] + kinks[:, :-1]), kinks[:, -1:] + 1.0], axis=1)
        slack = 1.0 - signs[:, None] * (signs[:, i, None, None] + inside[:, :, None] * apart[:, None])
        pull = np.where(slack > 0.0, costs[:, None] * signs[:, None] * apart[:, None], 0.0).sum(axis=2)
        s = np.concatenate([kinks, pull / norms[:, None], np.zeros((problems, 1))], axis=1)
        b = signs[:, i : i + 1] - s * z[:, i : i + 1]
        best = np.minimum(best, values(z, signs, costs, norms, s, b, 1.0).min(axis=1))
    return best


def least_squared(z, signs, costs, norms):
    """Some set of rows is active at the optimum, which is that set's least-squares fit: try all sets."""
    n = z.shape[1]
    sets = (np.arange(1, 2**n)[:, None] >> np.arange(n)) & 1
    weights = costs[:, None] * sets
    mass = weights.sum(axis=2)
    mass = np.where(mass > 0.0, mass, 1.0)
    mean_z, mean_y = ((weights * v[:, None]).sum(axis=2) / mass for v in (z, signs))
    off_z, off_y = z[:, None] - mean_z[:, :, None], signs[:, None] - mean_y[:, :, None]
    s = 2.0 * (weights * off_z * off_y).sum(axis=2) / (norms[:, None] + 2.0 * (weights * off_z**2).sum(axis=2))
    b = mean_y - s * mean_z
    ends = np.repeat([[1.0, -1.0]], len(z), axis=0)  # for a class without any weight
    s, b = np.concatenate([s, 0.0 * ends], axis=1), np.concatenate([b, ends], axis=1)
    return values(z, signs, costs, norms, s, b, 2.0).min(axis=1)


@every_loss
def test_is_the_least_value_of_all_candidates(loss):
    enumerate_least = least_hinge if loss == "hinge" else least_squared
    seen_slopes = set()
    for n in SIZES:
        count = -(-PROBLEMS // len(SIZES))
        drawing = drawn(count, n, seed=1)
        z, signs, costs, norms = (part[(drawing[2] > 0.0).any(axis=1)] for part in drawing)
        optima = [
            Line(signs[k], costs[k], is_squared=loss == "squared_hinge").solve(z[k], norms[k]) for k in range(len(z))
        ]
        s, b, value, _ = np.array(optima).T
        least = enumerate_least(z, signs, costs, norms)
        scale = 1e-10 * (1e-3 + least)
        reached = values(z, signs, costs, norms, s[:, None], b[:, None], EXPONENTS[loss])[:, 0]
        assert (np.abs(value - least) <= scale).all()
        assert (np.abs(reached - least) <= 1e2 * scale).all()
        seen_slopes.update(np.sign(s))
    assert seen_slopes == {-1.0, 0.0, 1.0}


@every_loss
def test_the_dual_point_proves_the_optimum(loss):
    for n in (2, 5, 40, 400):
        z, signs, costs, norms = drawn(60, n, seed=2)
        for k in np.flatnonzero((costs > 0.0).any(axis=1)):
            line = Line(signs[k], costs[k], is_squared=loss == "squared_hinge")
            optimum = line.solve(z[k], norms[k])
            alpha = line.dual_point(z[k], optimum)
            assert (alpha >= 0.0).all()
            size = 1e-12 * (1e-3 + alpha.sum())
            assert abs(alpha @ signs[k]) <= size
            pull = (alpha * signs[k]) @ (z[k] - z[k].mean())
            assert abs(pull - norms[k] * optimum.slope) <= size * (1.0 + np.abs(z[k]).max())
            dual = alpha.sum() - 0.5 * pull**2 / norms[k]
            if loss == "hinge":
                assert (alpha <= costs[k]).all()
            else:
                used = costs[k] > 0.0
                dual -= (alpha[used] ** 2 / (4.0 * costs[k][used])).sum()
            assert dual == pytest.approx(optimum.value, rel=1e-10, abs=1e-12)


@every_loss
def test_a_start_nearby_changes_nothing_and_rows_of_no_cost_count_for_nothing(loss):
    z, signs, costs, norms = drawn(50, 30, seed=3)
    for k in range(len(z)):
        line = Line(signs[k], costs[k], is_squared=loss == "squared_hinge")
        cold = line.solve(z[k], norms[k])
        warm = line.solve(z[k], norms[k], near=cold._replace(slope=1.1 * cold.slope, bias=cold.bias + 0.1))
        assert warm.value == pytest.approx(cold.value, rel=1e-12, abs=1e-15)
        used = costs[k] > 0.0
        if 0 < (signs[k][used] > 0).sum() < used.sum():
            fewer = Line(signs[k][used], costs[k][used], is_squared=loss == "squared_hinge").solve(z[k][used], norms[k])
            assert fewer.value == pytest.approx(cold.value, rel=1e-12, abs=1e-15)


def test_where_no_slope_helps_the_rise_is_the_derivative_on_a_way_of_length_one():
    z, signs, costs, norms = drawn(400, 6, seed=5)
    compared = 0
    for k in range(len(z)):
        optimum = Line(signs[k], costs[k], is_squared=False).solve(z[k], norms[k])
        if optimum.slope == 0.0 and (costs[k] > 0.0).any():
            step = 1e-6 / np.sqrt(norms[k]) / max(1.0, np.abs(z[k]).max())
            one = tuple(part[k : k + 1] for part in (z, signs, costs))
            ahead = [at_slope(*one, slope) - optimum.value for slope in (step, -step)]
            derivative = min(ahead) / step / np.sqrt(norms[k])
            size = 1e-4 * (1.0 + costs[k].sum() * np.abs(z[k]).max() / np.sqrt(norms[k]))
            assert optimum.rise == pytest.approx(derivative, abs=size)
            assert optimum.rise >= 0.0
            compared += optimum.rise > size
    assert compared > 20


def at_slope(z, signs, costs, slope):
    """The least sum of losses for this slope, over the biases at which a row's slack is zero."""
    biases = signs - slope * z
    return values(z, signs, costs, np.zeros(1), np.full_like(biases, slope), biases, 1.0).min()


@pytest.mark.parametrize("shape", ["normal", "rising", "falling", "few values", "one value", "organ pipe"])
def test_sorts_only_as_far_as_needed_but_right(shape):
    """Long lists of every order that quicksorts are known to fear, with one answer: that of the sorted list."""
    n = 4000
    random = np.random.default_rng(4)
    z = {
        "normal": random.standard_normal(n),
        "rising": np.linspace(-2.0, 2.0, n),
        "falling": np.linspace(2.0, -2.0, n),
        "few values": random.choice([-1.0, 0.0, 1.0], size=n),
        "one value": np.ones(n),
        "organ pipe": np.concatenate([np.linspace(-2.0, 2.0, n // 2), np.linspace(2.0, -2.0, n - n // 2)]),
    }[shape]
    signs = np.where(z + random.standard_normal(n) > 0.0, 1.0, -1.0)
    optimum = Line(signs, np.ones(n), is_squared=False).solve(z, 1.0)
    rising, falling = np.sort(z[signs > 0]), np.sort(z[signs < 0])[::-1]
    pairs = min(rising.size, falling.size)
    delta = rising[:pairs] - falling[:pairs]
    slopes = np.concatenate([[0.0], 2.0 / delta[delta > 0], np.maximum(np.cumsum(delta), 0.0)])
    pieces = [0.5 * s * s + np.maximum(0.0, 2.0 - s * delta).sum() for s in np.unique(slopes)]
    assert optimum.value == pytest.approx(min(pieces), rel=1e-12)
