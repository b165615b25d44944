"""Searches for C: cross-validation along a path of values, and the proof that no other C is better."""
