"""Requests that must not happen twice, and the answers that they got the first time."""
