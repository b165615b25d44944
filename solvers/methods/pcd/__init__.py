"""Primal coordinate descent for squared hinge."""
