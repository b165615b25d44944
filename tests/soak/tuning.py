"""`python -m tests.soak.tuning [--problems N] [--first SEED] [--values N] [--sets a,b] [--no-sets]`

Looks for a point of a true cross-validation curve outside of its proven bounds: N random small problems of every loss,
task and metric, searches of several variants, and real sets of up to 5,000 rows (those that lie beside the project)
with 40 random C each. Leave-one-out bounds are compared with exact trainings. Prints the counts and every violation,
and exits with 1 if there is one.
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

import solvers
from tests.support.real_data import load
from tests.support.tuning_truth import TuningCase, random_case, random_values, true_scores, tuned, violations

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
SETS = (
    "heart_scale",
    "diabetes",
    "ionosphere",
    "bupa",
    "heart_cleveland_pmlb",
    "svmguide1",
    "svmguide3",
    "spambase",
    "vote",
    "tic_tac_toe",
    "mushrooms_agaricus",
    "colon_cancer",
    "rcv1_small_vw",
)
KINDS = (
    ("binary", "ovr", ("error", "balanced_error", "f1", "roc_auc")),
    ("binary", "ovr", ("error",)),
    ("multiclass", "ovr", ("error", "balanced_error")),
    ("multiclass", "crammer_singer", ("error",)),
    ("regression", "ovr", ("mae", "mse")),
)
"""Task, strategy and metrics of the random problems, in turn; half of them have two classes."""
VARIANTS = (
    {"loss": "hinge", "class_weight": None},
    {"loss": "squared_hinge", "class_weight": "balanced"},
    {"loss": "logistic", "bias": "none"},
)
"""Variants of one search. Each has a curve of its own."""
MOST_ROWS = 5000


def judge_random(seed, values, counts):
    task, strategy, metrics = KINDS[(0, 1, 0, 2, 1, 3, 0, 4)[seed % 8]]
    case, metric = random_case(seed, task=task, strategy=strategy), metrics[seed // 8 % len(metrics)]
    result = tuned(case, metric=metric, max_values=12)
    found = violations(case, result, random_values(seed, values))
    counts[f"points of curves of {task} {metric}"] += values
    counts["proofs that were complete"] += result.certificate.proven
    return [f"seed {seed}: {metric} {case.definition}: {one}" for one in found]


def judge_variants(seed, values, counts):
    case = random_case(seed)
    result = tuned(case, metric="error", max_values=12, variants=list(VARIANTS))
    faults = []
    for number, changed in enumerate(VARIANTS):
        one = replace(case, definition=case.definition | changed)
        found = violations(one, result, random_values(seed, values), variant=number)
        faults += [f"seed {seed}: variant {changed} of {case.definition}: {fault}" for fault in found]
        counts["points of curves of variants"] += values
    return faults


def judge_left_out(seed, counts):
    case, C = random_case(seed), [0.05, 1.0, 20.0][seed % 3]
    case.definition |= {"c_scale": "sum", "class_weight": None}
    found = solvers.leave_one_out(case.X, case.y, C=C, sample_weight=case.sample_weight, **case.definition)
    faults = []
    for row in np.random.default_rng(seed).choice(case.y.size, 4, replace=False):
        case.folds = (np.arange(case.y.size) == row).astype(int)
        scores, doubt, _ = true_scores(case, 1, C)
        counts["scores without the row"] += 1
        if found.low[row] > scores[0] + doubt[0] or found.high[row] < scores[0] - doubt[0]:
            faults.append(f"seed {seed}: row {row} of {case.definition}")
    return faults


def judge_set(name, values, counts):
    X, signs = load(SHARED, name)
    if signs.size > MOST_ROWS:
        rows = np.random.default_rng(0).permutation(signs.size)[:MOST_ROWS]
        X, signs = X[rows], signs[rows]
    if isinstance(X, np.ndarray):
        deviation = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    number = SETS.index(name)
    loss, bias = ("squared_hinge", "hinge", "logistic")[number % 3], ("regularized", "none")[number % 2]
    folds = np.random.default_rng(1).permutation(np.arange(signs.size) % 3)
    definition = {"loss": loss, "bias": bias, "bias_scale": 1.0, "c_scale": "sum"}
    case = TuningCase(X, (signs > 0.0).astype(int), definition, None, folds)
    result = tuned(case, metric="error", epsilon=0.02, low=1e-3, high=1e2, max_values=40)
    counts[f"points of the curve of {name}"] += values
    found = violations(case, result, random_values(number, values, 1e-3, 1e2))
    print(
        f"  {name}: {loss}, {result.certificate.values} values, {result.certificate.epsilon_reached:.3f} reached",
        flush=True,
    )
    return [f"{name}: {one}" for one in found]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.tuning")
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--values", type=int, default=40, help="random C for each real set")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--no-sets", action="store_true")
    wanted = parser.parse_args()
    counts, faults, began = Counter(), [], time.monotonic()
    work = [(judge_random, (seed, 4)) for seed in range(wanted.first, wanted.first + wanted.problems)]
    some = range(wanted.first, wanted.first + wanted.problems // 4)
    work += [(judge_variants, (seed, 4)) for seed in some] + [(judge_left_out, (seed,)) for seed in some]
    if not wanted.no_sets:
        work += [(judge_set, (name, wanted.values)) for name in wanted.sets.split(",") if (SHARED / name).exists()]
    for number, (judge, arguments) in enumerate(work):
        for fault in judge(*arguments, counts):
            faults.append(fault)
            print(f"  BROKEN  {fault}", flush=True)
        if number % 100 == 99:
            print(
                f"  {number + 1} of {len(work)}, {len(faults)} violations, {time.monotonic() - began:.0f} s", flush=True
            )
    for what, count in sorted(counts.items()):
        print(f"  {count:7d}  {what}")
    print(f"== {len(faults)} violations after {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
