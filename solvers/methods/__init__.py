"""The algorithms: one file each, or a folder for a family. Found by engine/registry.py."""
