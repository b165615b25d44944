"""The estimators of `hyperplane.sklearn`: one module for each kind, and the two ways to train."""
