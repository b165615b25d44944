"""The two ways to a Newton direction, against the matrix itself."""

import numpy as np
import pytest

from solvers.methods.newton.newton_system import ENOUGH, corrected_direction, solve_newton_system


def system(seed=0, k=40):
    random = np.random.default_rng(seed)
    A = random.standard_normal((3 * k, k)) * np.geomspace(1.0, 30.0, k)
    return np.eye(k) + A.T @ A, random.standard_normal(k), random


def test_a_solution_has_the_residual_that_is_asked_for():
    H, gradient, _ = system()
    diagonal = H.diagonal()
    found = solve_newton_system(lambda d: H @ d, lambda r: r / diagonal, gradient, 1e-12, 500)
    np.testing.assert_allclose(found.direction, -np.linalg.solve(H, gradient), rtol=1e-4, atol=1e-9)
    left = H @ found.direction + gradient
    assert 0.5 * left @ left == pytest.approx(found.residual, rel=1e-3)
    assert found.residual <= 1e-12


def test_a_good_direction_ends_it_where_no_residual_is_asked_for():
    H, gradient, _ = system()
    diagonal = H.diagonal()
    precise = solve_newton_system(lambda d: H @ d, lambda r: r / diagonal, gradient, 1e-12, 500)
    products = []
    found = solve_newton_system(lambda d: products.append(d) or H @ d, lambda r: r / diagonal, gradient, np.inf, 500)
    left = H @ found.direction + gradient
    assert left @ (left / diagonal) <= ENOUGH * (gradient @ (gradient / diagonal))
    assert found.reads == len(products) == precise.reads  # what came after it was good enough does not count


def test_the_matrix_itself_as_preconditioner_takes_one_product():
    H, gradient, _ = system()
    found = solve_newton_system(lambda d: H @ d, lambda r: np.linalg.solve(H, r), gradient, np.inf, 500)
    assert found.reads == 1
    np.testing.assert_allclose(H @ found.direction, -gradient, rtol=1e-8)


def test_products_are_limited_and_an_overflow_ends_it():
    H, gradient, _ = system()
    assert solve_newton_system(lambda d: H @ d, lambda r: r, gradient, 0.0, 3).reads == 3
    broken = solve_newton_system(lambda d: np.full_like(d, np.nan), lambda r: r, gradient, 0.0, 9)
    assert broken.reads == 1


def test_pairs_correct_the_direction_as_the_matrix_of_bfgs_does():
    H, gradient, random = system(seed=1, k=12)
    steps = random.standard_normal((3, 12))
    changes = steps @ H
    inverse = np.diag(1.0 / H.diagonal())
    for s, y in zip(steps, changes, strict=True):
        turn = np.eye(12) - np.outer(s, y) / (s @ y)
        inverse = turn @ inverse @ turn.T + np.outer(s, s) / (s @ y)
    found = corrected_direction(lambda q: q / H.diagonal(), steps, changes, gradient)
    np.testing.assert_allclose(found, -inverse @ gradient, rtol=1e-9)
