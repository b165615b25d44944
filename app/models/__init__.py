"""Models: immutable files with a certificate, registered by name and version."""
