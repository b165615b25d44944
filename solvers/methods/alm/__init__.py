"""Augmented Lagrangian methods."""
