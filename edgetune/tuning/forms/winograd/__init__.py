"""Minimal filtering (Winograd) of 3x3 convolutions: the algorithms, what they apply to, and the stages they become."""
