"""The formats of datasets. Each module declares the formats of one reader, and imports no large library."""
