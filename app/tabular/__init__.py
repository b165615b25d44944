"""Tables in memory: frames of features, parsing of text cells, shapes and types of arrays."""
