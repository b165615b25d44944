"""Names that point at versions of a model: move, share by weight, shadow, roll back."""
