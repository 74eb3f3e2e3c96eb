"""ONNX: reads a file, converts it to Relax, and evaluates it; `format.py` is the member of the registry."""
