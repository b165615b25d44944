"""The report of a model: one HTML file with its certificate, metrics, weights, data and origin.

It contains no script and loads nothing, so it can be sent, printed and kept. Lists are cut to their most important
entries, and names to MAX_NAME characters, so that a report stays below 1 MB.
"""
