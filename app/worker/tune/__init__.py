"""The search of a tuning job: trainings of all folds, their progress and checkpoints, and the path of models."""
