"""Resumable uploads: a client sends a file in parts."""
