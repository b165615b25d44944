"""The active-set method for squared hinge."""
