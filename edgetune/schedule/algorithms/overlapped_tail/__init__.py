"""Overlapped tail: whole vectors of channels or whole tiles of pixels if their size does not divide the axis.

The last one overlaps the one before it. Nothing is padded and nothing is peeled: shared elements are computed twice,
from the same operands, and written twice. Weights get this layout when the package is built.
"""
