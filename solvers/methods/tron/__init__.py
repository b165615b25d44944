"""Trust-region Newton for squared hinge."""
