"""Datasets: uploaded and parsed once, then stored as immutable arrays that workers map."""
