"""The rows of X for methods: views without a copy, checks of the values, compression, samples, and a transposed
copy."""
