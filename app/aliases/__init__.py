"""Aliases: names for versions of a model that can be moved while requests come in, with their history."""
