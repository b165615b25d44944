"""Every method, interrupted after a random step and resumed from its checkpoint file, repeats its steps to the bit."""

import zlib

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from tests.support.checkpoints import Interruption, written_and_read
from tests.support.conformance import CHOICES, over

STEPS = 40
"""Of a run that has as many."""
NEVER = 1e-300
"""A tolerance that no run reaches, so that no certificate changes what a method aims at."""


def training_rows(task, sparse, n, d):
    random = np.random.default_rng(11)
    X = random.standard_normal((n, d)) * (random.random((n, d)) < 0.6)
    signal = X @ random.standard_normal(d) + 1.5 * random.standard_normal(n)
    y = {"binary": signal > 0.2, "regression": signal}.get(task, np.digitize(signal, [-1.0, 0.8]))
    return sp.csr_array(X) if sparse else X, y, random.choice([0.0, 0.5, 1.0, 3.0], size=n)


def bits_of(report):
    model = report.model()
    return model.coef.tobytes() + np.asarray(model.intercept, dtype=np.float64).tobytes()


def weights_by_iteration(X, y, n_steps, **arguments):
    """The bits of the weights after each iteration, and the number of steps.

    Where an iteration takes several steps, the last one counts. No limit of passes: methods plan their reads by it.
    """
    met, steps = {}, 0

    def meet(report):
        nonlocal steps
        if report.has_model:
            met[report.iterations] = bits_of(report)
            steps += 1
        return steps >= n_steps

    solvers.train(X, y, callback=meet, tol=NEVER, **arguments)
    return met, steps


def interrupted(X, y, after, **arguments):
    """The state after this many steps, as its checkpoint file gives it back, and the iterations until then."""
    taken, seen = {}, 0

    def interrupt(report):
        nonlocal seen
        seen += 1
        if seen == after:
            taken.update(state=report.snapshot(), iterations=report.iterations)
            raise Interruption

    with pytest.raises(Interruption):
        solvers.train(X, y, callback=interrupt, tol=NEVER, **arguments)
    return written_and_read(taken["state"]), taken["iterations"]


def iterations_compared(choice, *, sparse, n, d=9, draws=2):
    """Interrupt runs at random steps and compare what follows; return how many iterations were compared."""
    X, y, weights = training_rows(choice.task, sparse, n, d)
    arguments = {**choice.arguments, "C": 2.0, "sample_weight": weights, "seed": 5, "threads": 1}
    whole, steps = weights_by_iteration(X, y, STEPS, **arguments)
    random = np.random.default_rng(zlib.crc32(repr((choice.method.name, *choice[1:], sparse)).encode()))
    compared = 0
    for after in random.integers(1, max(2, steps - 1), size=draws):
        state, iterations = interrupted(X, y, int(after), **arguments)
        resumed, _ = weights_by_iteration(X, y, STEPS, warm_start=state, resume=True, **arguments)
        # The last iteration of a run can be incomplete.
        common = [k for k in whole.keys() & resumed.keys() if iterations < k < max(whole)]
        assert [k for k in common if whole[k] != resumed[k]] == [], f"interrupted after step {after} of {steps}"
        compared += len(common)
    return compared


@over([choice for choice in CHOICES if choice.method.name != "svm1d"])
def test_a_resumed_run_repeats_the_steps_of_an_uninterrupted_one(choice):
    assert all(iterations_compared(choice, sparse=sparse, n=120) > 0 for sparse in (False, True))


@over([choice for choice in CHOICES if choice.method.name in ("dcd", "newton", "pegasos", "tron")])
def test_so_it_does_on_rows_of_which_samples_are_taken(choice):
    assert iterations_compared(choice, sparse=False, n=6000, draws=1) > 0


@over([choice for choice in CHOICES if choice.method.name == "svm1d"])
def test_a_method_of_one_step_repeats_it(choice):
    X, y, weights = training_rows("binary", False, 120, 9)
    arguments = {**choice.arguments, "sample_weight": weights}
    whole, _ = weights_by_iteration(X, y, STEPS, **arguments)
    state, _ = interrupted(X, y, 1, **arguments)
    resumed, _ = weights_by_iteration(X, y, STEPS, warm_start=state, resume=True, **arguments)
    assert list(whole) == [1]
    assert list(resumed) == [2]
    assert resumed[2] == whole[1]
