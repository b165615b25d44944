"""Predictions: parse a request body into rows, score them, and encode the response. Does not import numba."""
