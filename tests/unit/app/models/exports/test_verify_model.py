"""The stand-alone verifier: its bounds against exact rational arithmetic, sound models of every task, hostile files."""

import ast
import io
import json
import math
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from app.models.exports.verifier import verify_model

Json = dict[str, Any]
Files = tuple[Json, dict[str, Any], dict[str, Any]]
"""(header, arrays of the model, arrays of the rows)"""

EXACT, NO_PROOF, UNUSABLE = 0, 1, 2
SOURCE = Path(verify_model.__file__).read_text()


def in_double_precision() -> ModuleType:
    """The program as it is on machines whose longest floats are doubles."""
    chosen = "REAL = np.longdouble if np.finfo(np.longdouble).nmant in (63, 112) else np.float64"
    assert chosen in SOURCE
    module = ModuleType("verify_model_in_doubles")
    exec(compile(SOURCE.replace(chosen, "REAL = np.float64"), "verify_model.py", "exec"), vars(module))
    return module


PROGRAMS = {"as it is": verify_model, "doubles": in_double_precision()}


def figures(certificate: solvers.Certificate) -> Json:
    return {name: getattr(certificate, name) for name in ("primal", "dual_bound", "gap", "relative_gap")}


def trained(X: Any, y: Any, *, weight: Any = None, group: Any = None, tol: float = 1e-4, **problem: Any) -> Files:
    """A trained model as the export writes it."""
    result = solvers.train(X, y, sample_weight=weight, groups=group, tol=tol, **problem)
    claims: Json = figures(result.certificate)
    if result.per_class is not None:
        claims["per_class"] = [figures(part) for part in result.per_class]
    classes = result.classes.tolist() if result.task in ("binary", "multiclass") else []
    header = {
        "task": result.task,
        "strategy": result.strategy,
        "classes": classes,
        "p": 2.0 if result.loss.startswith("squared") else problem.get("p", 1.0),
        "C": problem.get("C", 1.0),
        "c_scale": problem.get("c_scale", "sum"),
        "bias": "none" if result.task == "ordinal" else problem.get("bias", "regularized"),
        "bias_scale": problem.get("bias_scale", 1.0),
        "epsilon": problem.get("epsilon", 0.1),
        "class_factors": problem.get("class_weight") or [1.0] * max(1, len(classes)),
        "tol": tol if result.converged else None,
        "certificate": claims,
        "prepared": False,
    }
    arrays: dict[str, Any] = {"coef": result.coef, "intercept": np.atleast_1d(result.intercept)}
    for number, point in enumerate(result.bounding):
        if point.planes is not None:
            arrays |= {f"{number}.planes": point.planes.weights, f"{number}.multipliers": point.planes.multipliers}
        elif point.alpha is not None:
            flat = point.alpha.reshape(-1)
            arrays |= {f"{number}.places": np.flatnonzero(flat), f"{number}.values": flat[flat != 0]}
    data = {"X": X} if isinstance(X, np.ndarray) else {name: getattr(X, name) for name in ("data", "indices", "indptr")}
    data |= {name: array for name, array in (("y", y), ("weight", weight), ("group", group)) if array is not None}
    return header, arrays, data


def judge(folder: Path, files: Files, program: Any = verify_model) -> int:
    header, arrays, data = files
    content = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(folder / "model.npz", header=content, **arrays)
    np.savez(folder / "data.npz", **data)
    return int(program.main([str(folder / "model.npz"), str(folder / "data.npz")]))


def test_it_needs_python_3_9_and_numpy_only() -> None:
    imported = set()
    for node in ast.walk(ast.parse(SOURCE, feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        assert not isinstance(node, ast.ImportFrom)
    assert imported == {"json", "math", "numpy", "os", "sys", "zipfile"}


random = np.random.default_rng(0)
X = random.normal(size=(90, 4))
SIGNAL = X @ [1.0, -2.0, 0.5, 0.0] + 0.5 * random.normal(size=90)
TWO, THREE = (SIGNAL > 0).astype(int), np.array(["a", "b", "c"])[np.digitize(SIGNAL, [-1.0, 1.0])]
WEIGHT, GROUP = random.integers(0, 3, 90).astype(float), random.integers(0, 4, 90)
SPARSE = sp.csr_array(X * (random.random(X.shape) < 0.4))

MODELS: dict[str, Callable[[], Files]] = {
    "hinge": lambda: trained(X, TWO, weight=WEIGHT),
    "squared, weights, mean": lambda: trained(X, TWO, weight=WEIGHT, loss="squared_hinge", c_scale="mean", C=50.0),
    "p = 1.5": lambda: trained(X, TWO, loss="hinge_p", p=1.5, bias="none"),
    "p = 1.02": lambda: trained(X, TWO, loss="hinge_p", p=1.02, bias_scale=3.0),
    "free bias": lambda: trained(X, TWO, bias="free", class_weight="balanced"),
    "free bias, squared": lambda: trained(X, TWO, bias="free", loss="squared_hinge"),
    "pegasos": lambda: trained(X, TWO, solver="pegasos", max_passes=10),
    "sparse": lambda: trained(SPARSE, TWO, tol=1e-6),
    "one against the rest": lambda: trained(X, THREE, weight=WEIGHT),
    "one against the rest, free": lambda: trained(X, THREE, bias="free", loss="squared_hinge"),
    "jointly": lambda: trained(X, THREE, strategy="crammer_singer", weight=WEIGHT),
    "jointly, free": lambda: trained(X, THREE, strategy="crammer_singer", bias="free"),
    "regression": lambda: trained(X, SIGNAL, task="regression"),
    "regression, squared": lambda: trained(X, SIGNAL, task="regression", loss="squared_epsilon_insensitive"),
    "regression, free": lambda: trained(X, SIGNAL, task="regression", bias="free", epsilon=0.3),
    "ordinal": lambda: trained(X, np.digitize(SIGNAL, [-1.0, 1.0]), task="ordinal", weight=WEIGHT),
    "ordinal, groups": lambda: trained(X, SIGNAL, task="ordinal", group=GROUP, c_scale="mean", C=20.0),
    "far from the optimum": lambda: trained(X, TWO, solver="pegasos", max_passes=1, C=100.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_every_task_are_proved(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = MODELS[name]()
    for program in PROGRAMS.values():
        assert judge(tmp_path, files, program) == EXACT, capsys.readouterr().out
        assert "PROVED, up to 1e-09" in capsys.readouterr().out


def claims_of(files: Files) -> list[Json]:
    claims: Json = files[0]["certificate"]
    return [claims, *claims.get("per_class", [])]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "far from the optimum"])
def test_a_forged_claim_is_never_proved(name: str, tmp_path: Path) -> None:
    """The claims of each problem in turn, by 1e-6 of the objective beyond what is proven."""
    header, arrays, data = MODELS[name]()
    with np.errstate(all="ignore"):
        solved = verify_model.solved_problems(header, arrays, data)
    for number, (_, *proven, _) in enumerate(solved):
        primal, bound = (float(value) for value in proven)
        for forgery in (
            lambda c: {"dual_bound": bound + 1e-6 * primal},  # noqa: B023
            lambda c: {"gap": primal - bound - 1e-6 * primal},  # noqa: B023
            lambda c: {"relative_gap": 1.0 - bound / primal - 1e-6},  # noqa: B023
            lambda c: {"primal": c["primal"] * (1 - 1e-6)},
            lambda c: {"primal": c["primal"] * (1 + 1e-6)},
            lambda c: {"dual_bound": c["primal"] * 2, "gap": 0.0, "relative_gap": 0.0},
            lambda c: {"dual_bound": float("nan")},
            lambda c: {"gap": float("nan")},
            lambda c: {"dual_bound": None, "gap": None, "relative_gap": None},
        ):
            forged = json.loads(json.dumps(header))
            part = claims_of((forged, arrays, data))[number]
            part.update(forgery(part))
            if forged["tol"] is None and part["dual_bound"] is None:
                continue  # nothing is claimed
            assert judge(tmp_path, (forged, arrays, data)) in (NO_PROOF, UNUSABLE)


def test_other_weights_dual_points_and_rows_are_not_proved(tmp_path: Path) -> None:
    header, arrays, data = trained(X, TWO, solver="dcd")
    values = arrays["0.values"]
    changes: list[tuple[int, dict[str, Any], dict[str, Any]]] = [
        (NO_PROOF, {"coef": arrays["coef"] * 1.1}, {}),
        (NO_PROOF, {"coef": np.zeros(4)}, {}),
        (NO_PROOF, {"coef": np.full(4, np.nan)}, {}),
        (NO_PROOF, {"coef": np.array([np.inf, 0.0, 0.0, 0.0])}, {}),
        (NO_PROOF, {"intercept": np.array([1e300])}, {}),
        (NO_PROOF, {"0.values": -values}, {}),
        (NO_PROOF, {"0.values": np.full_like(values, np.nan)}, {}),
        (NO_PROOF, {"0.values": np.full_like(values, np.inf)}, {}),
        (NO_PROOF, {"0.values": values * 1e300}, {}),
        (NO_PROOF, {"0.values": values * 0.5}, {}),
        (NO_PROOF, {}, {"y": 1 - TWO}),
        (NO_PROOF, {}, {"X": X[::-1]}),
        (NO_PROOF, {}, {"X": np.vstack([X[:-1], X[:1]])}),
        (NO_PROOF, {}, {"weight": np.full(90, 2.0)}),
        (NO_PROOF, {}, {"X": X * 1e300}),
        (UNUSABLE, {}, {"X": np.where(X > 2.0, np.nan, X)}),
        (UNUSABLE, {}, {"X": X[:, :3]}),
        (UNUSABLE, {}, {"X": X[:50]}),
        (UNUSABLE, {}, {"y": TWO[:50]}),
        (UNUSABLE, {}, {"y": TWO + 5}),
        (UNUSABLE, {}, {"y": np.array(["x"] * 90)}),
        (UNUSABLE, {}, {"weight": -np.ones(90)}),
        (UNUSABLE, {}, {"weight": np.full(90, np.nan)}),
        (UNUSABLE, {"coef": arrays["coef"][:3]}, {}),
        (UNUSABLE, {"coef": np.array(["a"] * 4)}, {}),
        (UNUSABLE, {"intercept": np.zeros(3)}, {}),
        (UNUSABLE, {"0.places": arrays["0.places"] + 10**6}, {}),
        (UNUSABLE, {"0.values": values[:-1]}, {}),
    ]
    for code, model_change, data_change in changes:
        found = judge(tmp_path, (header, {**arrays, **model_change}, {**data, **data_change}))
        assert found == code, (found, code, model_change, data_change)


def test_problems_that_are_none_are_refused(tmp_path: Path) -> None:
    header, arrays, data = trained(X, TWO, bias="free")
    for change in (
        {"p": 0.5},
        {"p": 3.0},
        {"p": float("nan")},
        {"C": -1.0},
        {"C": 0.0},
        {"C": float("inf")},
        {"bias": "other"},
        {"bias": "none"},  # it has one
        {"bias": "regularized", "bias_scale": -1.0},
        {"class_factors": [-1.0, 1.0]},
        {"class_factors": [1.0]},
        {"task": "other"},
        {"task": "multiclass", "strategy": "other"},
        {"certificate": None},
        {"certificate": {}},
        {"prepared": True},
    ):
        assert judge(tmp_path, ({**header, **change}, arrays, data)) == UNUSABLE, change


def test_damaged_and_hostile_files_are_refused(tmp_path: Path) -> None:
    files = trained(X, TWO)
    assert judge(tmp_path, files) == EXACT
    model, data = tmp_path / "model.npz", tmp_path / "data.npz"
    sound = model.read_bytes()
    for content in (b"", b"PK", sound[:-30], sound[: len(sound) // 2], b"\x00" * 1000):
        model.write_bytes(content)
        assert verify_model.main([str(model), str(data)]) == UNUSABLE
    assert verify_model.main([str(tmp_path / "nothing.npz"), str(data)]) == UNUSABLE
    assert verify_model.main([]) == UNUSABLE
    with zipfile.ZipFile(model, "w", zipfile.ZIP_DEFLATED) as archive:  # a gigabyte of zeros in a megabyte
        archive.writestr("coef.npy", b"\x00" * (1 << 28))
    assert verify_model.main([str(model), str(data)]) == UNUSABLE
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 43,)})
    with zipfile.ZipFile(model, "w") as archive:  # eight terabytes, says its header
        archive.writestr("header.npy", header.getvalue() + b"\x00" * 64)
    assert verify_model.main([str(model), str(data)]) == UNUSABLE
    np.savez(model, header=np.array([{"a": 1}], dtype=object))  # a pickle
    assert verify_model.main([str(model), str(data)]) == UNUSABLE


SCALES = {
    "usual": np.ones(3),
    "25 decades": np.array([1e-12, 1.0, 1e13]),
    "huge": np.array([1e150, 1.0, 1e-150]),
    "tiny": np.array([1e-300, 5e-324, 1e-3]),
}


@pytest.mark.parametrize("precision", PROGRAMS)
@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("bias", ["none", "regularized"])
@pytest.mark.parametrize("scale", SCALES)
def test_bounds_are_those_of_exact_arithmetic_rounded_the_right_way(
    scale: str, bias: str, p: float, precision: str
) -> None:
    """Any weights and any dual point: the objective is not below the exact one, the bound not above the exact one."""
    program: Any = PROGRAMS[precision]
    generator = np.random.default_rng(5)
    for _ in range(12):
        rows = generator.normal(size=(7, 3)) * SCALES[scale]
        signs = np.where(generator.random(7) < 0.5, -1, 1)
        costs = generator.random(7) * 10.0 ** generator.integers(-6, 6, 7)
        costs[0] = 0.0
        w = generator.normal(size=3) / np.maximum(SCALES[scale], 1e-200)
        alpha = np.abs(generator.normal(size=7)) * costs * 2.0
        beta = 3.0 if bias == "regularized" else 0.0
        b = float(generator.normal()) if beta else 0.0
        data = program.Rows(rows.shape, beta, dense=rows)
        extended = np.append(w, b / program.REAL(beta)) if beta else w.astype(program.REAL)
        said = {"p": p, "task": "binary", "bias": bias, "epsilon": 0.0}
        with np.errstate(all="ignore"):
            primal, bound = program.signed_task(data, said, costs, extended, 0.0, alpha, signs)
        exact_primal, exact_bound = exact_values(rows, signs, costs, w, b, alpha, beta, p)
        assert primal == math.inf or whole(primal) >= exact_primal
        assert whole(bound) <= exact_bound
        if precision == "as it is" or scale == "usual":  # squares of 1e150 are no doubles: then little is proved
            assert whole(primal) <= exact_primal * (1 + Fraction(1, 10**12)) + Fraction(1, 10**300)
            assert whole(bound) >= exact_bound * (1 - Fraction(1, 10**9)) - Fraction(1, 10**300)


def whole(value: Any) -> Fraction:
    return Fraction(*np.longdouble(value).as_integer_ratio())


def exact_values(
    rows: Any, signs: Any, costs: Any, w: Any, b: float, alpha: Any, beta: float, p: float
) -> tuple[Fraction, Fraction]:
    """P and the best D over multiples t alpha, t in [0, 1], of the point moved into the domain."""
    x = [[Fraction(value) for value in row] for row in rows.tolist()]
    weights, cost = [Fraction(value) for value in w.tolist()], [Fraction(value) for value in costs.tolist()]
    point = [Fraction(value) if c else Fraction(0) for value, c in zip(alpha.tolist(), cost, strict=True)]
    if p == 1.0:
        point = [min(a, c) for a, c in zip(point, cost, strict=True)]
    y, constant = signs.tolist(), Fraction(beta)
    primal = sum((v * v for v in weights), Fraction(0)) / 2
    primal += (Fraction(b) / constant) ** 2 / 2 if beta else 0
    for row, sign, c in zip(x, y, cost, strict=True):
        slack = 1 - sign * (sum((u * v for u, v in zip(weights, row, strict=True)), Fraction(0)) + Fraction(b))
        primal += c * max(slack, Fraction(0)) ** int(p)
    features = [*([row[j] for row in x] for j in range(3)), [constant] * len(x)]
    square = sum(
        (sum((a * s * v for a, s, v in zip(point, y, column, strict=True)), Fraction(0)) ** 2 for column in features),
        Fraction(0),
    )
    linear = sum(point, Fraction(0))
    if p == 2.0:
        square += sum((a * a / (2 * c) for a, c in zip(point, cost, strict=True) if c), Fraction(0))
    if not linear:
        return primal, Fraction(0)
    t = min(Fraction(1), linear / square) if square else Fraction(1)
    return primal, t * linear - t * t * square / 2


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_flows_are_balanced_exactly_and_never_grow(classes: int) -> None:
    generator = np.random.default_rng(7)
    for _ in range(20):
        codes = generator.integers(0, classes, 40)
        shares = generator.random((40, classes)) * 10.0 ** generator.integers(-12, 12, (40, classes))
        shares *= generator.random(shares.shape) < 0.5
        shares[np.arange(40), codes] = 0.0
        kept = verify_model.circulation(shares.astype(np.longdouble), codes)
        assert (kept >= 0).all()
        assert (kept <= shares).all()
        for m in range(classes):
            gives = sum((whole(v) for v in kept[codes == m].ravel()), Fraction(0))
            takes = sum((whole(v) for v in kept[:, m]), Fraction(0))
            assert gives == takes
    for hostile in (np.zeros((4, 2)), np.full((4, 2), np.inf), np.full((4, 2), np.nan)):
        assert not verify_model.circulation(hostile.astype(np.longdouble), np.array([0, 1, 0, 1])).any()


@pytest.mark.parametrize("precision", PROGRAMS)
@pytest.mark.parametrize("name", [name for name in MODELS if name != "far from the optimum"])
def test_no_dual_point_gives_a_bound_above_the_optimum(name: str, precision: str) -> None:
    """The optimum is at most the objective of the trained weights, which are within 1e-4 of it."""
    header, arrays, data = MODELS[name]()
    program: Any = PROGRAMS[precision]
    generator = np.random.default_rng(11)
    points = [key for key in arrays if key.endswith((".values", ".multipliers"))]
    for _ in range(15):
        changed = dict(arrays)
        for key in points:
            factor = generator.choice([-1.0, 1.0, 1.0, 1.0, 1e3, 1e-3, 0.0, 1e300, np.inf, np.nan], arrays[key].shape)
            changed[key] = arrays[key] * np.where(generator.random(arrays[key].shape) < 0.8, 1.0, factor)
            if generator.random() < 0.5:
                changed[key] = generator.normal(size=arrays[key].shape) * 10.0 ** generator.integers(-3, 4)
        with np.errstate(all="ignore"):
            for _, primal, bound, _ in program.solved_problems(header, changed, data):
                assert 0.0 <= bound <= primal or (bound == 0.0 and not np.isfinite(primal))


def test_powers_between_one_and_two_are_rounded_the_right_way() -> None:
    """p = 1.5: conj(a) = C / 2 (a / (1.5 C))^3 is rational, and the objective's powers are known to 80 digits."""
    generator = np.random.default_rng(13)
    for precision in PROGRAMS:
        program: Any = PROGRAMS[precision]
        for _ in range(20):
            rows, signs = generator.normal(size=(6, 2)), np.where(generator.random(6) < 0.5, -1, 1)
            costs, w = 10.0 ** generator.uniform(-4, 4, 6), generator.normal(size=2)
            alpha = np.abs(generator.normal(size=6)) * costs
            said = {"p": 1.5, "task": "binary", "bias": "none", "epsilon": 0.0}
            data = program.Rows(rows.shape, 0.0, dense=rows)
            primal, bound = program.signed_task(data, said, costs, w.astype(program.REAL), 0.0, alpha, signs)
            x, c = [[Fraction(v) for v in row] for row in rows.tolist()], [Fraction(v) for v in costs.tolist()]
            a, y = [Fraction(v) for v in alpha.tolist()], signs.tolist()
            exact = sum((Fraction(v) ** 2 for v in w.tolist()), Fraction(0)) / 2
            for row, sign, cost in zip(x, y, c, strict=True):
                slack = 1 - sign * sum((Fraction(u) * v for u, v in zip(w.tolist(), row, strict=True)), Fraction(0))
                cubed = max(slack, Fraction(0)) ** 3
                exact += cost * Fraction(math.isqrt(cubed.numerator * 10**160 // cubed.denominator), 10**80)
            assert exact <= whole(primal) <= exact * (1 + Fraction(1, 10**11))
            linear = sum(a, Fraction(0))
            conjugate = sum((k / 2 * (v / (k * 3 / 2)) ** 3 for v, k in zip(a, c, strict=True)), Fraction(0))
            signed = [v * sign for v, sign in zip(a, y, strict=True)]
            square = Fraction(0)
            for j in range(2):
                square += sum((v * row[j] for v, row in zip(signed, x, strict=True)), Fraction(0)) ** 2
            # The largest value over t in [0, 1] is at most that at t plus the slope there.
            k3, q = 3 * float(conjugate), float(square)
            t = Fraction(min(1.0, 2 * float(linear) / (q + math.sqrt(q * q + 4 * k3 * float(linear)))))
            best = t * linear - t**3 * conjugate - t * t * square / 2
            slope = abs(linear - 3 * t * t * conjugate - t * square) if t < 1 else Fraction(0)
            assert whole(bound) <= best + slope
            assert whole(bound) >= best * (1 - Fraction(1, 10**8))
