"""Evaluations: how a model did on a dataset, stored as a resource of its own."""
