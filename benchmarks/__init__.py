"""Measurements beside peers, printed as ratios. Never part of `make test`."""
