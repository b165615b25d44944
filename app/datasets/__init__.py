"""Datasets: files that are uploaded, parsed once and stored as immutable arrays, which workers map into memory."""
