"""Training in a worker: load, split, prepare, train, judge, checkpoint, write."""
