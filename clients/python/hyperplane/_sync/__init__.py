# Written by `make sync-client` from hyperplane/_async. Do not edit it.
"""The synchronous client."""
