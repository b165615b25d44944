"""`alm_inexact`: the augmented Lagrangian method with gradient steps for the weights (Nie et al. 2014, Algorithm 2).

augmented_lagrangian.py holds the code shared with `alm_exact`. The weights move along the negative gradient of their
least-squares problem by the optimal step length, eq. (18), which needs one product with X. The paper takes one such
step per iteration, so an iteration costs two passes over X. Here the default is three steps (`gradient_steps`), the
second and third in conjugate directions. On some problems one step per iteration needs hundreds of passes to come
within 1 % of the optimum, or does not get there. On these, three steps per iteration need a half to an eighth of the
passes. Convergence is not proved for such inexact updates with a fixed mu.
"""

from solvers.cost import Footprint, Pace
from solvers.method import Option
from solvers.methods.alm.augmented_lagrangian import AlmState, AugmentedLagrangian, shared_options

__all__ = ["InexactAugmentedLagrangian"]


class InexactAugmentedLagrangian(AugmentedLagrangian):
    name = "alm_inexact"
    options = (
        *shared_options(multiplier_step=1.0),
        Option(
            "gradient_steps",
            int,
            3,
            "steps for the weights in each iteration, in conjugate directions; 1 in the paper",
            low=1,
        ),
    )
    exact = False
    footprint = Footprint(row=17.2, squared_row=1.0, feature=8.0, kept_row=3.0, kept_feature=4.0)
    pace = Pace(least=19, hardness=0.42, precision=0.31, tallness=0.1, entry_seconds=1.1e-9, row_seconds=4.7e-8)
    notes = (
        "Any p from 1 to 2 and any bias, by products with X alone. Quick to a rough answer where the features are of "
        "similar scale; for a precise answer use alm_exact."
    )

    def _update_weights(self, state: AlmState) -> bool:
        return False

    def _is_updated(self, state: AlmState) -> bool:
        return bool(state.update.products >= self.chosen["gradient_steps"])
