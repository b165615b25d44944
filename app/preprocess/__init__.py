"""Preprocessing, which is part of the model: it converts raw columns to features, as learnt from the training rows.

`fit` learns a pipeline and transforms stored rows (compiled kernels). `pipeline` is stored with the weights and
converts the rows of requests; it imports neither numba nor the solvers.
"""
