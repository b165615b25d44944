"""Rows and cells as every feature sees them: frames, spellings of values, shapes and types of arrays."""
