"""Resumable uploads: a file sent in parts."""
