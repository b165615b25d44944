"""Dual coordinate descent for all classes jointly."""
