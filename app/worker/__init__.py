"""The worker: a supervisor that owns one process a slot, and the pipeline that each process runs."""
