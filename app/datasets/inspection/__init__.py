"""Inspection of datasets: first rows, column statistics, data issues."""
