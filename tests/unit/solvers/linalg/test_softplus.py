"""exp, log1p and the sigmoid in plain arithmetic, against the 64-bit mantissas of long doubles."""

import numpy as np
import pytest

from solvers.linalg.softplus import (
    CUT_OFF,
    LOWEST,
    entropy_of_share,
    exp_of_minus,
    log1p_of_unit,
    log_of_share,
    sigmoid_and_softplus,
)

UNITS = 4.0  # in the last place, as the module promises


def units_off(computed, exact):
    return float(np.max(np.abs(computed - exact) / np.spacing(np.abs(exact).astype(np.float64))))


def numbers():
    random = np.random.default_rng(0)
    return np.concatenate(
        [
            random.uniform(-40.0, 40.0, 20_000),
            random.uniform(-700.0, 700.0, 5_000),
            10.0 ** random.uniform(-300, 2, 5_000),
        ]
    )


def test_exponentials_are_right_to_four_units_in_the_last_place():
    x = np.append(np.abs(numbers()), [0.0, np.log(2.0), 0.5 * np.log(2.0), LOWEST])
    computed = np.array([exp_of_minus(one) for one in x])
    assert units_off(computed, np.exp(-x.astype(np.longdouble))) <= UNITS
    assert exp_of_minus(0.0) == 1.0
    assert 0.0 < exp_of_minus(1e6) == exp_of_minus(LOWEST) < CUT_OFF


def test_logarithms_are_right_to_four_units_in_the_last_place():
    random = np.random.default_rng(1)
    y = np.concatenate([random.uniform(0.0, 1.0, 20_000), 10.0 ** random.uniform(-300, 0, 20_000), [1.0]])
    computed = np.array([log1p_of_unit(one) for one in y])
    assert units_off(computed, np.log1p(y.astype(np.longdouble))) <= UNITS
    assert log1p_of_unit(0.0) == 0.0


def test_logarithms_and_entropies_of_shares_are_right_to_four_units_in_the_last_place():
    random = np.random.default_rng(2)
    turn = np.sqrt(0.125)  # where the exponent of the logarithm's argument changes
    edges = [0.5, 0.25, turn, np.nextafter(turn, 0.0), np.nextafter(turn, 1.0), 2.0**-1000]
    x = np.concatenate([random.uniform(0.0, 0.5, 20_000), 10.0 ** random.uniform(-300, -0.302, 20_000), edges])
    exact = x.astype(np.longdouble)
    logarithms = np.array([log_of_share(one) for one in x])
    assert units_off(logarithms, np.log(exact)) <= UNITS
    entropies = np.array([entropy_of_share(one) for one in x])
    assert units_off(entropies, -exact * np.log(exact) - (1.0 - exact) * np.log1p(-exact)) <= UNITS


def test_sigmoid_and_softplus_follow_from_them():
    s = np.append(numbers(), 0.0)
    sigmoid, softplus = np.empty_like(s), np.empty_like(s)
    sigmoid_and_softplus(s, sigmoid, softplus)
    exact = s.astype(np.longdouble)
    small = np.exp(-np.abs(exact))
    assert units_off(sigmoid, np.where(exact >= 0.0, 1.0, small) / (1.0 + small)) <= 2.0 * UNITS
    assert units_off(softplus, np.maximum(exact, 0.0) + np.log1p(small)) <= 2.0 * UNITS


@pytest.mark.parametrize("slack", [np.nan, np.inf, -np.inf])
def test_a_slack_that_is_not_finite_has_no_finite_loss(slack):
    sigmoid, softplus = np.empty(1), np.empty(1)
    sigmoid_and_softplus(np.array([slack]), sigmoid, softplus)
    assert not np.isfinite(softplus[0])
