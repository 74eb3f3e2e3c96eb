"""Scale tables: constant scales as the two factors that a core with few registers multiplies by.

A scale of `edgetune.graph.fixed_point` is one number of 32 bits, from which a kernel takes multiplier and shift. Where
each result has its own, and nothing hides the instructions for that, the table has both factors of each scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tvm_ffi
from tvm import ir, tirx

from edgetune.affine.expressions import is_among
from edgetune.codegen.context import Scales
from edgetune.codegen.dtypes import Element, element_and_lanes
from edgetune.codegen.intrinsics import table_load
from edgetune.codegen.narrowing import narrowing
from edgetune.graph.kernels import SCALES_SHIFT, SCALES_SHIFT_LITTLE
from edgetune.target.isa.vector_instructions import VectorInstructions
from edgetune.tvm_types import BufferLoad, Expr, PrimFunc, TvmBuffer

_SHIFT = np.uint32(31)
"""The bits of a scale that shift."""


@dataclass(frozen=True)
class ScaleTable:
    """Scales (uint32) as factors (int32): 2 m - 2^32, and 2^(32 - right), in a last axis of their own.

    They shift by 2 bits or more, so that both are numbers of 32 bits. Where all results become bytes, the second one is
    one more: then a product rounds ties away from 0 by itself, as long as they shift by 12 bits or less, and the zero
    point is a byte of that type, so that what is scaled is less than 256 from 0 where the limits do not hide it.
    """

    of_bytes: bool = False

    def apply(self, source: np.ndarray) -> np.ndarray:
        """`source` so."""
        scales = source.astype(np.uint64)
        digits = (scales & ~np.uint64(_SHIFT)) >> np.uint64(1) | np.uint64(1 << 31)
        places = np.uint64(1 << 32) >> (scales & np.uint64(_SHIFT))
        places += np.uint64(self.of_bytes)
        return np.stack([digits, places], axis=-1).astype(np.uint32).view(np.int32)


def _is_byte(zero: int, of: Element) -> bool:
    least, most = (0, 255) if of.kind == "uint" else (-128, 127)
    return least <= zero <= most


def scales_of(
    function: PrimFunc, vectors: VectorInstructions, base: Callable[[TvmBuffer], TvmBuffer]
) -> dict[TvmBuffer, Scales]:
    """The constant scales of a function that shift by 2 bits or more; those are tables of which nothing else is read.

    There are tables where the instructions are `vectors`. `base` is the parameter that a buffer stands for.
    """
    shifting = [function.params[int(number)] for number in (function.attrs or {}).get(SCALES_SHIFT, [])]
    read: Counter[TvmBuffer] = Counter()
    scales: Counter[TvmBuffer] = Counter()
    bytes_of: Counter[TvmBuffer] = Counter()

    def load(one: BufferLoad) -> None:
        read[base(one.source)] += 1

    def scaled(one: Expr) -> None:
        scale = table_load(one)
        if scale is not None:
            scales[base(scale.source)] += 1

    def narrowed(one: Expr) -> None:
        found = narrowing(one)
        scale = None if found is None else table_load(found.value)
        if found is not None and scale is not None and _is_byte(found.zero, element_and_lanes(one.ty)[0]):
            bytes_of[base(scale.source)] += 1

    tvm_ffi.structural_walk(function.body, (ir.TensorLoad, load))
    tvm_ffi.structural_walk(function.body, (ir.Call, scaled))
    tvm_ffi.structural_walk(function.body, (tirx.Cast, narrowed))
    little = [function.params[int(number)] for number in (function.attrs or {}).get(SCALES_SHIFT_LITTLE, [])]
    found: dict[TvmBuffer, Scales] = {}
    for one in shifting:
        table = bool(vectors.scaled_byte_by) and read[one] == scales[one] > 0
        of_bytes = table and bytes_of[one] == scales[one] and is_among(one, little)
        found[one] = "byte table" if of_bytes else "table" if table else "shift"
    return found
