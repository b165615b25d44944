"""Checks of a job request before it is queued."""
