"""The problem: its parameters, labels, costs, and the exact statement for each task."""
