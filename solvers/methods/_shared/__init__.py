"""What several families of methods use."""
