"""Mutation testing: does a test fail when a line of the code is made wrong?

    python -m tests.mutation --target certificates            330 mutants, writes docs/benchmarks/mutation.md
    python -m tests.mutation --target auth --mutants 300       also job_state and storage_commit: mutation_<target>.md
    python -m tests.mutation --only solvers/certificates/rounding.py --every
    python -m tests.mutation --show 17                         the diff of mutant 17 of the sample, without a run

A mutant is the source with one small change: `<` becomes `<=`, a term of a sum is dropped, `above(x)` becomes `x`
(operators.py lists the changes). Its file is written into a temporary copy of the tree, and the tests of its target
(targets.py) run there in a forked process, for the solvers without numba's compiler. A mutant of the service is first
tried in a fork that has everything imported (warm_tests.py): most are killed there in a second. A mutant is killed if a
test fails, if the run crashes or if it exceeds its time limit. It survives if every test passes: then a test is
missing, or the change makes no difference. Survivors of the second kind stand in equivalent.py with the reason.

The sample is drawn from a seed, in proportion to the number of mutants of each file, so a run can be repeated. No
file of the checkout is changed, except the report; do not edit the target's files during a run.
"""
