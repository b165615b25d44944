"""Checks the certificate of a linear model, from its weights, its dual point and the training rows.

    python verify_model.py model.npz data.npz

Needs only Python 3.9 and numpy, and no code of the service that trained the model. model.npz contains the weights and
the dual point in the units of the solver, and the claims of the model. data.npz contains the training rows as the
solver saw them: X, or data, indices, indptr of CSR; y; weight and group if there are any. The program computes an upper
bound of the objective P of the weights and, by weak duality, a lower bound D of the optimum of P. It prints both and
exits with

    0   proved: the claims hold, up to SLACK of the objective
    1   not proved: the reasons are printed
    2   the files cannot be used

P = 1/2 |w|^2 + sum_i C_i loss_i. A regularised bias is the weight of a constant feature; a free one costs nothing.
    binary           loss_i = max(0, 1 - y_i f_i)^p            D = sum a_i - conj(a_i) - 1/2 |sum a_i y_i x_i|^2
    logistic         loss_i = log(1 + exp(-y_i f_i))           D = sum C_i H(a_i / C_i) - 1/2 |sum a_i y_i x_i|^2
    regression       loss_i = max(0, |y_i - f_i| - eps)^p      D = sum a_i y_i - eps |a_i| - conj(|a_i|) - 1/2 |...|^2
    crammer_singer   loss_i = max_m [m != y_i] + f_m - f_yi    D = sum q_im - 1/2 |W(q)|^2, q >= 0, sum_m q_im <= C_i
    multinomial      loss_i = log sum_m exp(f_m - f_yi)        D = sum C_i H(q_i / C_i) - 1/2 |W(q)|^2
    ordinal          loss of a pair = max(0, 1 - f_i + f_j)    D from planes: sets of pairs, each with a multiplier
conj(a) = (p - 1) C (a / (p C))^(p / (p - 1)); for p = 1 it is 0 and a <= C. A free bias requires sum a_i y_i = 0.

Every point in the domain of the dual gives a valid bound, so a given point is first moved into it. Every sum has a
bound of its rounding error: n operations on terms of total size S lose at most n EPS S, where EPS is twice the unit
roundoff (Higham 2002). It is added to P and subtracted from D. Powers, exp and log are assumed correct to 1e-13,
squares are not. H(s) = -sum_m s_m log s_m is the entropy of shares that sum to 1; for two classes they are a_i / C_i
and the rest.
"""

import json
import math
import os
import sys
import zipfile

import numpy as np

SLACK = 1e-9  # accepted rounding error of the claims, as a fraction of the objective
MOST_EXPANSION = 200  # maximum unpacked bytes per packed byte of a file; more are refused
REAL = np.longdouble if np.finfo(np.longdouble).nmant in (63, 112) else np.float64
BITS = min(61, np.finfo(REAL).nmant)  # integers below 2^BITS, and their sums, are exact
EPS, TINY = REAL(np.finfo(REAL).eps), REAL(np.finfo(REAL).tiny)
TRUSTED = REAL(1 + 1e-13)
BLOCK = 1 << 20  # entries that are multiplied at a time; larger: more memory


class Unusable(Exception):
    """The files cannot be used; the message says why."""


def up(total, count):
    """Round the sum of `count` numbers >= 0 up."""
    return total * (1 + EPS * (count + 8)) + TINY


def down(total, count):
    return total * (1 - EPS * (count + 8)) - TINY


def squares_up(values, errors=0):
    largest = np.abs(values) + errors
    return up(np.sum(largest * largest), values.size + 2)


def power_up(base, exponent):
    """Return base^exponent for a base >= 0, rounded up."""
    if exponent == 1.0:
        return base
    return base * base * (1 + EPS) + TINY if exponent == 2.0 else np.power(base, REAL(exponent)) * TRUSTED + TINY


def softplus_up(s):
    """Return log(1 + exp(s)), rounded up."""
    return (np.maximum(s, 0) + np.log1p(np.exp(-np.abs(s)))) * TRUSTED + TINY


def entropies_down(shares, costs):
    """Return the sum of C_i H over the rows, rounded down. A row's shares and the rest to 1 are the arguments of H."""
    rest = np.maximum(1 - np.sum(shares, axis=1), 0)
    terms = [-s * np.log(np.where(s > 0, s, 1)) for s in (*shares.T, rest)]
    lost = 64 * EPS * len(terms) + 2e-13 * np.sum(terms, axis=0)  # the rest is rounded, and logarithms are trusted
    return down(np.sum(costs * np.maximum(np.sum(terms, axis=0) - lost, 0)), shares.size)


class Rows:
    """The training rows, dense or CSR (data, indices, indptr), followed by a constant feature if it is not 0."""

    def __init__(self, shape, constant, dense=None, sparse=None):
        self.n, self.d, self.constant = shape[0], shape[1] + (constant > 0), constant
        self.dense, self.sparse = dense, sparse

    def blocks(self):
        """Yield (row numbers, column numbers, values) of the entries, in blocks."""
        if self.constant:
            yield np.arange(self.n), np.full(self.n, self.d - 1), np.full(self.n, self.constant, REAL)
        if self.sparse is None:
            step = max(1, BLOCK // self.d)
            for first in range(0, self.n, step):
                part = self.dense[first : first + step]
                rows, columns = np.nonzero(part)
                yield rows + first, columns, part[rows, columns].astype(REAL)
            return
        data, indices, indptr = self.sparse
        row_of = np.repeat(np.arange(self.n), np.diff(indptr))
        for first in range(0, len(data), BLOCK):
            part = slice(first, first + BLOCK)
            yield row_of[part], indices[part], data[part].astype(REAL)

    def scores(self, w):
        """Return w . x of every row, and bounds of the errors."""
        return self._sums(self.n, lambda rows, columns, v: (rows, v * w[columns], np.abs(v * w[columns])))

    def combined(self, a, sizes=None, roundings=0):
        """Return sum_i a_i x_i and bounds of its errors. Each a_i has `roundings` roundings of terms of total
        `sizes`."""
        sizes = np.abs(a) if sizes is None else sizes
        return self._sums(self.d, lambda rows, columns, v: (columns, a[rows] * v, sizes[rows] * np.abs(v)), roundings)

    def _sums(self, count, terms, roundings=0):
        sums, sizes, numbers = np.zeros(count, REAL), np.zeros(count, REAL), np.zeros(count)
        for block in self.blocks():
            places, values, absolute = terms(*block)
            np.add.at(sums, places, values)
            np.add.at(sizes, places, absolute)
            numbers += np.bincount(places, minlength=count)
        return sums, EPS * (numbers + 4 + roundings) * sizes + TINY * (numbers + 1)


def circulation(q, codes):
    """Reduce the shares q_im >= 0, which flow from class codes_i to m, until each class gives exactly what it receives.

    They become multiples of a unit whose sums are exact. Any flow is a circulation plus paths from classes that give
    too much to classes that receive too much. The flow along such paths is taken back.
    """
    total = float(np.sum(q))
    if not 0.0 < total < math.inf:
        return np.zeros_like(q)
    unit = np.ldexp(REAL(1), math.frexp(total)[1] + 1 - BITS)
    numbers = np.floor(q / unit).astype(np.int64)
    flow = np.array([numbers[codes == y].sum(axis=0) for y in range(q.shape[1])])
    surplus, back = flow.sum(axis=1) - flow.sum(axis=0), np.zeros_like(flow)
    while (surplus > 0).any():
        queue = [int(np.argmax(surplus > 0))]
        before = {queue[0]: None}
        for here in queue:  # breadth first
            for m in np.flatnonzero(flow[here] > back[here]).tolist():
                if m not in before:
                    before[m] = here
                    queue.append(m)
        end = here = next(m for m in queue if surplus[m] < 0)
        steps = []
        while before[here] is not None:
            steps.append((before[here], here))
            here = before[here]
        amount = min([surplus[here], -surplus[end]] + [flow[step] - back[step] for step in steps])
        for step in steps:
            back[step] += amount
        surplus[here] -= amount
        surplus[end] += amount
    for y, m in np.argwhere(back > 0):
        there = numbers[codes == y, m]
        numbers[codes == y, m] = there - np.clip(back[y, m] - (np.cumsum(there) - there), 0, there)
    return numbers * unit


def conjugates_up(a, costs, p):
    """Return the sum of conj(a_i), rounded up."""
    if p == 1.0:
        return REAL(0)
    a, costs = a[a > 0], costs[a > 0].astype(REAL)
    shares = a / (p * costs) * (1 + 4 * EPS)
    exponents = REAL(p) / REAL(p - 1) * np.where(shares < 1, 1 - 4 * EPS, 1 + 4 * EPS)  # the power is not smaller
    powers = power_up(shares, 2.0) if p == 2.0 else np.power(shares, exponents) * TRUSTED + TINY
    return up(np.sum(REAL(p - 1) * costs * powers), a.size + 4)


def best_bound(linear, conjugate, square, p):
    """Return the largest t linear - t^e conjugate - t^2 square / 2 for t in [0, 1], rounded down; at least 0."""
    if not np.isfinite(linear + conjugate + square):
        return REAL(0)
    e = 2.0 if p in (1.0, 2.0) else p / (p - 1.0) * (1 - 1e-15)  # a smaller exponent: a larger power of t <= 1

    def value(t):
        lost = power_up(t, e) * conjugate + t * (t * square) / 2  # t * t could underflow
        return t * linear - EPS * 8 * abs(t * linear) - lost * (1 + 8 * EPS) - 4 * TINY

    low, high = REAL(0), REAL(1)
    for _ in range(150):  # the function is concave
        first, second = low + (high - low) / 3, high - (high - low) / 3
        low, high = (first, high) if value(first) < value(second) else (low, second)
    of_squares = min(REAL(1), max(REAL(0), linear) / max(2 * conjugate + square, TINY))  # the best for p = 1 and p = 2
    return max(REAL(0), value(low), value(high), value(of_squares))


def signed_task(X, said, costs, w, b, point, targets):
    """Return (P rounded up, D rounded down) of two classes (targets: signs) or regression; b is a free bias."""
    p, is_regression, is_logistic = said["p"], said["task"] == "regression", said.get("loss") == "logistic"
    epsilon = REAL(said["epsilon"] if is_regression else 0)
    f, errors = X.scores(w)
    errors = errors + 4 * EPS * (np.abs(f) + abs(b) + np.abs(targets) + epsilon + 1)
    away = targets - f - b if is_regression else (0 if is_logistic else 1) - targets * (f + b)
    size = np.abs(away) - epsilon if is_regression else away
    losses = softplus_up(size + errors) if is_logistic else power_up(np.maximum(size + errors, 0), p)
    primal = up(squares_up(w) / 2 + up(np.sum(costs * losses), X.n + 4), 4)
    a = point
    if a is None and is_logistic:
        a = costs / (1 + np.exp(-away))
    elif a is None:  # what the optimality conditions suggest
        edge = REAL(1e-9) * max(1, np.max(np.abs(away)))
        a = np.where(size > edge, 1, (size > -edge) / 2) if p == 1.0 else p * np.maximum(size, 0) ** (p - 1)
        a = costs * a * (np.sign(away) if is_regression else 1)
    a = np.where(np.isfinite(a) & (costs > 0), a, 0).astype(REAL)
    signs = np.where(a < 0, -1, 1) if is_regression else targets
    a = np.abs(a) if is_regression else np.maximum(a, 0)
    a = np.minimum(a, costs) if p == 1.0 else a
    if said["bias"] == "free":  # the heavier side in proportion, then exactly: what flows to one side must flow back
        sides = np.sum(a[signs > 0]), np.sum(a[signs < 0])
        a = a * np.where((signs > 0) == (sides[0] > sides[1]), min(sides) / max(*sides, TINY), 1)
        codes = (signs > 0).astype(int)
        a = np.sum(circulation(np.eye(2, dtype=REAL)[1 - codes] * a[:, None], codes), axis=1)
    u, lost = X.combined(a * signs)
    if is_logistic:
        shares = np.minimum(a, costs - a) / np.maximum(costs, TINY)
        return primal, best_bound(entropies_down(shares[:, None], costs), REAL(0), squares_up(u, lost), 1.0)
    gains = a * signs * targets - epsilon * a if is_regression else a
    linear = np.sum(gains) - EPS * (X.n + 8) * np.sum(a * (np.abs(targets) + epsilon)) - TINY
    return primal, best_bound(linear, conjugates_up(a, costs, p), squares_up(u, lost), p)


def joint_task(X, said, costs, W, b, point, codes):
    """Return (P rounded up, D rounded down) of jointly trained classes; b are free biases."""
    k, own, is_logistic = len(W), np.arange(X.n), said["strategy"] == "multinomial"
    scored = [X.scores(w) for w in W]
    f = np.stack([sums for sums, _ in scored], axis=1) + b
    errors = np.max([lost for _, lost in scored], axis=0)
    errors += 4 * EPS * (np.max(np.abs(f), axis=1) + np.max(np.abs(b)) + 1)
    away = f - f[own, codes][:, None] + 1
    away[own, codes] = 0
    losses = np.max(away, axis=1)
    if is_logistic:
        likely = np.exp(f - np.max(f, axis=1)[:, None])
        losses = (np.log(np.sum(likely, axis=1)) + np.max(f, axis=1) - f[own, codes]) * TRUSTED + 8 * k * EPS
    primal = up(squares_up(W) / 2 + up(np.sum(costs * (losses + 2 * errors)), X.n + 4), 4)
    q = np.zeros((X.n, k), REAL)
    if point is None and is_logistic:
        q = costs[:, None] * likely / np.sum(likely, axis=1)[:, None]
    elif point is None:
        q[own, np.argmax(away, axis=1)] = costs
    else:
        q = np.where(np.isfinite(point), np.maximum(-point, 0), 0).astype(REAL)
    q[own, codes] = 0
    totals = np.sum(q, axis=1) * (1 + EPS * (k + 8))
    q *= np.where(totals > costs, costs / np.maximum(totals, TINY) * (1 - 8 * EPS), 1)[:, None]
    q = circulation(q, codes) if said["bias"] == "free" else q
    A = -q
    A[own, codes] = np.sum(q, axis=1)
    square = np.sum([squares_up(*X.combined(A[:, m], roundings=k)) for m in range(k)])
    linear = down(np.sum(q), q.size)
    if is_logistic:
        linear = entropies_down(q / np.maximum(costs, TINY)[:, None], costs)  # what q leaves is the own class's share
    return primal, best_bound(linear, REAL(0), up(square, k), 1.0)


def ordinal_task(X, said, weights, w, planes, ranks, groups):
    """Return (P rounded up, D rounded down) of ranking. Visits each pair, so the time grows with their number."""
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]

    def pairs():
        """Yield (some rows, all rows of their group, whether each of these ranks below each of those)."""
        for rows in members:
            step = max(1, BLOCK // len(rows))
            for some in (rows[first : first + step] for first in range(0, len(rows), step)):
                yield some, rows, ranks[some][:, None] > ranks[rows]

    s, scale = weights.astype(REAL), REAL(said["C"])
    if said["c_scale"] == "mean":
        scale /= sum(s[some] @ (is_pair @ s[rows]) for some, rows, is_pair in pairs())
    f, errors = X.scores(w)
    errors = errors + 4 * EPS * (np.abs(f) + 1)
    loss = REAL(0)
    for some, rows, is_pair in pairs():
        over = np.maximum(1 - f[some][:, None] + f[rows] + errors[some][:, None] + errors[rows], 0)
        loss += s[some] @ (np.where(is_pair, over, 0) @ s[rows])
    primal = up(squares_up(w) / 2 + up(scale * loss, 4 * X.n), 4)
    at, g = planes if planes is not None else (w[None, :], np.ones(1))
    g = np.where(np.isfinite(g), np.maximum(g, 0), 0).astype(REAL)
    g /= max(REAL(1), np.sum(g) * (1 + EPS * (g.size + 8)))
    v, sizes, level = np.zeros(X.n, REAL), np.zeros(X.n, REAL), REAL(0)
    for multiplier, weights_of_plane in zip(g[g > 0] * scale, at[g > 0]):  # noqa: B905 - Python 3.9 has no strict
        f, _ = X.scores(weights_of_plane)
        margin = 1 - 1e-12 * max(1, np.max(np.abs(f)))  # any set of pairs gives a true bound; methods take this one
        for some, rows, is_pair in pairs():
            cut = (is_pair & (f[some][:, None] - f[rows] < margin)).astype(REAL) * multiplier
            for places, counts, sign in ((some, s[some] * (cut @ s[rows]), 1), (rows, s[rows] * (s[some] @ cut), -1)):
                v[places] += sign * counts
                sizes[places] += counts
            level += np.sum(s[some] * (cut @ s[rows]))
    roundings = X.n * (g.size + 1) + 16
    return primal, best_bound(down(level, roundings), REAL(0), squares_up(*X.combined(v, sizes, roundings)), 1.0)


def read_npz(path):
    with zipfile.ZipFile(path) as archive:
        if sum(info.file_size for info in archive.infolist()) > (1 << 20) + MOST_EXPANSION * os.path.getsize(path):
            raise Unusable(f"{path} is compressed more than {MOST_EXPANSION} times")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def as_rows(data, d, constant):
    if "X" in data:
        X = Rows(data["X"].shape, constant, dense=data["X"].astype(float))
        is_sound, values = data["X"].shape[1:] == (d,), X.dense
    else:
        columns, starts, values = data["indices"].astype(np.int64), data["indptr"].astype(np.int64), data["data"]
        X = Rows((len(starts) - 1, d), constant, sparse=(values, columns, starts))
        is_sound = len(columns) == len(values) == starts[-1] and starts[0] == 0 and (np.diff(starts) >= 0).all()
        is_sound = is_sound and (not len(columns) or 0 <= columns.min() <= columns.max() < d)
    if not is_sound or not X.n or not np.isfinite(values).all():
        raise Unusable(f"the rows must be finite numbers in {d} columns, one for each weight of the model")
    return X


def codes_of(y, classes):
    """Return the index of each label in the classes; a number and its text are the same label."""

    def text(label):
        return str(int(label)) if not isinstance(label, str) and label == int(label) else str(label)

    place = {text(label): number for number, label in enumerate(classes)}
    codes = np.array([place.get(text(label), -1) for label in y.tolist()])
    if (codes < 0).any():
        raise Unusable(f"the label of row {np.argmin(codes)} is not a class of the model")
    return codes


def solved_problems(said, model, data):
    """Return (claims, P rounded up, D rounded down, sum of the costs) for each problem that was solved."""
    task, classes, coef, claims = said["task"], said["classes"], model["coef"].astype(REAL), said["certificate"]
    shape, beta = coef.shape[:-1], said["bias_scale"] if said["bias"] == "regularized" else 0.0
    X, b = as_rows(data, coef.shape[-1], beta), model["intercept"].astype(REAL)
    if shape != ((len(classes),) if task == "multiclass" else ()) or b.shape != (shape or (1,)):
        raise Unusable("the weights do not fit the classes")
    if beta:
        coef, b = np.concatenate([coef, (b / REAL(beta)).reshape((*shape, 1))], axis=-1), np.zeros_like(b)
    weights = data["weight"].astype(float) if "weight" in data else np.ones(X.n)
    labels = codes_of(data["y"], classes) if task in ("binary", "multiclass") else data["y"].astype(float)
    groups = data.get("group", np.zeros(X.n))
    if not labels.shape == weights.shape == groups.shape == (X.n,) or not np.isfinite(weights + labels).all():
        raise Unusable(f"one label, weight and group are needed for each of the {X.n} rows")
    scale = said["C"] / weights.sum() if said["c_scale"] == "mean" else said["C"]
    factors = said["class_factors"]  # one per class
    if factors == "balanced":
        factors = X.n / (len(classes) * np.bincount(labels, minlength=len(classes)))
    factors = np.array(factors, float)
    is_known = said["bias"] in ("regularized", "free") or (said["bias"] == "none" and not b.any())
    is_known = is_known and 1 <= said["p"] <= 2 and 0 < said["C"] < math.inf and 0 <= said["epsilon"] < math.inf
    is_known = is_known and 0 <= beta < math.inf and (weights >= 0).all() and (factors >= 0).all()
    if not (is_known and np.isfinite(factors).all()):
        raise Unusable("p, C, epsilon, the bias, or a weight of a row or a class is out of range")

    def point(number, shape):
        if f"{number}.places" not in model:
            return None
        found = np.zeros(math.prod(shape))
        found[model[f"{number}.places"]] = model[f"{number}.values"]
        return found.reshape(shape)

    if task == "ordinal":
        planes = (model["0.planes"], model["0.multipliers"]) if "0.planes" in model else None
        ranks = np.unique(labels, return_inverse=True)[1]
        return [(claims, *ordinal_task(X, said, weights, coef, planes, ranks, groups), 0.0)]
    costs = scale * (1.0 if task == "regression" else factors[labels]) * weights
    if task != "multiclass":
        targets = labels.astype(REAL) if task == "regression" else np.where(labels == 1, 1, -1)
        return [(claims, *signed_task(X, said, costs, coef, b[0], point(0, (X.n,)), targets), costs.sum())]
    if said["strategy"] in ("crammer_singer", "multinomial"):
        return [(claims, *joint_task(X, said, costs, coef, b, point(0, (X.n, len(coef))), labels), costs.sum())]
    if len(claims["per_class"]) != len(classes):
        raise Unusable("one certificate per class is needed")
    solved = []
    for k, part in enumerate(claims["per_class"]):
        costs, signs = scale * np.where(labels == k, factors[k], 1.0) * weights, np.where(labels == k, 1, -1)
        solved.append((part, *signed_task(X, said, costs, coef[k], b[k], point(k, (X.n,)), signs), costs.sum()))
    _, primals, bounds, totals = zip(*solved)  # noqa: B905 - Python 3.9 has no strict
    return [(claims, up(sum(primals), len(solved)), down(sum(bounds), len(solved)), sum(totals)), *solved]


def objections(claims, primal, bound, costs, tol):
    """Return the reasons why claims are not proved."""
    gap = up(primal - bound, 4)
    relative = gap / max(primal, REAL(1e-12 * costs), TINY)
    print(f"objective at most {primal:.17g}, optimum at least {bound:.17g}, gap {gap:.6g} (relative {relative:.6g})")
    print("  claimed:", ", ".join(f"{name} {claims[name]}" for name in ("primal", "dual_bound", "gap", "relative_gap")))
    if not np.isfinite(primal):
        return ["the objective of the weights is not a number"]
    slack = SLACK * primal
    checks = [(abs(primal - claims["primal"]) <= slack, "the objective is not the claimed one")]
    if any(claims[name] is not None for name in ("dual_bound", "gap", "relative_gap")):
        checks += [
            (claims["dual_bound"] <= bound + slack, "the claimed bound is above the proven one"),
            (claims["gap"] >= gap - slack, "the claimed gap is below the proven one"),
            (claims["relative_gap"] >= relative - SLACK, "the claimed relative gap is below the proven one"),
        ]
    if tol is not None:
        is_reached = claims["relative_gap"] is not None and claims["relative_gap"] <= tol
        checks.append((is_reached, "it claims to have converged, but its relative gap is above tol"))
    return [reason for holds, reason in checks if not holds]


def main(paths):
    if len(paths) != 2:
        print(__doc__)
        return 2
    try:
        model, data = (read_npz(path) for path in paths)
        said = json.loads(bytes(model["header"]))
        if said["prepared"] and "prepared" not in data:
            raise Unusable("the model preprocesses its columns: the rows must be those that the solver saw")
        with np.errstate(all="ignore"):
            solved = solved_problems(said, model, data)
            failed = [reason for one in solved for reason in objections(*one, said["tol"])]
    except Exception as error:  # any error that a damaged or hostile file causes means that nothing is proved
        print(f"UNUSABLE: {type(error).__name__}: {error}")
        return 2
    print("NOT PROVED: " + "; ".join(dict.fromkeys(failed)) if failed else f"PROVED, up to {SLACK} of the objective")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
