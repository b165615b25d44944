"""Resumable uploads: a file arrives in parts, over as many connections as it takes, and becomes a dataset."""
