"""Preprocessing that is part of the model: raw columns become features, by what was learnt from the training rows.

`training` fits and transforms stored rows (compiled kernels). `pipeline` holds what was learnt, is kept with the
weights and applies it to raw named values; it needs neither numba nor the solvers.
"""
