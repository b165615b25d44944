"""Webhooks: addresses that are told of events, signed, in order, until they have answered."""
