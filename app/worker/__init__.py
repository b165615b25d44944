"""The worker: a supervisor with one training process for each slot, and the work that these processes do."""
