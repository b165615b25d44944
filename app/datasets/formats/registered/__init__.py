"""One module per format, or per reader; each declares `FileFormat`s and imports no large library."""
