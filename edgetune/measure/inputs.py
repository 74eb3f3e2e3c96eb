"""Seeded random inputs of a kernel, at a scale at which its outputs mean something."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from edgetune.graph.program import Param

_WIDE_LIMIT = 1000  # 32-bit integers stay small enough that sums and products of a kernel do not overflow
_INDEX_LIMIT = 8
_ANYWHERE = 1 / 16


def random_input(
    param: Param, others: tuple[Param, ...], generator: np.random.Generator, *, positive: bool
) -> np.ndarray:
    """Return an array for one input or constant.

    Floats are N(0, 1), constants with at least two axes divided by the square root of their fan-in (elements per slice
    of the first axis), so that sums keep the scale of the inputs. int8, uint8, int16 and uint16 use their whole range,
    most values near its middle, so that quantised sums do not all saturate.
    64-bit integers are taken for indices: 0 up to the smallest axis of the float and small integer `others`, 8 at most.
    `positive` asks for values above 0.1 (1 for integers), for kernels that divide or take logarithms.
    """
    kind = np.dtype(param.dtype)
    if kind == np.bool_:
        return generator.integers(0, 2, param.shape).astype(np.bool_)
    if kind.kind in "iu":
        low, high = _range(param, others, positive=positive)
        if kind.itemsize <= 2:  # noqa: PLR2004  quantised values
            spread = (high - low) / 8
            near = np.rint(generator.normal((low + high) / 2, spread, param.shape)).clip(low, high)
            anywhere = generator.integers(low, high, param.shape, endpoint=True)
            return np.where(generator.random(param.shape) < _ANYWHERE, anywhere, near).astype(kind)
        return np.asarray(generator.integers(low, high, param.shape, endpoint=True)).astype(kind)
    values = np.asarray(generator.standard_normal(param.shape))
    if positive:
        values = np.abs(values) + 0.1
    if param.role == "constant" and len(param.shape) > 1:
        values = values / sqrt(max(1, prod(param.shape[1:])))
    return values.astype(kind)


def _range(param: Param, others: tuple[Param, ...], *, positive: bool) -> tuple[int, int]:
    kind = np.dtype(param.dtype)
    limits = np.iinfo(kind)
    if kind.itemsize == 8:  # noqa: PLR2004  int64, uint64
        axes = [extent for other in others if other is not param and other.role != "output" for extent in other.shape]
        high = min([_INDEX_LIMIT, *axes]) - 1
        return (min(1, high) if positive else 0), max(high, 0)
    if kind.itemsize == 4:  # noqa: PLR2004  int32, uint32
        low, high = max(int(limits.min), -_WIDE_LIMIT), _WIDE_LIMIT
    else:
        low, high = int(limits.min), int(limits.max)
    return (1 if positive else low), high
