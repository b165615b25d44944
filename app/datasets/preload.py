"""Imported once by the forkserver of children: every child then starts with compiled kernels."""

from app.datasets import child, formats, parse  # noqa: F401
from app.forkserver import settle

formats.warm()
settle()
