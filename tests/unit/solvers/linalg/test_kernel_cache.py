"""Warming kernels, and recovery from cache files that a kill or a full disk left truncated."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from solvers.linalg.kernel_cache import cache_files, forget_stale, kernels_of, warm

pytestmark = pytest.mark.slow

TWO_KERNELS = """
from numba import njit

@njit(cache=True)
def double(value):
    return 2 * value

@njit(cache=True)
def triple(value):
    return 3 * value
"""


@pytest.fixture
def load_kernels(tmp_path, monkeypatch):
    """Loads a fresh copy of a module with two kernels, which share one cache on disk."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    source = tmp_path / "two_kernels.py"
    source.write_text(TWO_KERNELS)

    def load():
        specification = importlib.util.spec_from_file_location("two_kernels", source)
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        return module

    return load


def call(module):
    return module.double(4), module.triple(5)


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("left", [0.0, 0.5, 0.98])
def test_a_truncated_cache_file_is_replaced(load_kernels, suffix, left):
    first = load_kernels()
    assert call(first) == (8, 15)
    (victim,) = [file for file in cache_files(first.double) if file.suffix == suffix]
    others = {file: file.stat().st_ino for file in cache_files(first.triple)}
    assert len(others) == 2
    whole = victim.read_bytes()
    victim.write_bytes(whole[: int(left * len(whole))])
    with pytest.raises(Exception):  # noqa: B017, PT011  # unpickling garbage raises what it likes
        call(load_kernels())

    mended = load_kernels()
    warm(kernels_of(mended), lambda: call(mended))
    assert call(mended) == (8, 15)
    assert call(load_kernels()) == (8, 15), "other processes find a whole cache again"
    assert {file: file.stat().st_ino for file in cache_files(first.triple)} == others, "the rest is left alone"


def test_an_error_that_is_not_the_caches_fault_is_passed_on(load_kernels):
    module = load_kernels()
    call(module)
    calls = []

    def fail():
        calls.append(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        warm(kernels_of(module), fail)
    assert len(calls) == 1
    assert len(cache_files(module.double)) == 2


# Only dcd: compiling every method from nothing would take as long as the rest of the suite.
WARM_UP_AND_TRAIN = """
import solvers
solvers.warm_up(["dcd"])
result = solvers.train([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 3.0]], [0, 1, 1, 0], solver="dcd")
print(result.coef.tobytes().hex())
"""


def test_warm_up_mends_its_own_cache(tmp_path):
    """In processes of their own, with a cache of their own: a cold start, then one after damage."""
    root = Path(__file__).resolve().parents[4]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(root)}

    def run():
        return subprocess.run(
            [sys.executable, "-c", WARM_UP_AND_TRAIN],
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    first = run()
    assert first.returncode == 0, first.stderr
    victims = [*tmp_path.rglob("*.run_pass*.nbc"), *tmp_path.rglob("*.both_products_csr*.nbi")]
    assert len(victims) >= 3
    for victim in victims:
        victim.write_bytes(victim.read_bytes()[:100])
    second = run()
    assert second.returncode == 0, second.stderr
    assert second.stdout == first.stdout
    assert all(victim.stat().st_size > 100 for victim in victims)


WARMED = """
import sys
import numpy as np
import scipy.sparse
import solvers
from solvers.linalg.kernel_cache import kernels_of

def signatures():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("solvers")]
    return {(kernel.py_func.__qualname__, str(one)) for module in modules for kernel in kernels_of(module)
            for one in kernel.signatures}

solvers.warm_up(["dcd", "newton", "smooth_newton"])
warmed = signatures()
X = np.random.default_rng(0).standard_normal((6000, 5))
for rows in (X, X.astype(np.float32), scipy.sparse.csr_array(X), scipy.sparse.csr_array(X.astype(np.float32))):
    for loss in ("hinge", "squared_hinge"):
        for solver in ("dcd", "newton" if loss == "squared_hinge" else "smooth_newton"):
            solvers.train(rows, X[:, 0] > 0.3 * X[:, 1], solver=solver, loss=loss, tol=1e-6, max_passes=50)
print(*sorted(signatures() - warmed), sep="\\n")
"""


def test_a_process_that_was_warmed_up_compiles_nothing_for_many_rows():
    done = subprocess.run([sys.executable, "-c", WARMED], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


CALLER = """
from numba import njit
from called import double

@njit(cache=True)
def quadruple(value):
    return double(double(value))
"""
CALLED = """
from numba import njit

@njit(cache=True)
def double(value):
    return {} * value
"""
CALL = """
import numba
from pathlib import Path
from solvers.linalg.kernel_cache import forget_stale
numba.config.CACHE_DIR = ""
{}
import caller
print(caller.quadruple(5), sum(caller.quadruple.stats.cache_hits.values()))
"""


def test_kernels_that_call_changed_ones_of_another_file_are_compiled_again(tmp_path):
    """numba itself sees nothing of it: the first assertion after the change says so."""
    called, root = tmp_path / "called.py", Path(__file__).resolve().parents[4]
    (tmp_path / "caller.py").write_text(CALLER)

    def run(before=""):
        path = os.pathsep.join([str(tmp_path), str(root)])
        done = subprocess.run(
            [sys.executable, "-c", CALL.format(before)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        return tuple(map(int, done.stdout.split()))

    forget = f"forget_stale(Path({str(tmp_path)!r}))"
    called.write_text(CALLED.format(2))
    assert run(forget) == (20, 0)
    assert run(forget) == (20, 1), "what has not changed stays"
    called.write_text(CALLED.format(10))
    assert run() == (20, 1)
    assert run(forget) == (500, 0)
    assert run(forget) == (500, 1)
    (tmp_path / "unrelated.py").write_text("VALUE = 1")
    assert run(forget) == (500, 1), "the kernels of what does not import a changed file stay"


def test_sources_that_cannot_be_written_beside_are_left_alone(tmp_path):
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "__pycache__").write_text("a file where a folder should be")
    forget_stale(tmp_path)
