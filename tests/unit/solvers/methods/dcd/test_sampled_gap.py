"""What dual coordinate descent says of its gap: if that is too little, a certificate is paid for in vain."""

import numpy as np

import solvers


def test_hardly_any_certificate_fails() -> None:
    """With what its rows told when they were visited it would be in eight of these twelve runs."""
    random = np.random.default_rng(0)
    X = random.standard_normal((5000, 20))
    y = np.sign(X @ random.standard_normal(20) + 2.0 * random.standard_normal(5000))

    def certificates(seed: int) -> int:
        reports: list[solvers.StepReport] = []
        result = solvers.train(X, y, solver="dcd", loss="hinge", C=0.01, tol=1e-6, seed=seed, callback=reports.append)
        assert result.converged
        return sum(report.certified for report in reports)

    assert sum(certificates(seed) > 1 for seed in range(12)) <= 2


def test_where_nearly_all_alphas_end_at_their_bounds_no_epoch_may_be_needed() -> None:
    """It begins there, asks some rows how far that is from the optimum, and the certificate agrees."""
    random = np.random.default_rng(0)
    X = random.standard_normal((4000, 30))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.sign(X @ random.standard_normal(30))

    def trained(tol: float) -> solvers.SolveResult:
        return solvers.train(X, y, solver="dcd", loss="hinge", C=1e-3, tol=tol)

    rough, precise = trained(0.05), trained(1e-6)
    assert rough.converged
    assert rough.state["rows_read"] == y.size
    assert precise.converged
    assert precise.state["rows_read"] > y.size


def test_an_epoch_ends_early_where_few_rows_have_most_of_the_gap() -> None:
    """No sample contains these rows. Without the gap of the visited rows the run would take 2.97 passes."""
    random = np.random.default_rng(0)
    X = (random.random((20_000, 60)) < 0.1).astype(np.float64)
    scores = X @ random.standard_normal(60) + random.standard_normal(20_000)
    y = np.where(scores > np.quantile(scores, 0.97), 1.0, -1.0)
    reports: list[solvers.StepReport] = []
    result = solvers.train(X, y, solver="dcd", loss="hinge", C=0.01, tol=1e-2, callback=reports.append)
    assert result.converged
    assert result.state["rows_read"] < 2.5 * y.size
    assert sum(report.certified for report in reports) == 1
