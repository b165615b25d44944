"""Turns the bytes of an upload into the arrays of a dataset: receives the file, parses it in a child process, stores
it."""
