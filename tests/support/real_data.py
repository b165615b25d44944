"""Public data sets, and what LIBLINEAR makes of them."""

import ctypes

import numpy as np
import scipy.sparse as sp
from liblinear.liblinearutil import parameter, problem, train


def load(folder, name):
    with np.load(folder / name / "train.npz", allow_pickle=False) as archive:
        signs = archive["y"]
        if "indptr" in archive:
            values = archive["data"].astype(np.float64)
            X = sp.csr_matrix((values, archive["indices"], archive["indptr"]), shape=tuple(archive["shape"]))
        else:
            X = archive["X"].astype(np.float64)
    return X, np.where(signs == np.unique(signs)[1], 1.0, -1.0)


def liblinear_objective(X, signs, loss, *, solver, C=1.0, bias=1.0, violation=1e-4, seed=1):
    """P of LIBLINEAR's weights by its definition; `bias` -1 means none."""
    # Its order of rows is drawn by the C library, whose state would depend on which tests ran before.
    ctypes.CDLL(None).srand(seed)
    model = train(problem(signs, X, bias), parameter(f"-s {solver} -c {C} -B {bias} -e {violation} -q"))
    n_features = X.shape[1]
    w = np.array(model.w[: n_features + (bias >= 0)]) * model.label[0]
    scores = X @ w[:n_features] + (bias * w[-1] if bias >= 0 else 0.0)
    xi = np.maximum(0.0, 1.0 - signs * scores)
    return 0.5 * w @ w + C * (xi if loss == "hinge" else xi**2).sum()
