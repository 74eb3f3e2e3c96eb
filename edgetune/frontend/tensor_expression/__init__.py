"""Tensor expressions: makes a kernel of one written in Python; `format.py` is the member of the registry."""
