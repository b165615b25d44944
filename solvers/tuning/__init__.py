"""Searches for C: cross-validation along a path of C, and the proof that the search is over."""
