"""What is inside a dataset: its first rows, statistics of its columns, findings of the data doctor."""
