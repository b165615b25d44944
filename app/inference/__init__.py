"""The Open Inference Protocol (V2): the same models and the same predictions, spoken to by its clients."""
