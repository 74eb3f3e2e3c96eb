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
TAPS = {
    "3x3 of 16 channels": (replace(_SHARED, shape=(6, 8, 16)), "1x4x1_3_taps_near"),
    "3x3 of 16 channels, three pixels": (replace(_SHARED, shape=(6, 9, 16)), "1x3x2_3_taps_near"),
    "3x3 of 64 channels, large shifts": (replace(_SHARED, shape=(4, 8, 64), most=24), "4x4x1_3_taps_near"),
    "3x3 of 144 channels, two rows": (replace(_SHARED, shape=(3, 4, 144)), "3x2x2_3_taps_near"),
    "3x3 of 144 channels": (replace(_SHARED, shape=(3, 4, 144), out=6, residual=True), "3x4x1_3_taps"),
    "3x3 of 40 channels, taps of a column": (replace(_SHARED, shape=(8, 5, 40), residual=True), "8x4x1_3_taps"),
    "3x3 of 9 channels, unaligned": (replace(_SHARED, shape=(8, 5, 9), out=6), "2x4x1_3_taps"),
    "5x5": (replace(_SHARED, shape=(6, 8, 16), kernel=(5, 5), pad=(2, 2, 2, 2)), "1x4x1_5_taps_near"),
}
"""Windows of which one function computes several taps, and what it is called."""

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
    "1x1, residual, shift of 1": (replace(_POINTS, residual=True, other=1), "dot_int8_16"),
    "residual without a shift, 1x1": (replace(_POINTS, residual=True, other=0), "dot_int8_16"),
    **{kind: (sample, "dot_int8_16") for kind, (sample, _) in TAPS.items()},
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
