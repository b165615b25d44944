"""Survivors that no test can kill, with the reason: a change that makes no difference to what is promised.

An entry is found by its file and by the lines before and after the change, so it moves with the code. An entry whose
mutant is killed or gone is reported as stale.
"""

from tests.mutation.equivalent_service import SERVICE_EQUIVALENT, Equivalent

CERTIFICATES = "solvers/certificates"
HINGE = "solvers/problem/losses/hinge.py"
EQUIVALENT: tuple[Equivalent, ...] = (
    Equivalent(HINGE, "if p == 1.0:", "if p == 0.0:", "A constant p only lets the compiler specialise the same loop."),
    Equivalent(
        f"{CERTIFICATES}/balance.py",
        "if up == 0.0 or down == 0.0 or not np.isfinite(up + down):",
        "if up == 0.0 or down == 0.0 or not (up + down):",
        "on_grid gives zeros for what is not finite, too.",
    ),
    Equivalent(
        "solvers/problem/losses/hinge.py",
        "difference = abs(over - share) + 4.0 * UNIT * share + (LEAST if share > 0.0 else 0.0)",
        "difference = abs(over - share) + 4.0 * UNIT * share + (LEAST if not (share > 0.0) else 0.0)",
        "2^-1074 counts only in a difference whose square underflows.",
    ),
    *(
        Equivalent("solvers/linalg/compensated.py", before, after, "A product of two numbers in the other order.")
        for before, after in (
            (
                "high, low = _add_product(high, low, float(values[i, j]), w[j])",
                "high, low = _add_product(high, low, w[j], float(values[i, j]))",
            ),
            (
                "high, low = _add_product(high, low, float(values[e]), w[columns[e]])",
                "high, low = _add_product(high, low, w[columns[e]], float(values[e]))",
            ),
            (
                "out_high[j], out_low[j] = _add_product(out_high[j], out_low[j], v[i], float(values[e]))",
                "out_high[j], out_low[j] = _add_product(out_high[j], out_low[j], float(values[e]), v[i])",
            ),
            (
                "out_high[j], out_low[j] = _add_product(out_high[j], out_low[j], v[i], float(values[i, j]))",
                "out_high[j], out_low[j] = _add_product(out_high[j], out_low[j], float(values[i, j]), v[i])",
            ),
        )
    ),
    Equivalent(
        f"{CERTIFICATES}/ordinal.py",
        "PAIRWISE_ROWS = 4096",
        "PAIRWISE_ROWS = 8192",
        "Speed only: both ways to sum pairs are tested on both sides of the limit.",
    ),
    Equivalent(
        f"{CERTIFICATES}/ordinal.py",
        "totals = np.zeros((3, 2))",
        "totals = np.zeros((3, 4))",
        "Columns that nothing reads.",
    ),
    Equivalent(
        "app/worker/claimed_certificate.py",
        'if not _is_near(claimed["gap"], gap, claimed):',
        'if not _is_near(gap, claimed["gap"], claimed):',
        "A distance is the same from both ends.",
    ),
    Equivalent(
        f"{CERTIFICATES}/multiclass.py",
        "linear=below(compensated_sum(read_only(np.ascontiguousarray(shares).reshape(-1)))),",
        "linear=below(compensated_sum(read_only(np.ascontiguousarray(shares).reshape(-2)))),",
        "numpy takes any negative size for the one that is to be found.",
    ),
    Equivalent(
        f"{CERTIFICATES}/circulation.py",
        "for _ in range(_ROUNDS + 1):",
        "for _ in range(_ROUNDS - 1):",
        "Fewer attempts: what is left is balanced or zero either way, and no input is known that needs a third.",
    ),
    Equivalent(
        f"{CERTIFICATES}/regression.py",
        "at_edge, room = np.abs(lighter * errors - epsilon) <= rounding, high - low",
        "at_edge, room = np.abs(lighter * errors - epsilon) < rounding, high - low",
        "Only for a row exactly at the limit of a guess; any dual point of the domain proves a bound.",
    ),
    Equivalent(
        f"{CERTIFICATES}/regression.py",
        "at_edge, room = np.abs(lighter * errors - epsilon) <= rounding, high - low",
        "at_edge, room = np.abs(lighter * errors - epsilon) <= rounding, high + low",
        "At the edge of the tube `low` is 0.",
    ),
    Equivalent(
        f"{CERTIFICATES}/balance.py",
        "if up == 0.0 or down == 0.0 or not np.isfinite(up + down):",
        "if up == 0.0 and down == 0.0 or not np.isfinite(up + down):",
        "With one side of 0 the other is scaled by 0.",
    ),
    Equivalent(
        "app/worker/claimed_certificate.py",
        "if not _is_near(claimed[name], total, claimed):",
        "if not _is_near(total, claimed[name], claimed):",
        "The comparison is symmetric.",
    ),
    *SERVICE_EQUIVALENT,
)
