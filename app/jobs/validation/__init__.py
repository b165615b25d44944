"""What is checked of a job before a worker sees it."""
