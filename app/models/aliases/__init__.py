"""Aliases: names for versions of a model, with weights, a shadow and rollback."""
