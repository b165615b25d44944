"""Bad input: every mistake is refused with an error that names the argument and what would work."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers import InvalidOptions, InvalidProblem, UnknownSolver, UnsupportedProblem
from solvers.data.inspection import are_columns_ordered

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [0.0, 3.0]])
Y = [0, 1, 1, 0]
SHAPE = {"n_rows": 4, "n_features": 2, "n_classes": 2, "sparse": False}
NAN = float("nan")
INF = float("inf")


def with_value(value, row, column):
    table = X.copy()
    table[row, column] = value
    return table


CONFIGURATION = [  # refused by check and by train alike
    ({"C": 0.0}, InvalidProblem, "C", "above 0"),
    ({"C": -1}, InvalidProblem, "C", "above 0, not -1"),
    ({"C": NAN}, InvalidProblem, "C", "finite"),
    ({"C": INF}, InvalidProblem, "C", "finite"),
    ({"C": "1"}, InvalidProblem, "C", "not '1'"),
    ({"C": True}, InvalidProblem, "C", "not True"),
    ({"C": 10**400}, InvalidProblem, "C", "too large"),
    ({"c_scale": "median"}, InvalidProblem, "c_scale", "sum, mean"),
    ({"loss": "exponential"}, InvalidProblem, "loss", "hinge, squared_hinge"),
    ({"loss": "epsilon_insensitive"}, InvalidProblem, "loss", "does not fit task binary; use hinge"),
    ({"loss": "hinge_p"}, InvalidProblem, "p", "from 1 to 2"),
    ({"loss": "hinge_p", "p": 0.9}, InvalidProblem, "p", "from 1 to 2, not 0.9"),
    ({"loss": "hinge_p", "p": 2.1}, InvalidProblem, "p", "from 1 to 2"),
    ({"loss": "hinge_p", "p": NAN}, InvalidProblem, "p", "from 1 to 2"),
    ({"p": 1.5}, InvalidProblem, "p", "only used with loss hinge_p"),
    ({"bias": "maybe"}, InvalidProblem, "bias", "none, regularized, free"),
    ({"bias_scale": 0.0}, InvalidProblem, "bias_scale", "above 0"),
    ({"bias_scale": 1e300}, InvalidProblem, "bias_scale", "at most 1e+100"),
    ({"epsilon": -0.1}, InvalidProblem, "epsilon", "at least 0"),
    ({"task": "clustering"}, InvalidProblem, "task", "auto, binary"),
    ({"task": "regression", "solver": "dcd"}, UnsupportedProblem, "task", "cannot do regression"),
    ({"task": "multiclass", "strategy": "crammer_singer", "solver": "dcd"}, UnsupportedProblem, "task", "multiclass"),
    ({"task": "ordinal", "class_weight": "balanced"}, InvalidProblem, "class_weight", "no meaning with task ordinal"),
    ({"task": "ordinal", "loss": "hinge"}, InvalidProblem, "loss", "use pair_hinge"),
    ({"task": "ordinal", "solver": "dcd"}, UnsupportedProblem, "task", "cannot do ordinal"),
    ({"strategy": "pairs"}, InvalidProblem, "strategy", "ovr, crammer_singer"),
    ({"solver": "sgd"}, UnknownSolver, "solver", "auto or one of"),
    ({"solver": None}, UnknownSolver, "solver", "auto or one of"),
    ({"solver": "dcd", "loss": "hinge_p", "p": 1.5}, UnsupportedProblem, "loss", "hinge, squared_hinge"),
    ({"solver": "dcd", "bias": "free"}, UnsupportedProblem, "bias", "none, regularized"),
    ({"task": "regression", "solver": "svr_dual", "bias": "free"}, UnsupportedProblem, "bias", "smooth_newton can"),
    (
        {"task": "multiclass", "strategy": "crammer_singer", "bias": "free", "solver": "oca_t"},
        UnsupportedProblem,
        "bias",
        "oca_t cannot do free; it can do none, regularized; solver crammer_singer can",
    ),
    (
        {"task": "multiclass", "strategy": "crammer_singer", "loss": "squared_hinge"},
        UnsupportedProblem,
        "loss",
        "loss squared_hinge and bias regularized yet; use hinge",
    ),
    ({"class_weight": "equal"}, InvalidProblem, "class_weight", "'balanced' or a table"),
    ({"class_weight": {1: -1.0}}, InvalidProblem, "class_weight[1]", "at least 0"),
    ({"class_weight": {1: NAN}}, InvalidProblem, "class_weight[1]", "finite"),
    ({"tol": 0.0}, InvalidOptions, "tol", "above 0"),
    ({"tol": NAN}, InvalidOptions, "tol", "finite"),
    ({"max_seconds": 0}, InvalidOptions, "max_seconds", "above 0"),
    ({"max_passes": 0}, InvalidOptions, "max_passes", "at least 1"),
    ({"max_passes": 1.5}, InvalidOptions, "max_passes", "whole number"),
    ({"seed": -1}, InvalidOptions, "seed", "whole number"),
    ({"seed": 2**63}, InvalidOptions, "seed", "whole number"),
    ({"solver": "dcd", "options": {"speed": 1}}, InvalidOptions, "options", "no option 'speed'; it has: shrinking"),
    ({"solver": "dcd", "options": {"shrinking": "yes"}}, InvalidOptions, "options.shrinking", "true or false"),
    ({"solver": "dcd", "options": {"violation_tol": -1}}, InvalidOptions, "options.violation_tol", "at least 0"),
    ({"options": [1]}, InvalidOptions, "options", "a table"),
]


@pytest.mark.parametrize(
    ("arguments", "error", "argument", "message"), CONFIGURATION, ids=[str(row[0])[:50] for row in CONFIGURATION]
)
def test_check_and_train_refuse_alike(arguments, error, argument, message):
    with pytest.raises(error) as by_check:
        solvers.check(**SHAPE, **arguments)
    with pytest.raises(error) as by_train:
        solvers.train(X, Y, **arguments)
    assert by_check.value.argument == argument
    assert message in str(by_check.value)
    assert str(by_check.value) == str(by_train.value)


DATA = [
    ({"X": np.zeros((0, 2)), "y": []}, "X", "no rows"),
    ({"X": np.zeros((4, 0))}, "X", "no columns"),
    ({"X": np.zeros(4)}, "X", "1 dimensions"),
    ({"X": with_value(NAN, 2, 1)}, "X", "row 2, column 1"),
    ({"X": with_value(-INF, 3, 0)}, "X", "row 3, column 0"),
    ({"X": sp.csr_array(with_value(NAN, 2, 1))}, "X", "row 2, column 1"),
    ({"X": sp.csc_array(with_value(INF, 0, 1)).astype(np.float32)}, "X", "row 0, column 1"),
    ({"X": with_value(1e200, 1, 0)}, "X", "row 1 (counted from 0) is too large"),
    ({"X": [["a", "b"]] * 4}, "X", "table of numbers"),
    ({"X": [[1.0], [1.0, 2.0], [1.0], [1.0]]}, "X", "table of numbers"),
    ({"X": X.astype(complex)}, "X", "complex128"),
    ({"X": sp.csr_array(X.astype(complex))}, "X", "complex128"),
    ({"y": [1, 1, 1, 1]}, "y", "only one class"),
    ({"y": [0, 1, 1]}, "y", "3 labels for 4 rows"),
    ({"y": []}, "y", "empty"),
    ({"y": [[0, 1], [1, 0], [0, 1], [1, 1]]}, "y", "2 dimensions"),
    ({"y": [0.0, 1.0, NAN, 0.0]}, "y", "row 2"),
    ({"y": [0, "1", 1, 0]}, "y", "one type"),
    ({"y": np.array([0, "1", 1, 0], dtype=object)}, "y", "one type"),
    ({"y": np.array(["a", "b", None, "a"], dtype=object)}, "y", "one type"),
    ({"y": np.array(["2020", "2021", "2020", "2021"], dtype="M8[Y]")}, "y", "text, numbers or booleans"),
    ({"sample_weight": [1, 1, 1]}, "sample_weight", "each of the 4 rows"),
    ({"sample_weight": [1, -1, 1, 1]}, "sample_weight", "row 1"),
    ({"sample_weight": [1, 1, NAN, 1]}, "sample_weight", "row 2"),
    ({"sample_weight": [0, 0, 0, 0]}, "sample_weight", "zero everywhere"),
    ({"sample_weight": ["a", "b", "c", "d"]}, "sample_weight", "numbers"),
    ({"sample_weight": [1e308] * 4}, "sample_weight", "infinite sum"),
    ({"class_weight": {2: 1.0}}, "class_weight", "names 2, but the labels are 0, 1"),
    ({"class_weight": {0: 0.0, 1: 0.0}}, "class_weight", "no row"),
    ({"C": 1e308, "sample_weight": [10.0] * 4}, "C", "overflows"),
    ({"groups": [1, 1, 2, 2]}, "groups", "only used with task ordinal"),
    ({"task": "ordinal", "groups": [1, 2, 3, 4]}, "groups", "no two rows of different rank"),
    ({"task": "ordinal", "sample_weight": [1, 0, 0, 1]}, "sample_weight", "no two rows of different rank"),
    ({"task": "ordinal", "groups": [1, 2, 3]}, "groups", "each of the 4 rows"),
    ({"task": "ordinal", "groups": [1.0, 2.0, NAN, 1.0]}, "groups", "row 2"),
    ({"task": "ordinal", "y": ["low", "high", "low", "high"]}, "y", "are numbers; these hold <U4"),
]


@pytest.mark.parametrize(("arguments", "argument", "message"), DATA, ids=[f"{row[1]}-{row[2][:25]}" for row in DATA])
def test_bad_data_is_refused_by_name_and_place(arguments, argument, message):
    with pytest.raises(InvalidProblem) as caught:
        solvers.train(**{"X": X, "y": Y, **arguments})
    assert caught.value.argument == argument
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"warm_start": [1.0, 2.0, 3.0]}, "shape (2,) is needed"),
        ({"warm_start": [NAN, 2.0]}, "NaN"),
        ({"warm_start": ([1.0, 2.0], INF)}, "NaN or infinite"),
        ({"warm_start": "mdl_1"}, "a result, a state, weights"),
        ({"warm_start": {"solver": "other"}}, "not a state of solver dcd"),
        ({"warm_start": {"solver": "dcd", "alpha": np.zeros(4), "w": np.zeros(3)}}, "it has no 'bias.balance'"),
        ({"warm_start": {"solver": "dcd"}}, "not a state of solver dcd of this version: it has no 'alpha'"),
    ],
)
def test_an_unusable_start_is_refused(arguments, message):
    with pytest.raises(InvalidOptions) as caught:
        solvers.train(X, Y, solver="dcd", **arguments)
    assert caught.value.argument == "warm_start"
    assert message in str(caught.value)


def test_an_unusable_callback_or_thread_count_is_refused():
    with pytest.raises(InvalidOptions, match="callback"):
        solvers.train(X, Y, callback=3)
    with pytest.raises(InvalidOptions, match="threads"):
        solvers.train(X, Y, threads=0)


def test_the_task_must_fit_the_labels():
    with pytest.raises(InvalidProblem, match="exactly two classes; there are 3"):
        solvers.check(**{**SHAPE, "n_classes": 3}, task="binary")
    with pytest.raises(InvalidProblem, match="only one class"):
        solvers.check(**{**SHAPE, "n_classes": 1})
    with pytest.raises(InvalidProblem, match="binary needs class labels"):
        solvers.check(**{**SHAPE, "n_classes": None}, task="binary")


def test_auto_names_the_choice_that_no_solver_can_do(monkeypatch):
    from solvers.methods.dcd.dcd import DualCoordinateDescent

    monkeypatch.setattr("solvers.engine.registry.registered", lambda: {"dcd": DualCoordinateDescent})
    with pytest.raises(UnsupportedProblem, match="use hinge or squared_hinge") as caught:
        solvers.check(**SHAPE, loss="hinge_p", p=1.5)
    assert caught.value.argument == "loss"
    with pytest.raises(UnsupportedProblem, match="use none or regularized") as caught:
        solvers.check(**SHAPE, bias="free")
    assert caught.value.argument == "bias"


@pytest.mark.parametrize(
    ("indices", "indptr", "message"),
    [
        ([0, 5], [0, 1, 2], "row 1 has a column number outside 0..1"),
        ([0, -1], [0, 1, 2], "row 1 has a column number outside 0..1"),
        ([0, 1], [0, 2, 1], "indptr is out of order at row 0"),
    ],
)
def test_a_broken_sparse_matrix_is_refused_before_any_kernel_reads_it(indices, indptr, message):
    matrix = sp.csr_matrix((2, 2))
    matrix.data = np.ones(2)
    matrix.indices = np.array(indices, dtype=np.int32)
    matrix.indptr = np.array(indptr, dtype=np.int32)
    with pytest.raises(InvalidProblem, match=message):
        solvers.train(matrix, [0, 1])


def test_the_fast_look_at_columns_agrees_with_the_thorough_one():
    """It may only say that rows are in order if they are, and must say so for every matrix that is sorted."""
    random = np.random.default_rng(0)
    seen = set()
    for _ in range(600):
        lengths = random.integers(0, 4, size=random.integers(1, 7))
        starts = np.append(0, np.cumsum(lengths))
        rows = [random.integers(0, 6, size=length) for length in lengths]
        if random.random() < 0.6:
            rows = [np.unique(row) for row in rows]
            starts = np.append(0, np.cumsum([row.size for row in rows]))
        columns = np.concatenate([*rows, np.empty(0, int)]).astype(np.uint32)
        if random.random() < 0.2 and columns.size:
            columns[random.integers(columns.size)] = random.choice([6, 2**31, 2**32 - 1])
        if random.random() < 0.2:
            starts[random.integers(starts.size)] += random.choice([-1, 1, 7])
        is_ordered = are_columns_ordered(columns, starts, 6)
        is_sound = (
            starts[0] == 0
            and starts[-1] == columns.size
            and (np.diff(starts) >= 0).all()
            and all((np.diff(columns[a:b].astype(int)) > 0).all() for a, b in itertools.pairwise(starts))
            and (columns < 6).all()
        )
        assert is_ordered == is_sound
        seen.add(is_sound)
    assert seen == {True, False}


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_an_unusable_entry_of_a_sparse_matrix_is_named_beside_entries_too_large_to_be_squared(value):
    table = sp.csr_array(np.array([[1e200, 0.0, 1.0], [0.0, 2.0, 3.0], [4.0, 0.0, 1e300], [1.0, 5.0, 6.0]]))
    assert solvers.train(table, Y, max_passes=1, solver="cpa").status is not None
    table.data[5] = value
    with pytest.raises(InvalidProblem, match="row 2, column 2"):
        solvers.train(table, Y)


def test_a_wide_column_number_cannot_wrap_into_a_valid_one():
    matrix = sp.csr_matrix((2, 2))
    matrix.data = np.ones(2)
    matrix.indices = np.array([0, 2**32 + 1], dtype=np.int64)
    matrix.indptr = np.array([0, 1, 2], dtype=np.int64)
    with pytest.raises(InvalidProblem, match=r"outside 0\.\.1"):
        solvers.train(matrix, [0, 1])


def test_text_keys_of_a_class_weight_table_mean_the_labels():
    by_label = solvers.train(X, Y, class_weight={1: 3.0}, tol=1e-8)
    by_text = solvers.train(X, Y, class_weight={"1": 3.0}, tol=1e-8)
    assert by_label.coef.tobytes() == by_text.coef.tobytes()
    assert by_label.certificate.primal != solvers.train(X, Y, tol=1e-8).certificate.primal
