"""Webhooks: signed messages about events, delivered in order and at least once."""
