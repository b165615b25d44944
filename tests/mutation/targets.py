"""What can be mutated, and which tests have to notice. A new target is one more entry of TARGETS."""

from typing import NamedTuple


class Part(NamedTuple):
    """A file of a target."""

    path: str
    tests: tuple[str, ...]
    """What pytest is given: files or node ids, quick ones first. They run without numba's compiler."""
    names: tuple[str, ...] | None = None
    """Only these functions and classes of the file; None: all of it."""


CERTIFICATES = (
    "tests/unit/solvers/certificates",
    "tests/unit/solvers/problem/losses",
    "tests/unit/solvers/linalg/test_rounding.py",
    "tests/unit/solvers/linalg/test_compensated.py",
    "tests/unit/solvers/engine/test_status.py",
    "tests/unit/solvers/engine/test_judge.py",
    "tests/property/test_exact_certificates.py::test_a_balanced_point_has_a_sum_of_exactly_zero",
    "tests/property/test_exact_certificates.py::test_no_made_up_point_of_a_hostile_problem_has_a_false_certificate",
)
ENGINE = (
    "tests/unit/solvers/engine/test_status.py",
    "tests/unit/solvers/engine/test_judge.py",
)
SCORES = (
    "tests/unit/app/predictions/test_score_bound_terms.py",
    "tests/unit/app/predictions/test_score_rounding.py::test_the_optimum_farthest_away_is_within_the_bound",
    "tests/unit/app/predictions/test_score_rounding.py::test_a_label_that_rounding_could_have_changed_is_not_certain",
)

TARGETS: dict[str, tuple[Part, ...]] = {
    "certificates": (
        Part("solvers/linalg/rounding.py", CERTIFICATES),
        Part("solvers/certificates/evaluation.py", CERTIFICATES),
        Part("solvers/certificates/balance.py", CERTIFICATES),
        Part("solvers/certificates/binary.py", CERTIFICATES),
        Part("solvers/certificates/regression.py", CERTIFICATES),
        Part("solvers/certificates/multiclass.py", CERTIFICATES),
        Part("solvers/certificates/ordinal.py", CERTIFICATES),
        Part("solvers/problem/losses/loss.py", CERTIFICATES),
        Part("solvers/problem/losses/hinge.py", CERTIFICATES),
        Part("solvers/problem/losses/epsilon_insensitive.py", CERTIFICATES),
        Part("solvers/problem/losses/logistic.py", CERTIFICATES),
        Part("solvers/certificates/circulation.py", CERTIFICATES),
        Part("solvers/linalg/compensated.py", CERTIFICATES),
        Part("solvers/result.py", CERTIFICATES, ("Certificate",)),
        Part("solvers/engine/judge.py", ENGINE),
        Part("solvers/engine/driver.py", ENGINE, ("agreeing_status",)),
        Part("solvers/engine/one_vs_rest.py", ENGINE, ("sum_of_classes", "_rounded_sum", "_better", "_Run._status")),
        Part("app/predictions/score_error.py", SCORES),
        Part("app/worker/claimed_certificate.py", ("tests/unit/app/worker/test_claimed_certificate.py",)),
    ),
}
