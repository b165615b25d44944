"""The outer iteration that `alm_exact` and `alm_inexact` share (Nie, Huang, Wang, Huang 2014).

The two solvers differ only in how precisely they update the weights. With the rows h_i = y_i (x_i, bias feature), the
problem is split into weights v and residuals z:

    min 1/2 |v|^2 + sum_i C_i max(0, z_i)^p    subject to    z_i = 1 - h_i v

An iteration minimises the augmented Lagrangian over z, then over v, and then moves the multipliers alpha:

    (z)      z_i     <- argmin over z of C_i max(0, z)^p + mu_i/2 (z - 1 + h_i v - alpha_i / mu_i)^2
    (v)      v       <- argmin over v of 1/2 |v|^2 + sum_i mu_i/2 (h_i v - 1 + z_i - alpha_i / mu_i)^2
    (alpha)  alpha_i <- alpha_i + t mu_i (1 - h_i v - z_i)

In the paper's symbols e_i = y_i z_i, lambda_i = -y_i alpha_i and t = 1. A free bias is the last weight; its square is
not part of |v|^2.

One pass over X computes update (alpha) with the new v, and then update (z). Let alpha^_i = alpha_i + mu_i (1 - h_i v -
z_i) with these values. It equals p C_i z_i^(p - 1), so it is a feasible dual point. The negative gradient of update (v)
is r = sum_i alpha^_i h_i - v = w(alpha^) - v, so the same pass also yields the duality gap between v and alpha^. Update
(v) is then the linear system (I + H' mu H) step = r.

Each row has its own mu_i = mu C_i / sqrt(1 + C_i |h_i|^2). It lies between the range of alpha_i and the length of a
dual coordinate step, so one mu fits rows of any cost and norm. The rule `balance` changes mu until z and alpha change
at the same rate, measured in the norm in which the iteration contracts, sum mu_i z_i^2 + alpha_i^2 / mu_i. The rule
changes mu less and less often and finally keeps it, because convergence is proved for a fixed mu. The rule `paper` is
eq. (29) as printed.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.data.rows import read_only
from solvers.errors import InvalidOptions
from solvers.linalg.types import Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods._shared.signed_rows import signed_rows
from solvers.methods.alm.residuals import Penalties, Split, add_product, move_rows, write_dual_point
from solvers.problem.losses.hinge import PowerLoss
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import State

__all__ = ["AlmState", "AugmentedLagrangian", "balanced", "shared_options"]

FIRST_BALANCE, BALANCE_GROWTH, LAST_BALANCE = 10, 1.5, 1000
"""When the rule `balance` changes mu, in iterations: first after FIRST_BALANCE, then each time the number of iterations
has grown by the factor BALANCE_GROWTH, and not after LAST_BALANCE. A larger LAST_BALANCE adapts mu longer but delays
the phase of fixed mu, for which convergence is proved. Set by hand; no measurement is recorded."""
BALANCED_WITHIN = 3.0
"""The rule `balance` compares the changes of z and of alpha. It keeps mu while their ratio is between 1/3 and 3.
Larger: mu changes less often. Set by hand; no measurement is recorded."""
MOST_CHANGE, SMALLEST_MU, LARGEST_MU = 5.0, 1e-9, 1e9
"""Largest factor by which the rule `balance` changes mu at once, and the least and largest mu. A larger factor adapts
faster and can overshoot. Set by hand; no measurement is recorded."""
PAPERS_LARGEST_MU = 1e5
"""Largest mu of the rule `paper`. Larger: mu can grow for longer. The value is that of Nie et al. (2014)."""
ENTRIES_A_STEP = 5_000_000
"""Maximum stored entries of X that one step reads if an iteration needs several passes; 5 million take some
milliseconds. Larger: fewer, longer steps, so a stop or a time limit takes effect later. Set by hand; no measurement is
recorded."""


@dataclass(slots=True)
class Penalty(State):
    """The penalty mu, and the quantities by which its rule changes it."""

    mu: float  # used in the last update of the weights
    next_mu: float  # used from the next pass on
    age: int  # iterations since the multipliers were zero
    next_balance: float  # age at which `balance` compares the changes again
    z_change: float  # sum of squared changes of z since the last comparison
    multiplier_change: float  # the same for alpha
    lagrangian: float  # value of the augmented Lagrangian, which eq. (29) keeps from growing


@dataclass(slots=True)
class WeightsUpdate(State):
    """The least-squares problem of the weights, solved by conjugate gradients."""

    residual: Floats  # r
    search: Floats  # search direction
    products: int  # products so far; -1 if no update is in progress
    rho: float  # |r|^2
    rho_start: float  # |r|^2 before the first product


@dataclass(slots=True)
class AlmState(State):
    weights: Floats  # v; the last entry is the bias's weight
    evaluated: Floats  # weights at which the last pass evaluated the problem
    primal: float  # primal value at `evaluated`
    gap: float  # duality gap at `evaluated`
    multipliers: Floats  # alpha, one per row
    z: Floats  # residuals, one per row
    slack: Floats  # 1 - h_i v at `evaluated`
    is_fresh: bool  # true until the first pass has computed z and the multipliers
    penalty: Penalty
    update: WeightsUpdate
    iterations: int
    passes: int


def shared_options(multiplier_step: float) -> tuple[Option, ...]:
    """Return the options of both solvers. The default of `multiplier_step` is that of the calling solver."""
    return (
        Option(
            "mu_rule",
            str,
            "balance",
            "how the penalty mu changes: balance adapts it at first, then keeps it; constant keeps it; paper follows "
            "eq. (29), which often stops progress before the optimum",
            choices=("balance", "constant", "paper"),
        ),
        Option(
            "mu",
            float,
            1.0,
            "first value of mu, as a multiple of the value derived from the costs and norms of the rows "
            "(mu_rule paper: as a multiple of the mean cost)",
            low=1e-6,
            high=1e6,
        ),
        Option(
            "multiplier_step",
            float,
            multiplier_step,
            "step length of the multipliers, as a multiple of mu; 1 in the paper",
            low=0.1,
            high=1.61,
        ),
    )


class AugmentedLagrangian(Method[BinaryProblem, AlmState]):
    """The outer iteration. On large data each product in the update of the weights is a separate step."""

    state_type = AlmState
    tasks = ("binary",)
    losses = ("hinge", "squared_hinge", "hinge_p")
    biases = ("free", "regularized", "none")
    paper = "Nie, Huang, Wang, Huang (2014): New primal SVM solver with linear computational cost for big data"

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        assert isinstance(problem.loss, PowerLoss), "the other losses are not in `losses`"
        is_free = problem.spec.bias == "free"
        self.bias_feature = 1.0 if is_free else problem.bias_feature
        self.ridge = np.ones(problem.data.n_features + 1)
        self.ridge[-1] = 0.0 if is_free else 1.0
        self.rule = str(options["mu_rule"])
        self.rows = signed_rows(problem, self.bias_feature)
        self.penalties = Penalties(read_only(self._penalty_scales()), problem.loss.p)

    @abstractmethod
    def _update_weights(self, state: AlmState) -> bool:
        """Update the weights directly and return True, or return False if the update needs products with X."""

    @abstractmethod
    def _is_updated(self, state: AlmState) -> bool:
        """Return whether the products so far make the update of the weights precise enough."""

    def init(self, seed: int, start: Start) -> AlmState:
        n, k, earlier = self.problem.data.n_rows, self.problem.data.n_features + 1, self.earlier(start)
        mu = float(self.chosen["mu"])
        if self.rule == "paper":
            mu *= self.problem.total_cost / int((self.problem.costs > 0.0).sum())
        state = AlmState(
            weights=np.zeros(k),
            evaluated=np.zeros(k),
            primal=math.inf,
            gap=math.inf,
            multipliers=np.zeros(n),
            z=np.zeros(n),
            slack=np.zeros(n),
            is_fresh=True,
            penalty=Penalty(mu, mu, 0, FIRST_BALANCE, 0.0, 0.0, math.inf),
            update=WeightsUpdate(np.zeros(k), np.zeros(k), -1, 0.0, 0.0),
            iterations=0,
            passes=1,  # the pass that computed the norms of the rows
        )
        if earlier is not None:
            self._resume(state, earlier)
        elif start.coef is not None:
            state.weights[:-1] = start.coef
            if self.bias_feature > 0.0:
                state.weights[-1] = float(start.intercept) / self.bias_feature
        return state

    def step(self, state: AlmState, target: float) -> Progress:
        reads = min(ENTRIES_A_STEP // max(1, self.problem.data.stored_entries), self.reads_left)
        is_evaluation = state.update.products < 0
        if is_evaluation:
            reads -= 1
            self._update_residuals(state)
            if not math.isfinite(state.primal + state.gap):
                return Progress(state.iterations, state.passes, None, None, None, Status.NONFINITE)
            self._begin_weights(state)
        else:
            reads = max(reads, 1)
        while state.update.products >= 0 and reads > 0:
            reads -= 1
            self._multiply(state)
        primal, gap = state.primal, state.gap
        estimate = gap / max(primal, self.problem.primal_floor)
        return Progress(state.iterations, state.passes, primal, primal - gap, estimate, is_complete=is_evaluation)

    def extract(self, state: AlmState) -> Point:
        v = state.evaluated
        return Point(v[:-1].copy(), float(self.bias_feature * v[-1]), self._dual_point(state))

    def _penalty_scales(self) -> Floats:
        """Return mu_i / mu for each row; 0 for rows of cost 0."""
        costs = self.problem.costs
        norms = self.problem.data.usable_squared_norms() + self.bias_feature**2
        if self.rule == "paper":
            return np.where(costs > 0.0, 1.0, 0.0)
        return np.asarray(costs / np.sqrt(1.0 + costs * norms))

    def _update_residuals(self, state: AlmState) -> None:
        """Update the multipliers, then the residuals, in one pass; compute the negative gradient r and the gap."""
        state.passes += 1
        penalty, v, sums = state.penalty, state.weights, np.zeros_like(state.weights)
        step = 0.0 if state.is_fresh else float(self.chosen["multiplier_step"]) * penalty.mu
        split = Split(state.multipliers, state.z, state.slack)
        rows = move_rows(self.rows, self.penalties, read_only(v), step, penalty.next_mu, split, sums)
        residual = sums - self.ridge * v
        squares = float((self.ridge * v * v).sum())
        state.evaluated, state.update.residual = v.copy(), residual
        state.primal = 0.5 * squares + rows.loss
        state.gap = 0.5 * float((self.ridge * residual * residual).sum()) + rows.gap_terms
        if not state.is_fresh:
            penalty.multiplier_change += rows.multiplier_change
            penalty.z_change += rows.residual_change
        self._follow_rule(penalty, state.is_fresh, squares + rows.split_loss, rows.violation)
        state.is_fresh = False
        state.iterations += 1
        penalty.age += 1

    def _follow_rule(self, penalty: Penalty, is_fresh: bool, objective: float, violation: float) -> None:
        """Set the mu of the next pass. The update of the weights that starts now uses the mu of the last pass."""
        penalty.mu = penalty.next_mu
        if self.rule == "paper":
            # As printed: |w|^2 instead of the objective's 1/2 |w|^2; mu never falls and has an upper limit.
            if violation > 0.0 and penalty.lagrangian < math.inf:
                printed = (penalty.lagrangian - objective) / (0.5 * violation)
                penalty.next_mu = min(max(penalty.mu, printed), PAPERS_LARGEST_MU)
            if not is_fresh:
                penalty.lagrangian = objective + 0.5 * penalty.mu * violation
        elif self.rule == "balance" and penalty.next_balance <= penalty.age < LAST_BALANCE:
            penalty.next_balance = BALANCE_GROWTH * penalty.age
            if penalty.z_change > 0.0 and penalty.multiplier_change > 0.0:
                ratio = math.sqrt(penalty.multiplier_change / penalty.z_change) / penalty.mu
                if not 1.0 / BALANCED_WITHIN <= ratio <= BALANCED_WITHIN:
                    factor = min(max(math.sqrt(ratio), 1.0 / MOST_CHANGE), MOST_CHANGE)
                    penalty.next_mu = min(max(penalty.mu * factor, SMALLEST_MU), LARGEST_MU)
            penalty.multiplier_change = penalty.z_change = 0.0

    def _begin_weights(self, state: AlmState) -> None:
        """Update the weights directly, or prepare conjugate gradients for them."""
        if not self._update_weights(state):
            update = state.update
            update.search = update.residual.copy()
            update.rho = update.rho_start = float((update.residual * update.residual).sum())
            update.products = 0 if update.rho > 0.0 else -1

    def _multiply(self, state: AlmState) -> None:
        """Take a conjugate-gradient step. The first is the paper's gradient step of optimal length, eq. (18)."""
        state.passes += 1
        update = state.update
        d, product = update.search, np.zeros_like(update.search)
        add_product(self.rows, self.penalties.scales, state.penalty.mu, read_only(d), product)
        product += self.ridge * d
        curvature, rho_before = float((d * product).sum()), update.rho
        if not (curvature > 0.0 and rho_before > 0.0):  # underflow: no further step can lower the objective
            update.products = -1
            return
        state.weights = state.weights + rho_before / curvature * d
        update.residual = update.residual - rho_before / curvature * product
        update.rho = float((update.residual * update.residual).sum())
        update.search = update.residual + update.rho / rho_before * d
        update.products += 1
        if self._is_updated(state):
            update.products = -1

    def _dual_point(self, state: AlmState) -> Floats:
        """Return alpha^ of the last pass. If the bias is free, it is changed so that sum_i y_i alpha_i = 0."""
        problem, alpha = self.problem, np.zeros_like(state.z)
        split = Split(state.multipliers, state.z, state.slack)
        write_dual_point(problem.costs, self.penalties, state.penalty.mu, split, alpha)
        return balanced(problem, alpha) if problem.spec.bias == "free" else alpha

    def _resume(self, state: AlmState, earlier: AlmState) -> None:
        """Continue from the state `earlier` with bit-identical results. If the rows are others, start from its
        weights."""
        expected, stored = state.stored(copy=False), earlier.stored(copy=False)
        arrays = [name for name, value in expected.items() if isinstance(value, np.ndarray)]
        fitting = {name for name in arrays if stored[name].shape == expected[name].shape}
        if not {"weights", "evaluated"} <= fitting:
            features = self.problem.data.n_features
            raise InvalidOptions(
                "warm_start", f"is not a state of {self.name} on data with {features} features; leave it out"
            )
        if any(not np.isfinite(stored[name]).all() for name in fitting):
            raise InvalidOptions("warm_start", "has numbers that are NaN or infinite; leave it out")
        if len(fitting) < len(arrays):
            state.weights = earlier.evaluated
            return
        state.weights, state.evaluated = earlier.weights, earlier.evaluated
        state.primal, state.gap = earlier.primal, earlier.gap
        state.multipliers, state.z, state.slack = earlier.multipliers, earlier.z, earlier.slack
        state.is_fresh, state.penalty, state.update = earlier.is_fresh, earlier.penalty, earlier.update


def balanced(problem: BinaryProblem, alpha: Floats) -> Floats:
    """Return alpha with sum_i y_i alpha_i = 0, as far as moving variables inside their bounds allows.

    Only variables strictly between their bounds change. Their rows lie on the margin (p = 1) or where the dual is
    smooth (p > 1), so the dual bound falls only a little.
    """
    is_capped, room = problem.loss.is_capped, alpha.copy()
    if is_capped:
        room *= 1.0 - np.divide(alpha, problem.costs, out=np.ones_like(alpha), where=problem.costs > 0.0)
    for _ in range(2):  # the second iteration removes rounding errors of the first
        excess, total = float((problem.signs * alpha).sum()), float(room.sum())
        if total > 0.0:
            alpha = np.maximum(alpha - min(max(excess / total, -1.0), 1.0) * problem.signs * room, 0.0)
    return np.minimum(alpha, problem.costs) if is_capped else alpha
