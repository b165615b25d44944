"""Newton's method on a matrix of features x features, for tall data."""
