"""Code that several families of methods share."""
