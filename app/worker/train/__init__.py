"""Training in a worker: load, split, preprocess, train, evaluate, checkpoint, write."""
