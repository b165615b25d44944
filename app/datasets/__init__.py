"""Datasets: uploaded once, parsed once, then immutable arrays that workers map."""
