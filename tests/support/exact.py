"""Certificates judged in exact arithmetic: rational numbers for p = 1 and 2, balls of 600 bits for other p.

Nothing of `solvers.certificates` computes here. A dual point is taken as the certificate used it, its feasibility is
checked exactly, and weak duality does the rest: D(t alpha) in exact arithmetic is at most the optimum.
"""

from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from flint import arb, ctx, fmpq, fmpz

from solvers.certificates.binary import _signed_dual_point
from solvers.certificates.multiclass import feasible_shares, violations_and_sizes
from solvers.certificates.regression import _feasible
from solvers.problem.problems import BinaryProblem, MulticlassProblem, OrdinalProblem, RegressionProblem

ctx.prec = 600
ZERO, ONE, HALF = fmpq(0), fmpq(1), fmpq(1, 2)


def exact(value):
    """The rational number that a double stands for."""
    numerator, denominator = float(value).as_integer_ratio()
    return fmpq(fmpz(numerator), fmpz(denominator))


def exact_array(values):
    return [exact(value) for value in np.asarray(values, dtype=np.float64).ravel().tolist()]


def as_ball(value):
    return value if isinstance(value, arb) else arb(value)


def at_most(low, high):
    """Whether low <= high; balls too narrow to overlap decide, overlapping ones count as equal."""
    if isinstance(low, fmpq) and isinstance(high, fmpq):
        return low <= high
    return not as_ball(low) > as_ball(high)


def larger(one, other):
    return one if at_most(other, one) else other


@dataclass
class Parts:
    """The dual of t alpha: t linear - t^q conjugate - t^2 / 2 |w(alpha)|^2, in exact arithmetic."""

    linear: object
    conjugate: object
    squared_length: object
    q: object

    def at(self, t):
        t = exact(t)
        power = t * t if self.q is None else arb(t) ** self.q if t > ZERO else arb(0)
        return _less(_less(t * self.linear, power, self.conjugate), HALF * t * t, self.squared_length)

    def best(self):
        """The largest value at t = 0, t = 1 and the best t of the quadratic that bounds it from below."""
        curved = 2 * as_ball(self.conjugate) + as_ball(self.squared_length)
        best = larger(ZERO, self.at(1.0))
        if curved > 0:
            t = float((as_ball(self.linear) / curved).mid())
            best = larger(best, self.at(min(1.0, max(0.0, t))))
        return best


@dataclass
class EntropyParts:
    """The dual of t alpha with logistic loss: sum C H(t alpha / C) - t^2 / 2 |w(alpha)|^2, in balls."""

    shares: list
    """(C, [alpha / C]) of every row with a multiplier; of several classes, those of all but the row's own."""
    squared_length: object

    def at(self, t):
        t = exact(t)
        entropies = added(cost * entropy([t * share for share in shares]) for cost, shares in self.shares)
        return as_ball(entropies) - as_ball(HALF * t * t * self.squared_length)

    def best(self):
        """The largest value at t = 0, t = 1 and the best t of the quadratic that bounds it from below."""
        best = larger(ZERO, self.at(1.0))
        if self.squared_length > ZERO:
            linear = added(cost * entropy(shares) for cost, shares in self.shares)
            t = float((as_ball(linear) / as_ball(self.squared_length)).mid())
            best = larger(best, self.at(min(1.0, max(0.0, t))))
        return best


def entropy(shares):
    """-sum s log s over the shares and what they leave of 1."""
    total = sum(shares, ZERO)
    terms = [-arb(share) * arb(share).log() for share in shares if share > ZERO]
    if ZERO < total < ONE:
        terms.append(-arb(ONE - total) * (-arb(total)).log1p())
    return sum(terms, arb(0))


def softplus(slack):
    """log(1 + exp(slack))"""
    size = arb(max(slack, -slack))
    return arb(max(slack, ZERO)) + (-size).exp().log1p()


def _less(value, factor, subtracted):
    if all(isinstance(number, fmpq) for number in (value, factor, subtracted)):
        return value - factor * subtracted
    return as_ball(value) - as_ball(factor) * as_ball(subtracted)


def power(base, p):
    """max(0, base)^p"""
    if base <= ZERO:
        return ZERO
    if p in (1.0, 2.0):
        return base if p == 1.0 else base * base
    return arb(base) ** arb(exact(p))


def conjugate(p, cost, a):
    if a == ZERO or p == 1.0:
        return ZERO
    if p == 2.0:
        return a * a / (4 * cost)
    p = exact(p)
    return arb((p - ONE) * cost) * arb(a / (p * cost)) ** arb(p / (p - ONE))


def added(values):
    values = list(values)
    if all(isinstance(value, fmpq) for value in values):
        return sum(values, ZERO)
    return sum((as_ball(value) for value in values), arb(0))


def rows_of(problem):
    values, columns, starts = problem.data.flat()
    d = problem.data.n_features
    if starts.size == 0:
        flat = exact_array(values)
        return [list(enumerate(flat[i * d : (i + 1) * d])) for i in range(problem.data.n_rows)]
    flat, places = exact_array(values), columns.tolist()
    return [list(zip(places[a:b], flat[a:b], strict=True)) for a, b in pairwise(starts.tolist())]


def dot(row, w):
    return sum((x * w[j] for j, x in row), ZERO)


def combined(rows, multipliers, d):
    """sum_i v_i x_i"""
    total = [ZERO] * d
    for row, v in zip(rows, multipliers, strict=True):
        if v != ZERO:
            for j, x in row:
                total[j] += v * x
    return total


def squared(vector):
    return sum((value * value for value in vector), ZERO)


def exponent_of(problem):
    """The p of a hinge or epsilon-insensitive loss."""
    return problem.spec.p or (2.0 if problem.loss.is_squared else 1.0)


def scaled_bias(problem, intercept):
    return exact(intercept) / exact(problem.spec.bias_scale) if problem.spec.bias == "regularized" else ZERO


def primal(problem, coef, intercept):
    """P(w, b), exactly."""
    rows, costs, p = rows_of(problem), exact_array(problem.costs), exponent_of(problem)
    if isinstance(problem, MulticlassProblem):
        weights = [exact_array(one) for one in coef]
        biases = exact_array(np.broadcast_to(intercept, (problem.classes.size,)))
        norm = sum((squared(one) for one in weights), ZERO)
        norm += sum((scaled_bias(problem, one) ** 2 for one in np.broadcast_to(intercept, (len(biases),))), ZERO)
        losses = []
        for row, cost, own in zip(rows, costs, problem.codes.tolist(), strict=True):
            scores = [dot(row, one) + bias for one, bias in zip(weights, biases, strict=True)]
            if problem.spec.strategy == "multinomial":
                top = max(scores)
                losses.append(
                    cost * (sum(((arb(one - top)).exp() for one in scores), arb(0)).log() + (top - scores[own]))
                )
                continue
            worst = max((ONE + score - scores[own] for m, score in enumerate(scores) if m != own), default=ZERO)
            losses.append(cost * max(worst, ZERO))
        total = added(losses)
        return HALF * norm + total if isinstance(total, fmpq) else arb(HALF * norm) + total
    w, b = exact_array(coef), exact(intercept)
    norm = HALF * (squared(w) + scaled_bias(problem, intercept) ** 2)
    scores = [dot(row, w) for row in rows]
    if isinstance(problem, OrdinalProblem):
        scale = exact(problem.pair_scale)
        losses = [
            scale * costs[i] * costs[j] * max(ONE - scores[i] + scores[j], ZERO)
            for i, j in product(range(len(rows)), repeat=2)
            if problem.groups[i] == problem.groups[j] and problem.ranks[i] > problem.ranks[j]
        ]
        return norm + added(losses)
    if isinstance(problem, RegressionProblem):
        epsilon = exact(problem.spec.epsilon)
        errors = [y - score - b for y, score in zip(exact_array(problem.targets), scores, strict=True)]
        slacks = [max(error, -error) - epsilon for error in errors]
    else:
        signs = exact_array(problem.signs)
        margin = exact(problem.loss.margin)
        slacks = [margin - y * (score + b) for y, score in zip(signs, scores, strict=True)]
    loss_of = softplus if problem.spec.loss == "logistic" else lambda slack: power(slack, p)
    losses = [cost * loss_of(slack) for cost, slack in zip(costs, slacks, strict=True)]
    total = added(losses)
    return norm + total if isinstance(total, fmpq) else arb(norm) + total


def dual_parts(problem, point):
    """The parts of the dual at the point's dual point as a certificate uses it; it must be feasible, exactly."""
    rows, costs, p, d = rows_of(problem), exact_array(problem.costs), exponent_of(problem), problem.data.n_features
    beta = exact(problem.bias_feature)
    is_free = problem.spec.bias == "free"
    if isinstance(problem, MulticlassProblem):
        shares = used_shares(problem, point)
        signed = [[-exact(share) for share in row] for row in shares]
        for i, own in enumerate(problem.codes.tolist()):
            signed[i][own] = -sum(signed[i], ZERO)
            assert signed[i][own] <= costs[i]
            assert all(share >= 0.0 for share in shares[i])
        length = ZERO
        for m in range(problem.classes.size):
            multipliers = [row[m] for row in signed]
            balance = sum(multipliers, ZERO)
            assert not is_free or balance == ZERO
            length += squared(combined(rows, multipliers, d)) + (beta * balance) ** 2
        if problem.spec.strategy == "multinomial":
            of_rows = [[exact(share) / costs[i] for share in row if share > 0.0] for i, row in enumerate(shares)]
            return EntropyParts([(costs[i], row) for i, row in enumerate(of_rows) if row], length)
        linear = sum((signed[i][own] for i, own in enumerate(problem.codes.tolist())), ZERO)
        return Parts(linear, ZERO, length, None)
    if isinstance(problem, RegressionProblem):
        used = exact_array(_feasible(problem, point.alpha))
        targets, epsilon = exact_array(problem.targets), exact(problem.spec.epsilon)
        linear = sum((b * y - epsilon * max(b, -b) for b, y in zip(used, targets, strict=True)), ZERO)
    else:
        assert isinstance(problem, BinaryProblem)
        used = exact_array(_signed_dual_point(problem, point.alpha))
        signs = exact_array(problem.signs)
        assert all(y * a >= ZERO for y, a in zip(signs, used, strict=True))
        linear = sum((max(a, -a) for a in used), ZERO)
    magnitudes = [max(a, -a) for a in used]
    assert all(a == ZERO or cost > ZERO for a, cost in zip(magnitudes, costs, strict=True))
    assert not problem.loss.is_capped or all(a <= cost for a, cost in zip(magnitudes, costs, strict=True))
    balance = sum(used, ZERO)
    assert not is_free or balance == ZERO
    length = squared(combined(rows, used, d)) + (beta * balance) ** 2
    if problem.spec.loss == "logistic":
        pairs = zip(costs, magnitudes, strict=True)
        return EntropyParts([(cost, [a / cost]) for cost, a in pairs if a != ZERO], length)
    conjugates = added(conjugate(p, cost, a) for cost, a in zip(costs, magnitudes, strict=True) if a != ZERO)
    q = None if p in (1.0, 2.0) else arb(exact(p) / (exact(p) - ONE))
    return Parts(linear, conjugates, length, q)


def used_shares(problem, point):
    from solvers.certificates.circulation import balanced_shares

    shares = feasible_shares(problem, point.alpha)
    if problem.spec.bias != "free":
        return shares
    bias = np.broadcast_to(np.asarray(point.intercept, dtype=np.float64), (problem.classes.size,))
    margin = 0.0 if problem.spec.strategy == "multinomial" else 1.0
    return balanced_shares(problem, shares, violations_and_sizes(problem, point.coef, bias, False, margin)[0])


def exact_squared_hinge_optimum(problem, coef, intercept, rounds=30):
    """The optimum of a squared hinge problem with a regularised bias or none, by Newton's method in rational numbers
    from the rows that (coef, intercept) violates; None if it does not end."""
    rows, costs, signs = rows_of(problem), exact_array(problem.costs), exact_array(problem.signs)
    d, beta = problem.data.n_features, exact(problem.bias_feature)
    wide = [[*_filled(row, d), beta] for row in rows]
    w = [*exact_array(coef), scaled_bias(problem, intercept)]
    before = None
    for _ in range(rounds):
        active = frozenset(
            i for i, row in enumerate(wide) if signs[i] * sum(map(_times, row, w), ZERO) < ONE and costs[i] > ZERO
        )
        if active == before:
            value = HALF * squared(w)
            for i in active:
                slack = ONE - signs[i] * sum(map(_times, wide[i], w), ZERO)
                value += costs[i] * slack * slack
            return value
        before = active
        matrix = [[ONE if j == k else ZERO for k in range(d + 1)] for j in range(d + 1)]
        right = [ZERO] * (d + 1)
        for i in active:
            for j in range(d + 1):
                right[j] += 2 * costs[i] * signs[i] * wide[i][j]
                for k in range(d + 1):
                    matrix[j][k] += 2 * costs[i] * wide[i][j] * wide[i][k]
        w = _solved(matrix, right)
    return None


def _filled(row, d):
    full = [ZERO] * d
    for j, x in row:
        full[j] += x
    return full


def _times(a, b):
    return a * b


def _solved(matrix, right):
    from flint import fmpq_mat

    size = len(right)
    solution = fmpq_mat(size, size, [value for row in matrix for value in row]).solve(fmpq_mat(size, 1, right))
    return [solution[j, 0] for j in range(size)]


def faults_of(problem, point, certificate, tol=None):
    """What a certificate says that is not true, as text; `point` has the dual point that the bound is of."""
    found = []
    value = primal(problem, point.coef, point.intercept)
    if certificate.dual_bound is None:
        return [] if not np.isfinite(certificate.primal) else ["no bound although 0 is one"]
    bound, gap = exact(certificate.dual_bound), exact(certificate.gap)
    if certificate.dual_bound > certificate.primal:
        found.append("bound above primal")
    if not at_most(value, exact(certificate.primal)):
        found.append(f"primal below P by {ulps(value, certificate.primal):.3g} ulps")
    if not isinstance(problem, OrdinalProblem):
        proven = dual_parts(problem, point).best()
        if not at_most(bound, proven):
            found.append(f"bound above D by {ulps(certificate.dual_bound, proven):.3g} ulps")
        if not at_most(_less(value, ONE, proven), gap):
            found.append(f"gap {certificate.gap} below P - D = {float(as_ball(_less(value, ONE, proven)).mid())}")
    if not at_most(bound, value):
        found.append(f"bound above P by {ulps(certificate.dual_bound, value):.3g} ulps")
    if not 0.0 <= certificate.relative_gap <= 1.0:
        found.append(f"relative gap {certificate.relative_gap}")
    if certificate.relative_gap != certificate.gap / max(certificate.primal, problem.primal_floor):
        found.append("relative gap is not gap / max(primal, floor)")
    return found


def is_loose(problem, point, certificate):
    """Whether the primal value is above P by more than 1e-9 of it, although something is proved."""
    value = as_ball(primal(problem, point.coef, point.intercept))
    most = value * arb(fmpq(10**9 + 1, 10**9)) + arb(fmpq(1, 10**300))
    return bool(certificate.dual_bound) and not at_most(exact(certificate.primal), most)


def ulps(high, low):
    """(high - low) in units of the last place of low."""
    numbers = [as_ball(exact(value)) if isinstance(value, float) else as_ball(value) for value in (high, low)]
    unit = np.spacing(abs(float(numbers[1].mid())))
    return float(((numbers[0] - numbers[1]) / arb(exact(unit))).mid())
