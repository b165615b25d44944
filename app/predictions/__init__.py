"""Predictions: a request body becomes rows, rows become scores, scores become answers. Needs no numba."""
