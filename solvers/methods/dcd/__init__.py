"""Dual coordinate descent, by one thread and by several."""
