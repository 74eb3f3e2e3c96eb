"""Whole vectors of channels and whole tiles of pixels where these do not divide: the last overlaps the one before it.

Nothing is padded and nothing peeled: what two of them share is computed twice, from the same operands, and written
twice. Weights are laid out so when the package is built.
"""
