"""Imported once by the forkserver of parser children: every child then starts with compiled kernels."""

from app.datasets import formats, parse  # noqa: F401

formats.warm()
