"""Preprocessing: converts raw columns to features by rules that are learnt from the training rows and stored in the
model.

`fit` learns a pipeline and transforms stored rows with compiled kernels. `pipeline` is stored with the weights and
converts the rows of predict requests. It imports neither numba nor the solvers.
"""
