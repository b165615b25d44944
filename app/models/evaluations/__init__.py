"""Stored reports of models on labelled datasets."""
