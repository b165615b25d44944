"""The parts of an ONNX graph: raw columns in, scores out. `writers/onnx.py` adds labels and probabilities."""
