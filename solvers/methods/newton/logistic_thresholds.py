"""Thresholds of `newton_logistic`: when it takes a larger sample, sums a new matrix, solves a system or stops."""

__all__ = [
    "EXACT_SHARE",
    "FEW_READS",
    "GOOD_SLOPE",
    "LEAST_KNOWN",
    "LIGHT",
    "LIGHT_NORM",
    "LONG_SOLUTION",
    "NEAR",
    "PAIR_READS",
    "PATIENCE",
    "POOR_STRIDE",
    "ROW_WORK",
    "SAMPLE_SHARE",
    "SPARSE_SAMPLE_SHARE",
    "STEPS_AFTER",
    "TANGENT_GAIN",
]

SAMPLE_SHARE, SPARSE_SAMPLE_SHARE = 0.5, 1.0
"""A larger sample follows when a step gains at most this multiple of the sample's error. The first value is for dense,
the second for sparse rows. Larger: samples are left earlier. Set by hand; no measurement is recorded."""
LEAST_KNOWN = 1e-3
"""Shortest step, as a fraction of the line, whose slacks are interpolated instead of computed from X. Larger: more
passes, fewer lost digits."""
GOOD_SLOPE = 0.5
"""A whole step is taken if the slope at its end is at most this fraction of the slope at its start. Smaller: more line
searches. Set by hand; no measurement is recorded."""
PATIENCE = 16
"""Number of steps on all rows without a smaller gap or objective after which the run ends as `stalled`. Larger: more
steps without progress. Set by hand; no measurement is recorded."""
STEPS_AFTER = 2.0
"""Expected number of steps after a new matrix or a solution by conjugate gradients. Larger: these are computed less
often. Set by hand; no measurement is recorded."""
FEW_READS = 10.0
"""Largest cost of the matrix of all rows, in passes, at which a new matrix is summed if steps gain too little. Above
this cost, conjugate gradients, preconditioned by the kept matrix, compute the Newton step. Larger: more new matrices.
Set by hand; no measurement is recorded."""
LONG_SOLUTION = 6.0
"""If the last solution by conjugate gradients took more passes than this, a new matrix of the same cost is summed as
the preconditioner of the next. Larger: fewer new matrices. Set by hand; no measurement is recorded."""
EXACT_SHARE = 0.25
"""Near the end the Newton system is solved precisely, which takes a few times the passes of the last solution. If these
passes cost more than this fraction of the matrix of all rows, that matrix is summed instead. Larger: more solutions by
conjugate gradients. Set by hand; no measurement is recorded."""
NEAR = 4.0
"""The end counts as near when a step gains at most this multiple of the wanted gap. Larger: precise solutions begin
earlier. Set by hand; no measurement is recorded."""
TANGENT_GAIN = 20.0
"""Largest gain of a step, in multiples of the wanted gap, at which the dual point of the tangent is evaluated. Larger:
more evaluations that do not reach the wanted gap; each costs 40 % of a pass (a9a)."""
POOR_STRIDE = 6
"""Largest stride of a sample of sparse rows whose matrix is kept when all rows come into use. From a larger stride, a
new matrix is summed. Measured at C = 1, 1e-3: a new matrix saves 1.5 of 9.3 ms on a9a (one row in 8) and costs 3 of 28
ms on w8a (one row in 5)."""
LIGHT, LIGHT_NORM = 1e-3, 1e-2
"""A row is left out of the matrix if its curvature is at most LIGHT times the mean curvature, and at most LIGHT_NORM
when multiplied by the mean squared norm. Larger: fewer rows to sum, less precise steps. On w8a (C = 100) a third of the
rows is left out."""
PAIR_READS, ROW_WORK = 0.2, 6.0
"""Assumed time to add a pair of entries to the matrix (PAIR_READS), and for the exponential and logarithm of a row
(ROW_WORK), in multiples of the time to read an entry. Larger PAIR_READS: fewer new matrices. With 0.5 there were too
few (a9a, C = 0.01, 1e-3: 16 ms instead of 12)."""
