"""Winograd's minimal filtering of 3x3 convolutions: the matrices, the applicable kernels, and the resulting stages."""
