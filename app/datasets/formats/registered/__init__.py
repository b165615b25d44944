"""One module a format, or a few that share a reader: each declares `FileFormat`s and imports no heavy library."""
