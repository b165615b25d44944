"""X as methods see it: views without a copy, inspection, compression, samples, columns."""
