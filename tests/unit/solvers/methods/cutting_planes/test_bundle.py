"""The reduced problem over cutting planes, alone: its optimum, its bound, and what dropping and growing do to it."""

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

from solvers.methods.cutting_planes import bundle
from solvers.methods.cutting_planes.bundle import empty_bundle


def planes(seed):
    """Normals and levels of all kinds: scales far apart, repeated, nearly parallel, of few dimensions, of no length."""
    random = np.random.default_rng(seed)
    count, width = int(random.integers(1, 120)), int(random.integers(1, 60))
    normals = random.standard_normal((count, width)) * 10.0 ** random.uniform(-3, 3)
    levels = random.standard_normal(count) * 10.0 ** random.uniform(-2, 2)
    kind = seed % 5
    if kind == 1:
        normals = normals[random.integers(0, count, count)]
    elif kind == 2:
        normals, levels = normals[:1] + 1e-4 * normals, np.abs(levels)
    elif kind == 3:
        normals[:, : width // 2 + 1] = 0.0
        normals[0] = 0.0
    elif kind == 4:
        same = random.integers(0, max(1, count // 3), count)
        normals, levels = normals[same], levels[same]
    return normals, levels


def reduced_objective(normals, levels, w):
    return 0.5 * w @ w + max(0.0, (levels - normals @ w).max())


def conic_optimum(normals, levels):
    """(low, high) around the optimum of min 1/2 |w|^2 + xi, xi >= 0, xi >= level - normal . w."""
    count, width = normals.shape
    P = sp.diags_array(np.append(np.ones(width), 0.0), format="csc")
    rows = np.vstack([np.hstack([-normals, -np.ones((count, 1))]), np.append(np.zeros(width), -1.0)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.NonnegativeConeT(count + 1)]
    linear, rhs = np.append(np.zeros(width), 1.0), np.append(-levels, 0.0)
    solution = clarabel.DefaultSolver(P, linear, sp.csc_array(rows), rhs, cones, settings).solve()
    g = np.maximum(np.array(solution.z)[:count], 0.0)
    g /= max(1.0, g.sum())
    w = normals.T @ g
    return g @ levels - 0.5 * w @ w, reduced_objective(normals, levels, np.array(solution.x)[:width])


@pytest.mark.parametrize("seed", range(60))
def test_the_optimum_is_that_of_a_conic_solver_whether_planes_come_together_or_one_by_one(seed):
    normals, levels = planes(seed)
    made = empty_bundle(normals.shape[1])
    for normal, level in zip(normals, levels, strict=True):
        made.add(normal, level)
        if seed % 2:
            made.solve()
    bound, w = made.solve()
    kept, kept_levels = made.vectors[1 : made.count], made.levels[1 : made.count]
    g = made.multipliers[: made.count]
    assert (g >= 0.0).all()
    assert g.sum() == pytest.approx(1.0, abs=1e-14)
    assert np.linalg.norm(w - kept.T @ g[1:]) <= 1e-14 * np.abs(kept).max() * g.size
    low, high = conic_optimum(kept, kept_levels)
    # Where long normals nearly cancel, their products with w are known to an ulp of their squares only.
    rounding = 1e-14 * np.abs(kept_levels).max() + 1e-16 * (kept**2).sum(axis=1).max()
    assert abs(bound - (g[1:] @ kept_levels - 0.5 * w @ w)) <= rounding
    assert bound <= high + 1e-12 * abs(high) + rounding
    assert bound >= low - 1e-12 * abs(low) - rounding
    # Duality alone shows that it is optimal: weights and multipliers have the same value.
    assert reduced_objective(kept, kept_levels, w) - bound <= 1e-10 * bound + 10.0 * rounding


def test_solving_again_changes_nothing_worth_mentioning():
    normals, levels = planes(335)
    made = empty_bundle(normals.shape[1])
    for normal, level in zip(normals, levels, strict=True):
        made.add(normal, level)
    first, _ = made.solve()
    for _ in range(5):
        again, _ = made.solve()
        assert again == pytest.approx(first, rel=1e-14)


def test_the_gram_matrix_and_what_planes_carry_follow_dropped_and_added_planes(monkeypatch):
    monkeypatch.setattr(bundle, "IDLE_SOLVES", 3)
    random = np.random.default_rng(1)
    made = empty_bundle(40, attached=(2, np.int16))
    most = 0
    for number in range(80):
        made.add(random.standard_normal(40), 30.0 + random.standard_normal(), attached=np.array([number, -number]))
        used = {tuple(made.attached[k]) for k in made.active()}
        made.solve()
        most = max(most, made.count)
        marks, kept = made.attached[: made.count], made.vectors[: made.count]
        assert used <= {tuple(mark) for mark in marks}, "a plane in use was dropped"
        assert made.gram[: made.count, : made.count] == pytest.approx(kept @ kept.T, abs=1e-12)
        assert (marks[:, 0] == -marks[:, 1]).all()
        assert made.levels[0] == 0.0
        assert not made.vectors[0].any()
    assert 16 < most < 80, "the first room was never outgrown, or no plane was dropped"


def test_an_empty_bundle_and_planes_that_promise_nothing_leave_the_weights_at_zero():
    made = empty_bundle(3)
    bound, w = made.solve()
    assert bound == 0.0
    assert not w.any()
    made.add(np.array([1.0, 2.0, 3.0]), -1.0)
    bound, w = made.solve()
    assert bound == 0.0
    assert not w.any()
    assert made.active().size == 0
