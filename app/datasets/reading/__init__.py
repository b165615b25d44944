"""From the bytes of an upload to the arrays of a dataset: receive, parse in a child process, store."""
