"""What is special to descent by several threads: with one it is dcd, with two it reaches what dcd reaches."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers.methods.dcd import dcd_parallel


def texts(n, d=400, seed=0):
    """Sparse rows of length 1 that no plane separates, with enough entries for two threads."""
    random = np.random.default_rng(seed)
    X = sp.random(n, d, density=0.1, format="csr", rng=random, data_rvs=random.standard_normal)
    X = sp.csr_matrix(X.multiply(1.0 / np.sqrt(X.multiply(X).sum(axis=1))))
    score = X @ random.standard_normal(d) + 0.5 * random.standard_normal(n)
    return X, np.where(score > 0.0, 1, -1)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_with_one_thread_it_is_dcd_to_the_bit(loss):
    X, y = texts(3000)
    one, other = (solvers.train(X, y, solver=name, loss=loss, tol=1e-5) for name in ("dcd", "dcd_parallel"))
    assert one.coef.tobytes() == other.coef.tobytes()
    assert one.certificate == other.certificate


@pytest.fixture
def always_by_all(monkeypatch):
    """Every pass but the first is made by all threads, whatever the clock says; the list has one entry for each."""
    epochs = []
    descent = dcd_parallel.ParallelDualDescent
    original = descent._run_epoch
    monkeypatch.setattr(dcd_parallel, "ENTRIES", 10_000)
    monkeypatch.setattr(descent, "_is_turn_of_all", lambda self, state: state.shrinking.epoch > 0)
    monkeypatch.setattr(descent, "_run_epoch", lambda self, state: epochs.append(1) or original(self, state))
    return epochs


@pytest.mark.parametrize("bias", ["regularized", "none"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_with_two_threads_it_converges_and_its_weights_are_those_of_its_dual_point(loss, bias, always_by_all):
    X, y = texts(4000)
    arguments = {"loss": loss, "bias": bias, "tol": 1e-6}
    result = solvers.train(X, y, solver="dcd_parallel", threads=2, **arguments)
    alone = solvers.train(X, y, solver="dcd", **arguments)
    assert len(always_by_all) >= 3, "two threads had something to do"
    assert result.threads == 2
    assert result.converged
    assert result.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-6)
    assert result.iterations <= 2 * alone.iterations + 5, "an epoch by two is worth about one by one"
    summed = X.T @ (result.state["alpha"] * y)
    assert result.state["w"][:-1] == pytest.approx(summed, rel=1e-9, abs=1e-9 * np.abs(summed).max())


@pytest.mark.parametrize("faster", [True, False])
def test_the_faster_way_is_taken_and_the_other_tried_now_and_then(faster, monkeypatch):
    """`faster`: whether a row takes all threads less time than one."""
    X, y = texts(4000)
    ways, clock = [], [0.0]
    descent = dcd_parallel.ParallelDualDescent

    def timed(name, by_all):
        original = getattr(descent, name)

        def run(self, state, target):
            ways.append(by_all)
            seen = original(self, state, target)
            clock[0] += seen.visited * (1.0 if by_all == faster else 3.0)
            return seen

        monkeypatch.setattr(descent, name, run)

    timed("_run_together", True)
    timed("_run_alone", False)
    monkeypatch.setattr(dcd_parallel, "ENTRIES", 0)
    monkeypatch.setattr(dcd_parallel, "solving_time", lambda: clock[0])
    solvers.train(X, y, solver="dcd_parallel", threads=2, tol=1e-14, C=10.0, max_passes=40)
    assert ways[:2] == [False, True]
    settled = ways[2 : 2 + 2 * dcd_parallel.TRUST_PASSES]
    assert len(settled) > dcd_parallel.TRUST_PASSES
    assert set(settled[: dcd_parallel.TRUST_PASSES - 1]) == {faster}
    assert settled[dcd_parallel.TRUST_PASSES - 1] is not faster


@pytest.mark.usefixtures("always_by_all")
def test_a_run_by_two_threads_goes_on_from_its_state():
    X, y = texts(4000, seed=1)
    first = solvers.train(X, y, solver="dcd_parallel", threads=2, tol=1e-7, max_passes=3)
    assert not first.converged
    rest = solvers.train(X, y, solver="dcd_parallel", threads=2, tol=1e-7, warm_start=first.state, resume=True)
    assert rest.converged
    assert rest.passes > first.passes
