"""One module a format: each declares an `ExportFormat`. Libraries that are slow to import are imported on use."""
