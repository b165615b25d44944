"""One module per export format; each declares an `ExportFormat`. Slow libraries are imported on use."""
