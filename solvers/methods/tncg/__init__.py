"""Truncated Newton by preconditioned conjugate gradients."""
