"""The fixed Python surface of the solvers: names, arguments, what is listed, what a result offers."""

import inspect
import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers.data.rows import as_rows
from solvers.engine.registry import registered
from solvers.linalg.products import margins_dense

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 3.0], [1.5, 0.2]])
SHAPE = {"n_rows": 5, "n_features": 2, "n_classes": 2, "sparse": False}


def test_the_public_names_are_exactly_these():
    assert solvers.__all__ == [
        "AUTO_TOL",
        "PARAMETERS",
        "Best",
        "Certificate",
        "ChosenC",
        "Estimate",
        "FoldModel",
        "InvalidOptions",
        "InvalidProblem",
        "LeaveOneOut",
        "LinearModel",
        "OuterEstimate",
        "Parameter",
        "Parameters",
        "PathResult",
        "Planes",
        "Point",
        "Problem",
        "Scorer",
        "SolveResult",
        "SolverError",
        "Status",
        "StepReport",
        "Trial",
        "Tried",
        "TuneProgress",
        "TuneResult",
        "TuningCertificate",
        "UnknownSolver",
        "UnsupportedProblem",
        "Verdict",
        "available",
        "certify",
        "check",
        "choose_c",
        "estimate",
        "leave_one_out",
        "load_kernels",
        "path",
        "train",
        "tune",
        "warm_up",
    ]
    assert all(hasattr(solvers, name) for name in solvers.__all__)


def test_train_takes_exactly_these_arguments():
    defaults = {name: parameter.default for name, parameter in inspect.signature(solvers.train).parameters.items()}
    nothing = inspect.Parameter.empty
    assert defaults == {
        "X": nothing,
        "y": nothing,
        "solver": "auto",
        "task": "auto",
        "strategy": "ovr",
        "loss": "auto",
        "p": None,
        "C": 1.0,
        "c_scale": "sum",
        "bias": "regularized",
        "bias_scale": 1.0,
        "sample_weight": None,
        "class_weight": None,
        "groups": None,
        "epsilon": 0.1,
        "tol": 1e-3,
        "max_seconds": None,
        "max_passes": None,
        "seed": 0,
        "threads": None,
        "warm_start": None,
        "resume": False,
        "callback": None,
        "options": None,
    }


def test_check_takes_the_arguments_of_train_that_need_no_data():
    train, check = inspect.signature(solvers.train).parameters, inspect.signature(solvers.check).parameters
    needs_data = {"X", "y", "sample_weight", "groups", "threads", "warm_start", "resume", "callback"}
    assert set(check) == set(train) - needs_data | {"n_rows", "n_features", "n_classes", "sparse"}
    assert all(check[name].default == train[name].default for name in set(check) & set(train))


def test_available_describes_every_method_in_plain_json():
    listed = json.loads(json.dumps(solvers.available()))
    assert set(listed) == set(registered())
    for description in listed.values():
        assert {"tasks", "losses", "biases", "options", "paper", "notes"} <= set(description)
        for option in description["options"].values():
            assert {"type", "default", "minimum", "maximum", "choices", "description"} == set(option)


def test_check_says_what_would_run():
    expected = {"solver": "dcd", "reason": "it was asked for", "task": "binary", "loss": "hinge", "bias": "regularized"}
    assert solvers.check(**SHAPE, solver="dcd") == expected
    changed = {"loss": "squared_hinge", "bias": "none"}
    assert solvers.check(**SHAPE, **changed, solver="dcd") == expected | changed


def test_auto_says_which_solver_it_used():
    assert solvers.train(X, [0, 1, 1, 0, 1]).solver in solvers.available()


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1, 1, 0, 1]),
        [False, True, True, False, True],
        ["ham", "spam", "spam", "ham", "spam"],
        np.array(["ham", "spam", "spam", "ham", "spam"], dtype=object),
        np.array([-1.5, 2.5, 2.5, -1.5, 2.5]),
        np.array([7, 3, 3, 7, 3], dtype=np.uint8),
    ],
    ids=["int", "bool", "text", "object", "float", "unsigned"],
)
def test_labels_come_back_as_they_were(labels):
    result = solvers.train(X, labels, C=100.0)
    predicted = result.predict(X)
    assert predicted.dtype == np.asarray(labels).dtype
    assert predicted.tolist() == list(labels)
    assert result.classes.tolist() == sorted(set(labels))
    scores = result.decision_function(X)
    assert ((scores > 0) == (np.asarray(labels) == result.classes[1])).all()


def test_predictions_are_the_same_for_every_kind_of_table():
    result = solvers.train(X, [0, 1, 1, 0, 1])
    expected = X @ result.coef + result.intercept
    for table in (X, X.tolist(), X.astype(np.float32), sp.csr_array(X), sp.csc_matrix(X), np.asfortranarray(X)):
        np.testing.assert_allclose(result.decision_function(table), expected, rtol=1e-6, atol=1e-9)
    with pytest.raises(solvers.InvalidProblem, match="2 features"):
        result.predict(np.zeros((3, 5)))


@pytest.mark.parametrize(
    "table",
    [
        X.astype(np.int64),
        X.tolist(),
        np.asfortranarray(X),
        X[:, ::-1][:, ::-1],
        X.astype(">f8"),
        sp.csc_array(X),
        sp.coo_array(X),
        sp.csr_array((sp.csr_array(X).data, sp.csr_array(X).indices.astype(np.int64), sp.csr_array(X).indptr)),
    ],
    ids=["int", "list", "fortran", "view", "big-endian", "csc", "coo", "int64-indices"],
)
def test_any_table_of_numbers_is_accepted(table):
    truth = X.astype(np.int64) if getattr(table, "dtype", None) == np.int64 else X
    expected = solvers.train(truth.astype(float), [0, 1, 1, 0, 1], tol=1e-8)
    result = solvers.train(table, [0, 1, 1, 0, 1], tol=1e-8)
    np.testing.assert_allclose(result.coef, expected.coef, atol=1e-3)
    assert result.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-7)


def test_entries_given_twice_in_a_sparse_row_are_added_up():
    doubled = sp.csr_array(
        (np.array([0.25, 0.75, 1.0, 3.0]), np.array([1, 1, 0, 1]), np.array([0, 2, 3, 4])), shape=(3, 2)
    )
    plain = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 3.0]])
    result = solvers.train(doubled, [0, 1, 0], tol=1e-8)
    expected = solvers.train(plain, [0, 1, 0], tol=1e-8)
    assert result.certificate.primal == pytest.approx(expected.certificate.primal, rel=1e-7)
    assert as_rows(doubled).squared_norms().tolist() == [1.0, 1.0, 9.0]
    assert doubled.nnz == 4, "the caller's matrix is left alone"


def test_memory_mapped_rows_use_the_kernels_compiled_for_ordinary_ones(tmp_path):
    solvers.train(X, [0, 1, 1, 0, 1])
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    before = len(margins_dense.signatures)
    result = solvers.train(mapped, [0, 1, 1, 0, 1])
    assert result.coef.tobytes() == solvers.train(X, [0, 1, 1, 0, 1]).coef.tobytes()
    assert len(margins_dense.signatures) == before


def test_errors_are_value_errors_that_name_their_argument():
    for name in ("InvalidProblem", "UnsupportedProblem", "UnknownSolver", "InvalidOptions"):
        error = getattr(solvers, name)("C", "must be positive")
        assert isinstance(error, solvers.SolverError)
        assert isinstance(error, ValueError)
        assert error.argument == "C"
        assert str(error) == "C: must be positive"


def test_errors_survive_the_way_between_processes():
    error = pickle.loads(pickle.dumps(solvers.InvalidProblem("C", "must be positive")))
    assert (error.argument, str(error)) == ("C", "C: must be positive")
