"""What the two solvers of the SVM-ALM paper share: everything but how precisely the weights are updated.

Nie, Huang, Wang, Huang: New primal SVM solver with linear computational cost for big data classifications, ICML
2014. With the rows h_i = y_i (x_i, bias feature), the problem is split into weights v and residuals z,

    min 1/2 |v|^2 + sum_i C_i max(0, z_i)^p    subject to    z_i = 1 - h_i v

and the augmented Lagrangian is minimised over z, then over v, then the multipliers alpha move:

    z_i     <- the minimiser of C_i max(0, z)^p + mu_i/2 (z - 1 + h_i v - alpha_i / mu_i)^2
    v       <- the minimiser of 1/2 |v|^2 + sum_i mu_i/2 (h_i v - 1 + z_i - alpha_i / mu_i)^2
    alpha_i <- alpha_i + t mu_i (1 - h_i v - z_i)

The paper's e_i, lambda_i are y_i z_i and -y_i alpha_i, its t is 1. A free bias is the last weight, without its square.

One read of X does the third line with the new v and then the first. What alpha would become if v stayed where it is,
alpha^_i = alpha_i + mu_i (1 - h_i v - z_i), is p C_i z_i^(p - 1): a point of the dual's domain. So the sum r of
alpha^_i h_i minus v, which the second line needs as its negative gradient, is also w(alpha^) - v, and with it the
duality gap of v and alpha^ is known from that read alone. The second line then is (I + H' mu H) step = r.

Each row has its own mu_i = mu C_i / sqrt(1 + C_i |h_i|^2), between the range of alpha_i and the length of a dual
coordinate step, so that one mu fits rows of any cost and length. `balance` moves mu so that z and alpha change
alike, in the norm sum mu_i z_i^2 + alpha_i^2 / mu_i in which the iteration contracts, ever more rarely, and at last no
more: what converges for every fixed mu converges. `paper` is the printed rule, eq. (29).
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from solvers.data.rows import read_only
from solvers.errors import InvalidOptions
from solvers.linalg.types import Floats
from solvers.method import Method, Option, Point, Progress, Start
from solvers.methods.alm.residuals import Penalties, add_product, dual_point, move_multipliers_and_residuals
from solvers.problem.problems import BinaryProblem
from solvers.result import Status
from solvers.state import StoredState as State

__all__ = ["AugmentedLagrangian", "balanced", "shared_options"]

FIRST_BALANCE, BALANCE_GROWTH, LAST_BALANCE = 10, 1.5, 1000
"""mu may change after so many iterations, then each time they grew by this factor, and never after the last."""
BALANCED_WITHIN = 3.0
"""The ratio of the two changes that is left alone."""
MOST_CHANGE, SMALLEST_MU, LARGEST_MU = 5.0, 1e-9, 1e9
PAPERS_LARGEST_MU = 1e5
ENTRIES_A_STEP = 5_000_000
"""Of X, read in one step by more than one read: some milliseconds."""

_ARRAYS = ("weights", "evaluated", "residual", "search", "multipliers", "z", "slack")
_SCALARS = (
    "mu", "next_mu", "age", "next_balance", "z_change", "multiplier_change", "lagrangian", "is_fresh", "products",
    "rho", "rho_start", "primal", "gap",
)  # fmt: skip


def shared_options(multiplier_step: float) -> tuple[Option, ...]:
    """The options of both solvers; they differ in how long a step of the multipliers serves them best."""
    return (
        Option(
            "mu_rule",
            str,
            "balance",
            "balance: mu is adapted at first, then fixed; constant: it is not; paper: eq. (29), which often freezes "
            "the iteration short of the optimum",
            choices=("balance", "constant", "paper"),
        ),
        Option(
            "mu",
            float,
            1.0,
            "where mu starts, as a multiple of what the costs and the length of the rows suggest "
            "(mu_rule paper: of the mean cost)",
            low=1e-6,
            high=1e6,
        ),
        Option(
            "multiplier_step",
            float,
            multiplier_step,
            "the multipliers' step in units of mu; the paper has 1",
            low=0.1,
            high=1.61,
        ),
    )


class AugmentedLagrangian(Method[BinaryProblem, Any]):
    """The outer iteration. On data too large for several reads in a blink, each product is a step of its own."""

    tasks = ("binary",)
    losses = ("hinge", "squared_hinge", "hinge_p")
    biases = ("free", "regularized", "none")
    paper = "Nie, Huang, Wang, Huang (2014): New primal SVM solver with linear computational cost for big data"

    def __init__(self, problem: BinaryProblem, options: Mapping[str, Any]) -> None:
        super().__init__(problem, options)
        is_free = problem.spec.bias == "free"
        self.bias_feature = 1.0 if is_free else problem.bias_feature
        self.ridge = np.ones(problem.data.n_features + 1)
        self.ridge[-1] = 0.0 if is_free else 1.0
        self.rule = str(options["mu_rule"])
        self.penalties = Penalties(read_only(self._penalty_scales()), self.bias_feature)

    @abstractmethod
    def _update_weights(self, state: State) -> bool:
        """Begin to update the weights; False if that needs products, one in each of the next steps."""

    @abstractmethod
    def _is_updated(self, state: State) -> bool:
        """Whether the products so far were enough."""

    def init(self, seed: int, start: Start) -> State:
        n, k = self.problem.data.n_rows, self.problem.data.n_features + 1
        mu = float(self.chosen["mu"])
        if self.rule == "paper":
            mu *= self.problem.total_cost / int((self.problem.costs > 0.0).sum())
        state: State = {
            "weights": np.zeros(k),
            "evaluated": np.zeros(k),  # the weights of the last read, of which the gap is known
            "residual": np.zeros(k),
            "search": np.zeros(k),
            "multipliers": np.zeros(n),
            "z": np.zeros(n),
            "slack": np.zeros(n),
            "mu": mu,  # with which the weights were last updated
            "next_mu": mu,
            "age": 0,  # iterations since the multipliers began
            "next_balance": FIRST_BALANCE,
            "z_change": 0.0,
            "multiplier_change": 0.0,
            "lagrangian": math.inf,  # what eq. (29) keeps from growing
            "is_fresh": True,  # no z and no multipliers yet
            "products": -1,  # of the weights' update that is under way, -1: none is
            "rho": 0.0,
            "rho_start": 0.0,
            "primal": math.inf,
            "gap": math.inf,
            "iterations": 0,
            "passes": 1,  # the lengths of the rows
        }
        if start.state is not None:
            self._resume(state, start.state)
        elif start.coef is not None:
            state["weights"][:-1] = start.coef
            if self.bias_feature > 0.0:
                state["weights"][-1] = float(start.intercept) / self.bias_feature
        return state

    def step(self, state: State, target: float) -> Progress:
        reads = min(ENTRIES_A_STEP // max(1, self.problem.data.stored_entries), self.reads_left)
        is_evaluation = state["products"] < 0
        if is_evaluation:
            reads -= 1
            self._update_residuals(state)
            if not math.isfinite(state["primal"] + state["gap"]):
                return Progress(state["iterations"], state["passes"], None, None, None, Status.NONFINITE)
            self._begin_weights(state)
        else:
            reads = max(reads, 1)
        while state["products"] >= 0 and reads > 0:
            reads -= 1
            self._multiply(state)
        primal, gap = state["primal"], state["gap"]
        estimate = gap / max(primal, self.problem.primal_floor)
        return Progress(state["iterations"], state["passes"], primal, primal - gap, estimate, is_complete=is_evaluation)

    def extract(self, state: State) -> Point:
        v = state["evaluated"]
        return Point(v[:-1].copy(), float(self.bias_feature * v[-1]), self._dual_point(state))

    def _penalty_scales(self) -> Floats:
        """mu_i / mu of each row; 0 for rows without cost."""
        costs = self.problem.costs
        norms = self.problem.data.usable_squared_norms() + self.bias_feature**2
        if self.rule == "paper":
            return np.where(costs > 0.0, 1.0, 0.0)
        return np.asarray(costs / np.sqrt(1.0 + costs * norms))

    def _update_residuals(self, state: State) -> None:
        """The read that moves the multipliers and then the residuals; sets the negative gradient and the gap."""
        state["passes"] += 1
        v, sums = state["weights"], np.zeros_like(state["weights"])
        rows = move_multipliers_and_residuals(
            self.problem,
            self.penalties,
            v,
            0.0 if state["is_fresh"] else float(self.chosen["multiplier_step"]) * state["mu"],
            state["next_mu"],
            state["multipliers"],
            state["z"],
            state["slack"],
            sums,
        )
        residual = sums - self.ridge * v
        squares = float((self.ridge * v * v).sum())
        state["evaluated"], state["residual"] = v.copy(), residual
        state["primal"] = 0.5 * squares + rows.loss
        state["gap"] = 0.5 * float((self.ridge * residual * residual).sum()) + rows.gap_terms
        if not state["is_fresh"]:
            state["multiplier_change"] += rows.multiplier_change
            state["z_change"] += rows.residual_change
        self._follow_rule(state, squares + rows.split_loss, rows.violation)
        state["is_fresh"] = False
        state["iterations"] += 1
        state["age"] += 1

    def _follow_rule(self, state: State, objective: float, violation: float) -> None:
        """Set the mu of the next read; the weights' update that now begins has that of this one."""
        state["mu"] = state["next_mu"]
        if self.rule == "paper":
            # As printed: with |w|^2 where the objective has half of it, never falling, and capped.
            if violation > 0.0 and state["lagrangian"] < math.inf:
                printed = (state["lagrangian"] - objective) / (0.5 * violation)
                state["next_mu"] = min(max(state["mu"], printed), PAPERS_LARGEST_MU)
            if not state["is_fresh"]:
                state["lagrangian"] = objective + 0.5 * state["mu"] * violation
        elif self.rule == "balance" and state["next_balance"] <= state["age"] < LAST_BALANCE:
            state["next_balance"] = BALANCE_GROWTH * state["age"]
            if state["z_change"] > 0.0 and state["multiplier_change"] > 0.0:
                ratio = math.sqrt(state["multiplier_change"] / state["z_change"]) / state["mu"]
                if not 1.0 / BALANCED_WITHIN <= ratio <= BALANCED_WITHIN:
                    factor = min(max(math.sqrt(ratio), 1.0 / MOST_CHANGE), MOST_CHANGE)
                    state["next_mu"] = min(max(state["mu"] * factor, SMALLEST_MU), LARGEST_MU)
            state["multiplier_change"] = state["z_change"] = 0.0

    def _begin_weights(self, state: State) -> None:
        if not self._update_weights(state):
            state["search"] = state["residual"].copy()
            state["rho"] = state["rho_start"] = float((state["residual"] * state["residual"]).sum())
            state["products"] = 0 if state["rho"] > 0.0 else -1

    def _multiply(self, state: State) -> None:
        """One iteration of conjugate gradients; the first is the paper's gradient step of optimal length, eq. (18)."""
        state["passes"] += 1
        d, product = state["search"], np.zeros_like(state["search"])
        add_product(self.problem, self.penalties, state["mu"], d, product)
        product += self.ridge * d
        curvature, rho_before = float((d * product).sum()), state["rho"]
        if not (curvature > 0.0 and rho_before > 0.0):  # underflow: there is nothing left to gain
            state["products"] = -1
            return
        state["weights"] = state["weights"] + rho_before / curvature * d
        state["residual"] = state["residual"] - rho_before / curvature * product
        state["rho"] = float((state["residual"] * state["residual"]).sum())
        state["search"] = state["residual"] + state["rho"] / rho_before * d
        state["products"] += 1
        if self._is_updated(state):
            state["products"] = -1

    def _dual_point(self, state: State) -> Floats:
        """alpha^ of the last read, balanced if the bias is free."""
        problem = self.problem
        alpha = dual_point(problem, self.penalties, state["mu"], state["multipliers"], state["z"], state["slack"])
        return balanced(problem, alpha) if problem.spec.bias == "free" else alpha

    def _resume(self, state: State, earlier: State) -> None:
        """Go on from an earlier state, to the same bits; on other rows, start from its weights."""
        shapes_agree = {name: name in earlier and np.shape(earlier[name]) == np.shape(state[name]) for name in _ARRAYS}
        if not (shapes_agree["weights"] and shapes_agree["evaluated"]):
            features = self.problem.data.n_features
            raise InvalidOptions("warm_start", f"is not a state of {self.name} on {features} features")
        if any(not np.isfinite(earlier[name]).all() for name in _ARRAYS if shapes_agree[name]):
            raise InvalidOptions("warm_start", "has numbers that are NaN or infinite")
        if not all(shapes_agree.values()):
            state["weights"] = np.array(earlier["evaluated"], dtype=np.float64)
            return
        state.update({name: np.array(earlier[name], dtype=np.float64) for name in _ARRAYS})
        state.update({name: earlier[name] for name in _SCALARS})


def balanced(problem: BinaryProblem, alpha: Floats) -> Floats:
    """alpha with sum_i y_i alpha_i = 0, as far as moving the rows between the bounds can do it.

    These rows lie on the margin (p = 1) or where the dual is smooth (p > 1), so little of the bound is lost.
    """
    room = alpha.copy()
    if problem.spec.exponent == 1.0:
        room *= 1.0 - np.divide(alpha, problem.costs, out=np.ones_like(alpha), where=problem.costs > 0.0)
    for _ in range(2):  # the second time for rounding
        excess, total = float((problem.signs * alpha).sum()), float(room.sum())
        if total > 0.0:
            alpha = np.maximum(alpha - min(max(excess / total, -1.0), 1.0) * problem.signs * room, 0.0)
    return np.minimum(alpha, problem.costs) if problem.spec.exponent == 1.0 else alpha
