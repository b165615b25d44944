"""Hyperplane's service: HTTP in, SQL as the memory, worker processes, immutable model files out."""

__version__ = "0.1.0"
