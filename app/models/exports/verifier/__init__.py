"""What is shipped with a model to those who check its certificate themselves."""
