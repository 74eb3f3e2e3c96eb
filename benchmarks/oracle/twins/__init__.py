"""Expressions of the corpus as ONNX models, and as registered operators of ONNX models."""
