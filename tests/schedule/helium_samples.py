"""Kernels for Helium, and for cores without any vectors: fixed-point convolutions by the algorithm that each is for."""

from __future__ import annotations

from dataclasses import replace

from tests.fixed_point_samples import FixedPoint

_SHARED = FixedPoint(shape=(6, 9, 32), out=12)
_POINTS = replace(_SHARED, kernel=(1, 1), pad=(0, 0, 0, 0))
_OWN = FixedPoint(shape=(9, 7, 16), out=16, groups=16)

WINDOWS = {
    "3x3": _OWN,
    "3x3 of one group": replace(_OWN, shape=(5, 6, 8), out=8, groups=8),
    "3x3, stride 2": replace(_OWN, stride=2, pad=(0, 0, 1, 1)),
    "3x3, taps out of reach": replace(_OWN, shape=(5, 4, 128), out=128, groups=128),
    "5x3": replace(_OWN, kernel=(5, 3), pad=(2, 1, 2, 1)),
    "1x4": replace(_OWN, kernel=(1, 4), pad=(0, 0, 0, 0)),
    "5x1": replace(_OWN, kernel=(5, 1), pad=(2, 0, 2, 0)),
    "2x2": replace(_OWN, kernel=(2, 2), pad=(0, 0, 0, 0)),
    "no zero point": replace(_OWN, zero=0),
    "zero point at the end": replace(_OWN, zero=-128),
}
PRODUCTS = {
    "1x1": (_POINTS, "dot_int8_16"),
    "1x1, residual": (replace(_POINTS, residual=True), "dot_int8_16"),
    "1x1, large shifts": (replace(_POINTS, most=24), "dot_int8_16"),
    "1x1, residual, large shifts": (replace(_POINTS, most=24, residual=True), "dot_int8_16"),
    "1x1, ten channels": (replace(_POINTS, out=10), "dot_int8_16"),
    "1x1, overlapping tiles": (replace(_POINTS, shape=(5, 7, 32), out=6), "dot_int8_16+tiles_3"),
    "3x3": (_SHARED, "dot_int8_16"),
    "3x3, residual": (replace(_SHARED, residual=True), "dot_int8_16"),
    "3x3, overlapping tiles": (replace(_SHARED, shape=(6, 10, 32)), "dot_int8_16+tiles_3"),
    "5x4, im2col": (replace(_SHARED, shape=(9, 10, 1), kernel=(5, 4)), "im2col_int8_16"),
    "3x3 of 16 channels, im2col": (replace(_SHARED, shape=(5, 6, 16), stride=2), "im2col_int8_16"),
}
BYTES = {
    "1x1": (_POINTS, "dot_int8_4"),
    "1x1, odd channels": (replace(_POINTS, out=5), "dot_int8_4"),
    "3x3": (_SHARED, "dot_int8_4"),
    "three channels": (replace(_SHARED, shape=(6, 7, 3)), "dot_int8_4"),
    "one channel": (replace(_SHARED, shape=(9, 10, 1), kernel=(5, 4)), "dot_int8_4"),
}
"""By kind: the convolution, and the algorithm."""
